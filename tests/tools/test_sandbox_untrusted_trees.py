"""Trees of files in a box that are made to cost the host memory or time, and refused restores."""

import os
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.hostile_archives import END, SMALL, archive, member, pax, plain
from toys.sandboxes import ALL, LIMITS, LOCAL, MB, box_of

from turncredit.tools.sandbox import BadPath, Box, BoxFull, SnapshotError, files
from turncredit.tools.sandbox.untrusted_archives import TreeLimits, disk_space, read_archive, write_archive
from turncredit.tools.sandbox.untrusted_trees import TreeChanged, clear, read_tree, replace_tree, usage

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module", params=ALL)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with box_of(request.param) as made:
        yield made


@pytest.fixture
def clean(box: Box) -> Box:
    box.run(["sh", "-c", "chmod -R u+rwx . /tmp 2>/dev/null; rm -rf ./* ./.[!.]* /tmp/fill*"])
    return box


def pack(root: int, limits: TreeLimits = SMALL) -> bytes:
    return write_archive(read_tree(root, limits))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_DIRECTORY)
    yield fd
    os.close(fd)


HOLES = """
for n in range(40):
    with open(f"hole{n}", "wb") as file: file.truncate(8 << 20)
"""
NAMES = """
import os
with open("name", "wb") as file: file.write(bytes(1 << 20))
for n in range(100): os.link("name", f"name{n}")
"""
LENGTHS = "import os\nfor name in os.listdir('.'): print(os.stat(name).st_size)"


@pytest.mark.parametrize("code", [HOLES, NAMES])
def test_holes_and_names_do_not_grow_on_the_host(clean: Box, code: str) -> None:
    small = clean.snapshot()
    assert clean.run(code).ok
    assert sum(map(int, clean.run(LENGTHS).stdout.split())) > 90 * MB  # the control: what a program would read
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotError, match="more than"):
            clean.snapshot()
        assert tracemalloc.get_traced_memory()[1] < 5 * LIMITS.disk
    finally:
        tracemalloc.stop()
    assert clean.run("print('on')").stdout == "on\n"
    clean.restore(small)
    assert clean.snapshot() == small


def test_holes_are_data_as_long_as_they_fit(clean: Box) -> None:
    clean.run("open('hole', 'wb').truncate(3 << 20)")
    snapshot = clean.snapshot()
    clean.restore(snapshot)
    assert clean.get("hole") == bytes(3 << 20)
    assert clean.snapshot() == snapshot


def test_a_file_above_the_limit_is_not_read(clean: Box) -> None:
    with pytest.raises(BoxFull):
        clean.put("large", bytes(LIMITS.file_size + 1))
    with pytest.raises(BoxFull):
        clean.restore(archive([plain("large", data=bytes(LIMITS.file_size + 1))]))


TIMES = """
import os
for n, time in enumerate((-(2**40), -1, 2**33, 2**40, 2**62)):
    open(f"file{n}", "w").close()
    os.mkdir(f"folder{n}")
    for name in ("file", "folder"):
        try: os.utime(f"{name}{n}", ns=(0, 0)); os.utime(f"{name}{n}", (time, time))
        except (OverflowError, OSError): pass
"""


def test_any_time_is_kept_or_brought_into_range(clean: Box) -> None:
    assert clean.run(TIMES).ok
    snapshot = clean.snapshot()
    clean.restore(snapshot)
    assert clean.snapshot() == snapshot
    assert len(read_archive(snapshot, SMALL)) == 10


ODD = """
import os, socket
os.makedirs(b"\\xff/\\n \\t")
open("./-rf", "w").close()
os.symlink(b"\\xfe" * 3000, "long")
os.symlink("/etc/passwd", "..x")
try: os.mkfifo("pipe")
except PermissionError: pass
try: socket.socket(socket.AF_UNIX).bind("socket")
except PermissionError: pass
os.makedirs("/".join("d" * 90))
open("x" * 255, "w").write("x")
"""


def test_odd_names_are_kept(clean: Box) -> None:
    assert clean.run(ODD).ok
    snapshot = clean.snapshot()
    clean.restore(snapshot)
    assert clean.snapshot() == snapshot
    found = {entry.path: entry for entry in read_archive(snapshot, LIMITS_OF_A_BOX)}
    assert found["long"].data == b"\xfe" * 3000
    assert {"\udcff/\n \t", "-rf", "..x", "x" * 255} < found.keys()
    assert not found.keys() & {"pipe", "socket"}


LIMITS_OF_A_BOX = TreeLimits(LIMITS.disk, LIMITS.files, LIMITS.file_size)
REFUSED = {
    "holes": pax(GNU__sparse__major=b"1") + member(b"a") + END,
    "long chains": member(b"n", b"x\0", b"L") * 5000 + member(b"x") + END,
    "through a link": member(b"./a", kind=b"2", link=b"/") + member(b"a/x", b"y") + END,
    "through a file": member(b"a", b"x") + member(b"a/b", b"y") + END,
    "time": pax(mtime=b"1e999") + member(b"a") + END,
    "null": pax(path=b"a\0b") + member(b"a") + END,
    "long name": pax(path=b"n" * 256) + member(b"a") + END,
    "link without target": member(b"a", kind=b"2") + END,
    "late damage": archive([plain("a", data=b"x")])[:-10240] + member(b"b") + member(b"a", kind=b"3") + END,
    "too many": b"".join(member(b"%d" % n) for n in range(300)) + END,
    "too large": archive([plain(f"{n}", data=bytes(7 * MB)) for n in range(3)]),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refused_restore_changes_nothing(box: Box, reason: str) -> None:
    box.put("keep/file", "kept")
    before = box.snapshot()
    with pytest.raises((SnapshotError, BoxFull)):
        box.restore(REFUSED[reason])
    assert box.snapshot() == before
    assert box.get("keep/file") == b"kept"


FILL = """
with open("/tmp/fill", "wb") as file:
    try:
        while True: file.write(bytes(4096))
    except OSError: pass
with open("keep", "w") as file: file.write("k")
"""


def test_a_restore_without_room_changes_nothing() -> None:
    """/tmp is in the same file system. Control: without the check, the files are gone."""
    with box_of("bwrap", file_size=16 * MB) as box:
        box.put("keep", "kept")
        large = archive([plain("large", data=bytes(8 * MB))])
        box.run(FILL)
        with pytest.raises(BoxFull, match="/tmp counts too"):
            box.restore(large)
        assert box.get("keep") in (b"k", b"kept", b"")
        with pytest.raises(TreeChanged, match="does not fit"):
            replace_tree(box.work, read_archive(large, LIMITS_OF_A_BOX), box.uid)  # type: ignore[attr-defined]
        with pytest.raises(BadPath):
            box.get("keep")


@pytest.mark.parametrize("backend", LOCAL)
def test_what_a_snapshot_accepts_fits_into_a_new_box(backend: str) -> None:
    """Holes fill the box to the last page of its limit."""
    with box_of(backend) as box, box_of(backend) as other:
        room = box._tree_limits().bytes  # type: ignore[attr-defined]
        for size, fits in ((room - 12 * MB, True), (room - 12 * MB + 1, False)):
            code = "for name, size in {'a': 8 << 20, 'c': 4 << 20, 'b': %d}.items(): open(name, 'wb').truncate(size)"
            assert box.run(code % size).ok
            if fits:
                other.restore(box.snapshot())
                assert len(other.get("b")) == size
            else:
                with pytest.raises(SnapshotError):
                    box.snapshot()


def nest(root: int, depth: int) -> None:
    fd = os.dup(root)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_nested_folders_use_no_stack(root: int, tmp_path: Path) -> None:
    nest(root, 1100)
    with pytest.raises((RecursionError, OSError)):
        walk_naively(root)
    with pytest.raises(SnapshotError, match="100 components"):
        pack(root)
    assert usage(root, 5000)[1] == 5001
    clear(root)
    assert os.listdir(root) == []


def walk_naively(folder: int) -> None:
    """Control: a walk that follows the tree with the stack of the process."""
    for name in os.listdir(folder):
        inner = os.open(name, os.O_DIRECTORY, dir_fd=folder)
        try:
            walk_naively(inner)
        finally:
            os.close(inner)


def test_a_walk_ends_at_each_limit(root: int, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(bytes(5000))
    for limits, words in (
        (TreeLimits(1 << 20, 49, 1 << 20), "more than 49 files"),
        (TreeLimits(49 * 8192, 50, 1 << 20), "more than 401,408 bytes"),
        (TreeLimits(1 << 20, 50, 4999), "has 5,000 bytes; a file in the box may have 4,999"),
    ):
        with pytest.raises(SnapshotError, match=words):
            pack(root, limits)
    with pytest.raises(TreeChanged, match="more than 0 seconds"):
        pack(root, TreeLimits(1 << 20, 50, 1 << 20, seconds=0))
    assert len(read_archive(pack(root, TreeLimits(50 * 8192, 50, 5000)), SMALL)) == 50
    nest(root, 3)
    with pytest.raises(TimeoutError):
        clear(root, seconds=-1)


def test_descriptors_and_modes_are_put_back(root: int, tmp_path: Path) -> None:
    nest(root, 150)
    (tmp_path / "shut").mkdir(0o300)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SnapshotError):
        pack(root)
    reading = read_tree(root, SMALL)
    next(reading)
    reading.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "shut").stat().st_mode & 0o777 == 0o300


def test_bytes_of_a_file_with_several_names_count_once_on_disk(root: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8192))
    for number in range(20):
        os.link(tmp_path / "a", tmp_path / f"{number}")
    size, count = usage(root, 100)
    assert (size < 5 * 8192, count) == (True, 21)


@pytest.mark.parametrize("path", ["bad\ud800", "n" * 256, "a/" + "n" * 256 + "/b"])
def test_paths_that_no_file_has_are_refused(root: int, path: str) -> None:
    with pytest.raises(BadPath):
        files.write(root, path, b"x", os.getuid())
    with pytest.raises(BadPath):
        files.read(root, path, 100)


# Fuzzing of the walk: what programs can make of a folder.

names = st.sampled_from(["a", "b", "c", "\udcff", "x" * 255, "-", " "])
places = st.lists(names, min_size=1, max_size=3).map("/".join)
steps = st.one_of(
    st.tuples(st.just("folder"), places, st.integers(0, 0o7777)),
    st.tuples(st.just("file"), places, st.integers(0, 9000)),
    st.tuples(st.just("hole"), places, st.integers(0, 1 << 21)),
    st.tuples(st.just("link"), places, st.sampled_from(["/", "..", "a", "/etc/passwd", "x" * 4000])),
    st.tuples(st.just("name"), places, places),
    st.tuples(st.just("pipe"), places, st.integers(0, 0o777)),
    st.tuples(st.just("mode"), places, st.integers(0, 0o7777)),
    st.tuples(st.just("time"), places, st.integers(-(1 << 62), 1 << 62)),
    st.tuples(st.just("remove"), places, st.none()),
)


def make_hole(path: str, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.truncate(fd, size)
    finally:
        os.close(fd)


def make(top: str, step: tuple[str, str, object]) -> None:
    """Do one step of a program in a folder, as far as it is possible."""
    kind, place, value = step
    path = f"{top}/{place}"
    actions = {
        "folder": lambda: os.mkdir(path, value),
        "file": lambda: Path(path).write_bytes(bytes(value)),
        "hole": lambda: make_hole(path, value),
        "link": lambda: os.symlink(value, path),
        "name": lambda: os.link(f"{top}/{value}", path, follow_symlinks=False),
        "pipe": lambda: os.mkfifo(path, value),
        "mode": lambda: os.chmod(path, value),
        "time": lambda: os.utime(path, (value, value), follow_symlinks=False),
        "remove": lambda: os.unlink(path),
    }
    if kind in ("file", "mode") and (os.path.islink(path) or os.path.realpath(path) != path):
        return  # do not touch this machine
    if kind == "file" and os.path.exists(path) and not os.path.isfile(path):
        return  # a pipe would wait
    with suppress(OSError, OverflowError):
        actions[kind]()


def check_tree(made: list[tuple[str, str, object]]) -> None:
    """A snapshot of any tree is refused, or restored with equal bytes wherever there is as much room."""
    limits = TreeLimits(bytes=1 << 20, entries=12, file_size=1 << 20)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = os.open(one, os.O_DIRECTORY), os.open(two, os.O_DIRECTORY)
        try:
            for step in made:
                make(os.path.realpath(one), step)
            snapshot = pack(first, limits)
            found = read_archive(snapshot, limits)
            assert sum(map(disk_space, found)) <= limits.bytes
            replace_tree(second, found, os.getuid())
            assert pack(second, limits) == snapshot
            clear(second)
            assert os.listdir(second) == []
        except SnapshotError as error:
            assert not isinstance(error, TreeChanged), error  # noqa: PT017
        finally:
            clear(first)
            os.close(first)
            os.close(second)


@given(st.lists(steps, max_size=12))
def test_any_tree_is_restored_or_refused(made: list[tuple[str, str, object]]) -> None:
    check_tree(made)


@pytest.mark.slow
@settings(max_examples=1500)
@given(st.lists(steps, max_size=30))
def test_any_tree_is_restored_or_refused_at_length(made: list[tuple[str, str, object]]) -> None:
    check_tree(made)
