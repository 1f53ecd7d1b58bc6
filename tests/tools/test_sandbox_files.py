"""Parts that need no box: paths, links, snapshots, limits, filters, control groups, stop reasons."""

import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools.sandbox import (
    STOPS,
    BadLimits,
    BadPath,
    BoxFull,
    Limits,
    SnapshotError,
    cgroups,
    files,
)
from turncredit.tools.sandbox.box import stop_reason
from turncredit.tools.sandbox.untrusted_archives import TreeLimits, read_archive, write_archive
from turncredit.tools.sandbox.untrusted_trees import clear, read_tree, remove, replace_tree, usage

SMALL = TreeLimits(1 << 20, 200, 1 << 20)
Member = tuple[tarfile.TarInfo, bytes]


def pack(root: int, limits: TreeLimits = SMALL) -> bytes:
    return write_archive(read_tree(root, limits))


def unpack(root: int, snapshot: bytes) -> None:
    replace_tree(root, read_archive(snapshot, SMALL), os.getuid())


def archive(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for header, data in members:
            tar.addfile(header, io.BytesIO(data))
    return buffer.getvalue()


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
        snapshot = pack(first)
        files.write(second, "other", b"x", os.getuid())
        unpack(second, snapshot)
        assert pack(second) == snapshot
        assert {name: files.read(second, f"d/{name}", 100) for name in content} == content
        os.close(first)
        os.close(second)


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_snapshot_or_refused(data: bytes) -> None:
    with suppress(SnapshotError, BoxFull):
        assert sum(len(entry.data) for entry in read_archive(data, TreeLimits(1000, 10, 1000))) <= 1000


def member(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> Member:
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
def test_snapshots_cannot_leave_the_box(entries: list[Member]) -> None:
    with pytest.raises(SnapshotError):
        read_archive(archive(entries), SMALL)


def test_links_that_appear_later_are_not_followed(root: int, tmp_path: Path) -> None:
    os.symlink("..", "link", dir_fd=root)
    for path in ("link/outside", "link/new"):
        with pytest.raises(BadPath, match="through a link"):
            files.read(root, path, 100)
        with pytest.raises(BadPath, match="through a link"):
            files.write(root, path, b"x", os.getuid())
    unpack(root, archive([member("a/x", data=b"y")]))
    assert (tmp_path / "outside").read_text() == "secret"
    assert os.listdir(root) == ["a"]


def test_emptying_a_folder_does_not_follow_links(root: int, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").write_text("x")
    os.symlink("../kept", "link", dir_fd=root)
    files.write(root, "a/b/c", b"1", os.getuid())
    clear(root)
    assert os.listdir(root) == []
    assert (tmp_path / "kept" / "x").exists()


def test_a_snapshot_that_is_too_large_is_refused() -> None:
    large = archive([member("a", data=bytes(2000)), member("b")])
    with pytest.raises(BoxFull, match="'a' has 2,000 bytes; a file in the box may have 1,000"):
        read_archive(large, TreeLimits(10_000, 100, 1000))
    with pytest.raises(BoxFull, match="more than the 1,000 bytes"):
        read_archive(large, TreeLimits(1000, 100, 5000))
    with pytest.raises(BoxFull, match="more than the 1 files"):
        read_archive(large, TreeLimits(10_000, 1, 5000))


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
        pack(root)
    assert usage(root, 5000)[1] > 5000
    clear(root)
    assert os.listdir(root) == []
    nested(root, 3000)
    remove(f"{tmp_path}/work")
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
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(entry)
    if fits:
        snapshot = pack(root)
        unpack(root, snapshot)
        assert pack(root) == snapshot
        files.write(root, path, b"y", os.getuid())
        assert files.read(root, path, 100) == b"y"
        assert usage(root, 5000)[1] == depth + 1
        return
    with pytest.raises(SnapshotError, match="at most 4,096 bytes"):
        pack(root)
    with pytest.raises(SnapshotError, match="at most 4,096 bytes"):
        read_archive(buffer.getvalue(), SMALL)
    with pytest.raises(BadPath, match="at most 4,096 bytes"):
        files.write(root, path, b"y", os.getuid())


def test_usage_counts_files_and_bytes(root: int) -> None:
    assert usage(root, 100) == (0, 0)
    files.write(root, "a/b", bytes(5000), os.getuid())
    size, count = usage(root, 100)
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


def test_control_groups_of_both_versions(tmp_path: Path) -> None:
    """With plain files in place of the kernel's."""
    assert cgroups.create("x", 1000, tmp_path) is None
    (tmp_path / "cgroup.procs").touch()
    assert cgroups.create("x", 1000, tmp_path) is None  # a folder without memory.max: the controller is not there
    assert list(tmp_path.glob("turncredit-*")) == []
    group = cgroups.ControlGroup(tmp_path, "memory.events", "cgroup.procs")
    assert group.kills() == 0
    (tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.kills() == 2
    (tmp_path / "turncredit-999999999-1").mkdir()
    (tmp_path / f"turncredit-{os.getpid()}-1").mkdir()
    cgroups.sweep(tmp_path)
    assert [path.name for path in tmp_path.glob("turncredit-*")] == [f"turncredit-{os.getpid()}-1"]


def test_snapshots_of_other_programs_are_accepted(root: int) -> None:
    """A tar made by others, with './' before the names and folders that are only implied."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("./a/b")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    unpack(root, buffer.getvalue())
    assert files.read(root, "a/b", 100) == b"x"
