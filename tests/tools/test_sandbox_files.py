"""Parts that need no box: paths, links, snapshots, limits, filters, control groups, stop reasons."""

import io
import os
import struct
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.tools.sandbox import (
    STOPS,
    BadLimits,
    BadPath,
    BoxFull,
    Limits,
    SnapshotError,
    cgroups,
    files,
    seccomp,
)
from turnwise.tools.sandbox.box import stop_reason


@pytest.fixture
def root(tmp_path: Path) -> int:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "work").mkdir()
    return os.open(tmp_path / "work", os.O_DIRECTORY)


@given(st.text(alphabet="ab./\\\0é-~ ", max_size=12))
def test_paths_stay_inside_or_are_refused(text: str) -> None:
    try:
        names = files.split_path(text)
    except BadPath:
        return
    assert names
    assert not {"", ".", ".."} & set(names)
    assert os.path.normpath("/box/" + "/".join(names)).startswith("/box/")


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=50), max_size=5))
def test_snapshots_round_trip(content: dict[str, bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = os.open(one, os.O_DIRECTORY), os.open(two, os.O_DIRECTORY)
        for name, data in content.items():
            files.write(first, f"d/{name}", data, os.getuid())
        snapshot = files.pack(first)
        files.write(second, "other", b"x", os.getuid())
        files.unpack(second, files.checked(snapshot, 10_000, 100), os.getuid())
        assert files.pack(second) == snapshot
        assert {name: files.read(second, f"d/{name}") for name in content} == content
        os.close(first)
        os.close(second)


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_snapshot_or_refused(data: bytes) -> None:
    with suppress(SnapshotError, BoxFull):
        assert sum(len(content) for _, content in files.checked(data, 1000, 10)) <= 1000


def member(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> files.TarEntry:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname = kind, len(data), link
    return entry, data


@pytest.mark.parametrize(
    "entries",
    [
        [member("../outside", data=b"x")],
        [member("/etc/passwd", data=b"x")],
        [member("a/../../outside", data=b"x")],
        [member("link", tarfile.SYMTYPE, link=".."), member("link/outside", data=b"x")],
        [member("a/link", tarfile.SYMTYPE, link="/"), member("a/link/tmp/x", data=b"x")],
        [member("hard", tarfile.LNKTYPE, link="../outside")],
        [member("device", tarfile.CHRTYPE)],
        [member("pipe", tarfile.FIFOTYPE)],
    ],
)
def test_snapshots_cannot_leave_the_box(entries: list[files.TarEntry]) -> None:
    with pytest.raises(SnapshotError):
        files.checked(files.archive(entries), 10_000, 100)


def test_links_that_appear_later_are_not_followed(root: int, tmp_path: Path) -> None:
    entries = files.checked(files.archive([member("a/x", data=b"y")]), 10_000, 100)
    os.symlink("..", "link", dir_fd=root)
    for path in ("link/outside", "link/new"):
        with pytest.raises(BadPath, match="through a link"):
            files.read(root, path)
        with pytest.raises(BadPath, match="through a link"):
            files.write(root, path, b"x", os.getuid())
    files.unpack(root, entries, os.getuid())
    assert (tmp_path / "outside").read_text() == "secret"
    assert os.listdir(root) == ["a"]


def test_emptying_a_folder_does_not_follow_links(root: int, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").write_text("x")
    os.symlink("../kept", "link", dir_fd=root)
    files.write(root, "a/b/c", b"1", os.getuid())
    files.clear(root)
    assert os.listdir(root) == []
    assert (tmp_path / "kept" / "x").exists()


def test_a_snapshot_that_is_too_large_is_refused() -> None:
    large = files.archive([member("a", data=bytes(2000)), member("b")])
    with pytest.raises(BoxFull, match="2,000 bytes in 2 files; the box may have 1,000 in 100"):
        files.checked(large, 1000, 100)
    with pytest.raises(BoxFull):
        files.checked(large, 10_000, 1)


def nested(root: int, depth: int, name: str = "d") -> None:
    """Make folders in each other, which no path could name."""
    fd = os.dup(root)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("x", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


def test_deeply_nested_directories_are_refused_and_removed(root: int, tmp_path: Path) -> None:
    nested(root, 3000)
    with pytest.raises(SnapshotError, match="cannot take a snapshot: a path in a box may have at most 4,096 bytes"):
        files.pack(root)
    assert files.usage(root, 5000)[1] > 5000
    files.clear(root)
    assert os.listdir(root) == []
    nested(root, 3000)
    files.remove(f"{tmp_path}/work")
    assert not (tmp_path / "work").exists()
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("depth", "name", "fits"), [(99, "d", True), (100, "d", False), (16, "e" * 255, False), (15, "e" * 255, True)]
)
def test_snapshot_restore_and_write_share_path_limits(root: int, depth: int, name: str, fits: bool) -> None:
    nested(root, depth, name)
    path = f"{name}/" * depth + "x"
    entry = tarfile.TarInfo(path)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry)
    if fits:
        snapshot = files.pack(root)
        files.unpack(root, files.checked(snapshot, 1000, 200), os.getuid())
        assert files.pack(root) == snapshot
        files.write(root, path, b"y", os.getuid())
        assert files.read(root, path) == b"y"
        assert files.usage(root, 5000)[1] == depth + 1
        return
    with pytest.raises(SnapshotError, match="at most 4,096 bytes"):
        files.pack(root)
    with pytest.raises(SnapshotError, match="at most 4,096 bytes"):
        files.checked(buffer.getvalue(), 1000, 200)
    with pytest.raises(BadPath, match="at most 4,096 bytes"):
        files.write(root, path, b"y", os.getuid())


def test_usage_counts_files_and_bytes(root: int) -> None:
    assert files.usage(root, 100) == (0, 0)
    files.write(root, "a/b", bytes(5000), os.getuid())
    size, count = files.usage(root, 100)
    assert (size >= 5000, count) == (True, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"wall": 0}, "> 0"),
        ({"wall": float("inf")}, "finite"),
        ({"wall": float("nan")}, "finite"),
        ({"memory": 1}, ">= 16,777,216"),
        ({"processes": 1.5}, "an integer"),
        ({"output": True}, "an integer"),
        ({"network": 1}, "True or False"),
        ({"disk": -1}, "> 0"),
        ({"wal": 1}, "did you mean 'wall'"),
    ],
)
def test_invalid_limits_are_refused(change: dict[str, float], words: str) -> None:
    with pytest.raises(BadLimits, match=words):
        Limits().but(**change)


@pytest.mark.parametrize(
    ("code", "stderr", "full", "stop"),
    [
        (0, b"MemoryError", True, "exit"),
        (1, b"Traceback\nMemoryError\n", False, "memory"),
        (
            134,
            b"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
            False,
            "memory",
        ),
        (1, b"RuntimeError: can't start new thread", False, "processes"),
        (1, b"OSError: [Errno 28] No space left on device", False, "disk"),
        (1, b"", True, "disk"),
        (1, b"MemoryError was handled\nthen\nother\nthings\nValueError\n", False, "exit"),
        (137, b"", False, "killed"),
        (139, b"", False, "exit"),
    ],
)
def test_why_a_program_stopped(code: int, stderr: bytes, full: bool, stop: str) -> None:
    assert stop_reason(code, stderr, full) == stop
    assert stop in STOPS


def judge(program: bytes, number: int, *arguments: int, audit: int = 0xC000003E) -> int:
    """Interpret a filter for one call, as the kernel does."""
    data = struct.pack("iIQ6Q", number, audit, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    lines = list(struct.iter_unpack("HBBI", program))
    place = value = 0
    while True:
        code, true, false, operand = lines[place]
        place += 1
        if code == 0x20:
            value = struct.unpack_from("I", data, operand)[0]
        elif code == 0x06:
            return operand
        else:
            held = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            place += true if held else false


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
def test_the_filter_refuses_exactly_the_listed_calls() -> None:
    allow, refuse, missing, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
    alone, base = (
        seccomp.program(seccomp.without_namespaces(network=False, own_uid=False)),
        seccomp.program(seccomp.BASE),
    )
    for number in (0, 1, 2, 9, 39, 57, 59, 60, 231):  # read, write, open, mmap, getpid, fork, execve, exit, exit_group
        assert judge(alone, number) == judge(base, number) == allow
    for number in (101, 165, 272, 308, 321, 425):  # ptrace, mount, unshare, setns, bpf, io_uring_setup
        assert judge(alone, number) == judge(base, number) == refuse
    assert (judge(alone, 41), judge(base, 41)) == (refuse, allow)  # socket
    assert judge(base, 435) == missing  # clone3
    assert judge(base, 56, 17) == allow
    assert judge(base, 56, 0x10000000 | 17) == refuse
    assert (judge(base, 302, 0), judge(base, 302, 77)) == (allow, refuse)  # prlimit64
    assert judge(base, 0x40000000 | 1) == kill
    assert judge(base, 1, audit=0x40000003) == kill
    assert judge(seccomp.program(seccomp.without_namespaces(network=False, own_uid=True)), 90) == refuse  # chmod
    assert judge(seccomp.program(seccomp.without_namespaces(network=True, own_uid=True)), 41) == allow


def test_control_groups_of_both_versions(tmp_path: Path) -> None:
    """With plain files in place of the kernel's."""
    assert cgroups.create("x", 1000, tmp_path) is None
    (tmp_path / "cgroup.procs").touch()
    assert cgroups.create("x", 1000, tmp_path) is None  # a folder without memory.max: the controller is not there
    assert list(tmp_path.glob("turnwise-*")) == []
    group = cgroups.ControlGroup(tmp_path, "memory.events")
    assert group.kills() == 0
    (tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.kills() == 2
    (tmp_path / "turnwise-999999999-1").mkdir()
    (tmp_path / f"turnwise-{os.getpid()}-1").mkdir()
    cgroups.sweep(tmp_path)
    assert [path.name for path in tmp_path.glob("turnwise-*")] == [f"turnwise-{os.getpid()}-1"]


def test_snapshots_of_other_programs_are_accepted(root: int) -> None:
    """A tar made by others, with './' before the names and folders that are only implied."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("./a/b")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    files.unpack(root, files.checked(buffer.getvalue(), 1000, 10), os.getuid())
    assert files.read(root, "a/b") == b"x"
