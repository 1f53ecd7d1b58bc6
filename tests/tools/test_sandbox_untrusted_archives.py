"""Archives from a box: attacks on the reader, each beside the program that it works on, and fuzzing."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.hostile_archives import END, SMALL, archive, base256, header, member, octal, padded, pax, plain, record

from turncredit.tools.sandbox import BoxFull, SandboxError, SnapshotError
from turncredit.tools.sandbox.untrusted_archives import (
    FileEntry,
    TreeLimits,
    path_problem,
    read_archive,
    write_archive,
)
from turncredit.tools.sandbox.untrusted_headers import LATEST_TIME

DEEP_NAMES = member(b"name", b"x\0", b"L") * 5000 + member(b"x") + END
LINKED = [plain("file0", data=b"x"), *(plain(f"file{n}", tarfile.LNKTYPE, link=f"file{n - 1}") for n in range(1, 5000))]
OLD_SPARSE = header(b"hole", b"S", 0, rest=bytes(121) + octal(0) + octal(0) + bytes(73) + octal(8**10))
PAX_SPARSE = pax(GNU__sparse__major=b"1", GNU__sparse__minor=b"0", GNU__sparse__realsize=b"99999999999")


def standard(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        return tar.getmembers()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated at byte 0"),
        (b"x" * 5000, "not a number"),
        (member(b"a"), "without an end mark"),
        (member(b"a", b"data")[:700], "truncated"),
        (header(b"a", size=1000) + END, "truncated: a file has 1,024 of 1,000|without an end mark"),
        (header(b"a", size=5000) + END, "1,024 of 5,000 bytes"),
        (header(b"a", size=base256(-512)) + member(b"b") + END, "a file has -512 bytes"),
        (member(b"a").replace(b"a", b"b", 1) + END, "damaged"),
        (header(b"a", size=b"12x45678901\0") + END, "not a number"),
        (member(b"n", b"x\0", b"L") + END, "a header is missing"),
        (OLD_SPARSE + END, "not a file, folder or symbolic link"),
        (PAX_SPARSE + member(b"a") + END, "holes"),
        (DEEP_NAMES, "more than 4 headers"),
        (member(b"p", record(b"comment", b""), b"g") * 5 + member(b"a") + END, "more than 4 headers"),
        (pax() * 5 + member(b"a") + END, "more than 4 headers"),
        (header(b"n", b"L", 1 << 20) + bytes(1 << 20) + END, "1,048,576 bytes; at most 65,536"),
        (header(b"p", b"x", base256(1 << 40)), "at most 65,536"),
        (member(b"p", b"9" * 60_000, b"x") + END, "without a length"),
        (member(b"p", b"0 a=b\n", b"x") + END, "damaged record"),
        (member(b"p", b"6 a=b", b"x") + END, "damaged record"),
        (member(b"p", record(b"a", b"b") * 33, b"x") + END, "more than 32 records"),
        (member(b"p", b"999 a=b\n", b"x") + END, "damaged record"),
        (member(b"p", b"-8 a=b\n", b"x") + END, "without a length"),
        (member(b"p", record(b"path", b"b"), b"g") + member(b"a") + END, "a global header"),
        (pax(size=b"-1") + member(b"a") + END, "the size '-1'"),
        (pax(size=b"9" * 30) + member(b"a") + END, "the size '9"),
        (pax(size="٣".encode()) + member(b"a") + END, "the size"),
        (pax(mtime=b"nan") + member(b"a") + END, "the time 'nan'"),
        (pax(mtime=b"inf") + member(b"a") + END, "the time 'inf'"),
        (pax(mtime=b"1e400") + member(b"a") + END, "the time '1e400'"),
        (pax(mtime=b"9" * 5000) + member(b"a") + END, "the time '9"),
        (pax(path=b"a\0b") + member(b"a") + END, "outside"),
        (pax(path=b"d" * 256) + member(b"a") + END, "at most 255 bytes"),
        (pax(path=b"d/" * 100 + b"x") + member(b"a") + END, "100 components"),
        (pax(path=b"d/" * 3000) + member(b"a") + END, "at most 4,096 bytes"),
        (pax(linkpath=b"x" * 4096) + member(b"a", kind=b"2") + END, "a target of 4,096 bytes"),
        (pax(linkpath=b"a\0b") + member(b"a", kind=b"2") + END, "null character"),
        (member(b"a", kind=b"2") + END, "a target of 0 bytes"),
        (member(b"d", b"content", b"5") + END, "is no file"),
        (member(b"/etc/passwd") + END, "outside"),
        (member(b"../x") + END, "outside"),
        (member(b"") + END, "outside"),
        (member(b"./") + member(b".", kind=b"2", link=b"/") + END, "outside"),
        (member(b"a", kind=b"2", link=b"/") + member(b"./a/x", b"y") + END, "through a link"),
        (member(b"./a", kind=b"2", link=b"/") + member(b"a/x", b"y") + END, "through a link"),
        (member(b"b/.//a", kind=b"2", link=b"/") + member(b"./b/a//x", b"y") + END, "through a link"),
        (member(b"a/x", b"y") + member(b"./a", kind=b"2", link=b"/") + END, "there twice"),
        (member(b"a", b"y") + member(b"a/b/c") + END, "through a link or a file"),
        (member(b"a", b"y") + member(b"./a", b"z") + END, "there twice"),
        (member(b"a", kind=b"1", link=b"a") + END, "not a file, folder"),
        *[
            (member(b"a", kind=kind) + END, "not a file, folder")
            for kind in (b"3", b"4", b"6", b"V", b"M", b"D", b"\xff")
        ],
    ],
)
def test_hostile_archives_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        read_archive(data, SMALL)


@pytest.mark.parametrize(
    "data",
    [
        header(b"a", size=2 << 20) + bytes(1024),  # before the content is looked at
        header(b"a", size=base256(1 << 80)) + END,
        pax(size=b"9" * 19) + member(b"a") + END,
        b"".join(member(b"%d" % n, bytes(60_000)) for n in range(20)) + END,
        b"".join(member(b"%d" % n, b"x") for n in range(201)) + END,
        b"".join(pax(path=b"%d/" % n + b"d/" * 90 + b"x") + member(b"a") for n in range(3)) + END,
        member(b"d", kind=b"5") * 201 + END,
    ],
)
def test_archives_above_the_limits_are_refused(data: bytes) -> None:
    with pytest.raises(BoxFull, match="may have"):
        read_archive(data, SMALL)


def test_hard_links_of_a_tar_program_count_again() -> None:
    content = member(b"a", bytes(100_000))
    links = [member(b"%d" % n, kind=b"1", link=b"./a") for n in range(20)]
    found = read_archive(content + b"".join(links[:5]) + END, SMALL, by_tar_program=True)
    assert {entry.path for entry in found} == {"a", "0", "1", "2", "3", "4"}
    assert all(entry.data == bytes(100_000) and entry.kind == "file" for entry in found)
    with pytest.raises(BoxFull):
        read_archive(content + b"".join(links) + END, SMALL, by_tar_program=True)
    for data in (links[0] + content, member(b"x", kind=b"1", link=b"x"), member(b"x", kind=b"1", link=b"../a")):
        with pytest.raises(SnapshotError):
            read_archive(data + END, SMALL, by_tar_program=True)
    deep = read_archive(archive(LINKED[:190]), SMALL, by_tar_program=True)
    assert {entry.data for entry in deep} == {b"x"}


def test_special_files_of_a_tar_program_are_left_out() -> None:
    data = b"".join(member(b"s" + kind, kind=kind) for kind in (b"3", b"4", b"6")) + member(b"a", b"x") + END
    assert [entry.path for entry in read_archive(data, SMALL, by_tar_program=True)] == ["a"]


@pytest.mark.parametrize(
    ("field", "time"),
    [
        (member(b"a", mtime=base256(-5)), 0),
        (member(b"a", mtime=base256(1 << 80)), LATEST_TIME),
        (pax(mtime=b"-12.5") + member(b"a"), 0),
        (pax(mtime=b"12.999") + member(b"a"), 12),
        (pax(mtime=b"9" * 19) + member(b"a"), LATEST_TIME),
    ],
)
def test_times_are_brought_into_range(field: bytes, time: int, tmp_path: Path) -> None:
    (entry,) = read_archive(field + END, SMALL)
    assert entry.mtime == time
    os.utime(tmp_path, (entry.mtime, entry.mtime))


def test_the_standard_library_falls_for_them(tmp_path: Path) -> None:
    """Controls: what the same archives do to programs that read them with `tarfile`."""
    with pytest.raises(RecursionError):
        standard(DEEP_NAMES)
    with tarfile.open(fileobj=io.BytesIO(archive(LINKED)), mode="r:") as tar, pytest.raises(RecursionError):
        tar.extractfile("file4999")
    assert standard(PAX_SPARSE + member(b"a", b"0\n") + END)[0].size == 99_999_999_999
    assert standard(OLD_SPARSE + END)[0].size == 8**10
    for time in (b"nan", b"1e400"):
        (entry,) = standard(pax(mtime=time) + member(b"a") + END)
        with pytest.raises((ValueError, OverflowError)):
            os.utime(tmp_path, (entry.mtime, entry.mtime))
    (entry,) = standard(member(b"a", mtime=base256(1 << 80)) + END)
    with pytest.raises(OverflowError):
        os.utime(tmp_path, (entry.mtime, entry.mtime))
    names = standard(member(b"./a", kind=b"2", link=b"/") + member(b"a/x", b"y") + END)
    links = {entry.name for entry in names if entry.issym()}
    assert "a" not in links  # so a check of the names of links misses that "a/x" goes through one
    (entry,) = standard(pax(path=b"a\0b") + member(b"a") + END)
    with pytest.raises(ValueError, match="null byte"):
        open(entry.name)  # noqa: SIM115


def growth(data: bytes, read: object) -> int:
    tracemalloc.start()
    try:
        with suppress(SandboxError):
            read(data)  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_hole_does_not_grow_on_the_host() -> None:
    size = 64 << 20
    old = header(b"hole", b"S", 0, rest=bytes(121) + octal(0) + octal(0) + bytes(73) + octal(size)) + END

    def naive(data: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            file = tar.extractfile("hole")
            assert file is not None
            file.read()

    assert growth(old, naive) > size  # the control, from an archive of 1.5 KB
    assert growth(old, read_archive) < 1 << 20


DIGITS = """
import re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
sys.path[:] = {path!r}
from turncredit.tools.sandbox import SnapshotError
from turncredit.tools.sandbox.untrusted_archives import read_archive
from toys.hostile_archives import END, member
data = b"1" * 1_000_000
try:
    if {ours}: read_archive(member(b"p", data[:65_536], b"x") * 15 + END)
    else: re.search(rb"\\d+ hdrcharset=([^\\n]+)\\n", data)
except SnapshotError as error: print(error)
"""


def test_headers_are_not_read_in_quadratic_time() -> None:
    """Control: the expression with which `tarfile` looked for a character set until 2024, on as many digits."""
    path = [entry for entry in sys.path if entry]
    runs = [
        subprocess.run([sys.executable, "-c", DIGITS.format(path=path, ours=ours)], capture_output=True, text=True)
        for ours in (False, True)
    ]
    assert runs[0].returncode in (-signal.SIGXCPU, -signal.SIGKILL), runs[0]
    assert "a record without a length" in runs[1].stdout, runs[1]


def test_every_folder_comes_before_its_content() -> None:
    data = member(b"a/b/c", b"x") + member(b"a", kind=b"5", mode=b"0000500\0") + member(b"./", kind=b"5") + END
    found = read_archive(data, SMALL)
    assert [(entry.path, entry.kind, entry.mode) for entry in found] == [
        ("a", "folder", 0o500),
        ("a/b", "folder", 0o755),
        ("a/b/c", "file", 0o644),
    ]


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_all_formats_are_read(format_: int) -> None:
    names = ["é" * 20, "a" * 90 + "/" + "b" * 90, "plain"]
    names += [] if format_ == tarfile.USTAR_FORMAT else ["c" * 200 + "/" + "d" * 200, "bad\udcff"]
    found = read_archive(archive([plain(name, data=name[:3].encode()[:3]) for name in names], format_), SMALL)
    assert [entry.path for entry in found if entry.kind == "file"] == names


# Fuzzing: the same checks are short here and long behind the marker.

names = st.text("ab\udcff", min_size=1, max_size=3)
paths = st.lists(names | st.just("d" * 120), min_size=1, max_size=4).map("/".join)
entries = st.builds(
    FileEntry,
    paths,
    st.sampled_from(["file", "folder", "link"]),
    st.integers(0, 0o777),
    st.integers(0, LATEST_TIME),
    st.binary(max_size=600),
)
fields = st.binary(max_size=12).map(lambda data: data.ljust(12, b"\0")) | st.integers(0, 8**11 - 1).map(octal)
numbers = fields | st.integers(-(1 << 70), 1 << 70).map(base256) | st.integers(0, 2000).map(octal)
odd_names = st.binary(max_size=20) | st.sampled_from([b"a", b"./a", b"a/b", b"a/../b", b"/a", b".", b"a/"])
kinds = st.sampled_from([bytes([number]) for number in b"0125673LKxgXSVDM\0\xff"])
records = st.tuples(
    st.sampled_from([b"path", b"linkpath", b"size", b"mtime", b"GNU.sparse.name", b"hdrcharset"])
    | st.binary(max_size=5),
    st.binary(max_size=30) | st.integers().map(lambda number: b"%d" % number),
).map(lambda pair: record(*pair))
blocks = st.one_of(
    st.builds(
        lambda name, kind, size, mtime, link, data: header(name, kind, size, mtime=mtime, link=link) + padded(data),
        odd_names.map(lambda name: name[:100]),
        kinds,
        numbers,
        numbers,
        odd_names.map(lambda name: name[:100]),
        st.binary(max_size=600),
    ),
    st.builds(lambda name, data, kind: member(name[:100], data, kind), odd_names, st.binary(max_size=600), kinds),
    st.lists(records | st.binary(max_size=20), max_size=4).map(lambda found: member(b"p", b"".join(found), b"x")),
    st.just(END),
    st.binary(max_size=100),
)
hostile = st.lists(blocks, max_size=6).map(b"".join)
mixed = st.tuples(hostile, st.integers(0, 5000), st.binary(max_size=3)).map(
    lambda pair: pair[0][: pair[1]] + pair[2] + pair[0][pair[1] + len(pair[2]) :]
)


def check_written(made: list[FileEntry]) -> None:
    """What is written is read back, or it is no tree and refused."""
    data = write_archive(made)
    assert data == write_archive(made)
    try:
        found = read_archive(data, SMALL)
    except SnapshotError:
        tree: dict[str, str] = {}
        clash = any(entry.kind == "link" and not len(entry.data) > 0 for entry in made)
        clash = clash or any(b"\0" in entry.data or entry.data for entry in made if entry.kind != "file")
        for entry in made:
            clash = (
                clash or tree.get(entry.path, "folder") != "folder" or (entry.path in tree and entry.kind != "folder")
            )
            tree[entry.path] = entry.kind
            parts = entry.path.split("/")
            for number in range(1, len(parts)):
                clash = clash or tree.setdefault("/".join(parts[:number]), "folder") != "folder"
        assert clash
        return
    assert write_archive(found) == write_archive(read_archive(write_archive(found), SMALL))


def check_hostile(data: bytes) -> None:
    """Whatever is accepted is a tree within the limits that is written and read again as it is."""
    limits = TreeLimits(bytes=20_000, entries=8, file_size=5000)
    for by_tar_program in (False, True):
        try:
            found = read_archive(data, limits, by_tar_program=by_tar_program)
        except (SnapshotError, BoxFull) as error:
            assert len(str(error)) < 500  # noqa: PT017
            continue
        assert len(found) <= limits.entries
        seen: dict[str, str] = {}
        for entry in found:
            assert not path_problem(entry.path)
            parent, _, name = entry.path.rpartition("/")
            assert name not in ("", ".", "..")
            assert not parent or seen[parent] == "folder"
            assert entry.path not in seen
            assert "\0" not in entry.path
            assert 0 <= entry.mtime <= LATEST_TIME
            assert 0 <= entry.mode <= 0o777
            assert len(entry.data) <= limits.file_size
            seen[entry.path] = entry.kind
        assert read_archive(write_archive(found), limits) == found


@given(st.lists(entries, max_size=5))
def test_what_is_written_is_read(made: list[FileEntry]) -> None:
    check_written(made)


@given(hostile | mixed | st.binary(max_size=2000))
def test_any_archive_is_a_tree_or_refused(data: bytes) -> None:
    check_hostile(data)


@pytest.mark.slow
@settings(max_examples=4_000)
@given(hostile | mixed)
def test_any_archive_is_a_tree_or_refused_at_length(data: bytes) -> None:
    check_hostile(data)
