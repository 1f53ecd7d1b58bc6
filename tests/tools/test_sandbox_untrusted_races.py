"""Programs that change the files of a box while the host reads or replaces them; and steps of environments."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from toys.sandboxes import ALL, LIMITS, LOCAL, box_of

from turncredit.tools.sandbox import BadPath, Box, BoxFull, BoxLost, SandboxError, container_init, containers, files
from turncredit.tools.sandbox.untrusted_archives import TreeLimits, read_archive
from turncredit.tools.sandbox.untrusted_trees import TreeChanged, clear, read_tree, replace_tree

pytestmark = pytest.mark.waits

TREE = TreeLimits(LIMITS.disk, LIMITS.files, LIMITS.file_size)
FORK = """
import os, sys, time
if os.fork() == 0:
    while True:
        try:
{}
        except OSError: pass
"""


def loop(code: str) -> str:
    return FORK.format("".join(f"            {line}\n" for line in code.strip().splitlines()))


SWAPS = {
    "a pipe for a file": """
with open("new", "w") as file: file.write("data")
os.rename("new", "file")
os.mkfifo("pipe") if os.path.isdir("/work") else None
os.rename("pipe", "file")
""",
    "a link for a file": """
with open("new", "w") as file: file.write("data")
os.rename("new", "file")
os.symlink("/etc/passwd", "pipe")
os.rename("pipe", "file")
""",
    "a link for a folder": """
os.makedirs("folder", exist_ok=True)
with open("folder/passwd", "w") as file: file.write("data")
os.rename("folder", "old")
os.symlink("/etc", "folder")
os.unlink("folder")
os.rename("old", "folder")
""",
    "nested folders": """
os.chdir("/work" if os.path.isdir("/work") else os.environ["HOME"])
while True:
    os.mkdir("d"); os.chdir("d")
""",
    "many folders": """
for n in range(150): os.makedirs(f"many/{n}/{n}", exist_ok=True)
for n in range(150): os.rmdir(f"many/{n}/{n}"); os.rmdir(f"many/{n}")
""",
    "modes": """
os.makedirs("m/n", exist_ok=True)
os.chmod("m", 0); os.chmod("m", 0o700); os.chmod("m/n", 0)
""",
}
# A timer that wakes the process up again whenever it is stopped.
DEAF = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def wake():
    class Event(ctypes.Structure):
        _fields_ = [("value", ctypes.c_long), ("signal", ctypes.c_int), ("rest", ctypes.c_int * 13)]
    signal.signal(18, lambda *_: None)  # a timer whose signal is ignored fires once
    event, timer = Event(signal=18), ctypes.c_void_p()
    if libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0:
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 3_000_000, 0, 3_000_000), None)
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no attack: a container has twelve times as long as usual for its answers."""
    for name in ("_FILE_TIMEOUT", "_OWN_TIMEOUT", "_END"):
        monkeypatch.setattr(containers, name, 12 * getattr(containers, name))
    monkeypatch.setattr(container_init, "_TIMEOUT", 12 * container_init._TIMEOUT)


@pytest.fixture(params=ALL)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with box_of(request.param) as made:
        yield made


def pairs() -> list[object]:
    """Every attack on every back end; those that take long with Docker are left to the slow tests."""
    quick = ("a pipe for a file",)
    return [
        pytest.param(backend, attack, marks=[pytest.mark.slow] if backend == "docker" and attack not in quick else [])
        for backend in ALL
        for attack in SWAPS
    ]


@pytest.mark.parametrize(("backend", "attack"), pairs())
def test_files_are_used_while_a_session_swaps_them(backend: str, attack: str) -> None:
    with box_of(backend) as box:
        use_during(box, attack)


def use_during(box: Box, attack: str) -> None:
    """Use the files of a box while a session attacks; whatever happens, they are restored in the end."""
    box.put("file", "data")
    start = box.snapshot()
    session = box.session()
    assert session.run(loop(SWAPS[attack])).error == ""
    for number in range(2):
        for path in ("file", "folder/passwd"):
            with suppress(BadPath):
                assert box.get(path) in (b"data", b"", b"put")
            with suppress(BadPath, BoxFull):
                box.put(path, "put")
        with suppress(SandboxError):
            read_archive(box.snapshot(), TREE)
        if number % 2:
            box.restore(start)
    session.close()
    box.restore(start)
    assert box.snapshot() == start
    assert box.run("print('on')").stdout == "on\n"


def test_a_session_that_cannot_be_stopped_is_killed(box: Box) -> None:
    box.put("file", "data")
    start = box.snapshot()
    session = box.session()
    attack = DEAF + loop(SWAPS["many folders"]).replace(
        "    while True:", "    os.fork(); os.fork(); wake()\n    while True:", 1
    )
    assert session.run(attack).error == ""
    try:
        box.restore(start)
    except BoxLost:  # never half a tree
        assert box.closed
        return
    session.close()
    box.restore(start)
    assert box.snapshot() == start


def test_a_session_goes_on_after_its_files_were_used(box: Box) -> None:
    with box.session() as session:
        session.run("x = 5")
        box.put("file", "data")
        snapshot = box.snapshot()
        box.restore(snapshot)
        assert box.get("file") == b"data"
        answer = session.run("x, open('file').read()")
        assert (answer.value, answer.restarted) == ("(5, 'data')", False)


def test_files_are_used_during_a_run(box: Box) -> None:
    box.put("file", "data")
    found: list[str] = []
    code = loop(SWAPS["a link for a file"]).replace("os.fork() == 0", "True")
    run = threading.Thread(target=lambda: found.append(box.run(code, timeout=3).stop))
    run.start()
    while run.is_alive():
        with suppress(BadPath):
            assert box.get("file") == b"data"
        with suppress(SandboxError):
            box.snapshot()
    assert found == ["timeout"]


class Swapping:
    """A thread that replaces a file or folder as fast as it can, as a program in a box would."""

    def __init__(self, top: Path, target: str) -> None:
        self.top, self.target, self.over = top, target, False
        self.thread = threading.Thread(target=self.swap)

    def swap(self) -> None:
        while not self.over:
            with suppress(OSError):
                os.rename(self.top / "folder", self.top / "old")
                os.symlink(self.target, self.top / "folder")
                os.unlink(self.top / "folder")
                os.rename(self.top / "old", self.top / "folder")

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over = True
        self.thread.join()


def test_links_that_come_and_go_are_never_followed(tmp_path: Path) -> None:
    """Control: opening the path as it is reads the file outside within as many attempts."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    (tmp_path / "work" / "folder").mkdir(parents=True)
    (tmp_path / "work" / "folder" / "file").write_text("data")
    root = os.open(tmp_path / "work", os.O_DIRECTORY)
    seen: set[bytes] = set()
    naive: set[str] = set()
    with Swapping(tmp_path / "work", "../outside"):
        while "secret" not in naive:
            with suppress(OSError):
                naive.add((tmp_path / "work" / "folder" / "file").read_text())
        for _ in range(1000):
            with suppress(BadPath):
                seen.add(files.read(root, "folder/file", 100))
            with suppress(BadPath):
                files.write(root, "folder/new", b"x", os.getuid())
            with suppress(TreeChanged):
                seen |= {entry.data for entry in read_tree(root, TREE) if entry.path.endswith("file")}
    assert seen == {b"data"}
    assert os.listdir(tmp_path / "outside") == ["file"]
    with Swapping(tmp_path / "work", "../outside"):
        for _ in range(300):
            with suppress(TreeChanged):
                replace_tree(root, [], os.getuid())
            with suppress(FileExistsError):  # the other thread has just put a link there
                (tmp_path / "work" / "folder").mkdir()
            with suppress(OSError):
                clear(root)
    assert (tmp_path / "outside" / "file").read_text() == "secret"
    os.close(root)


def test_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    root = os.open(tmp_path, os.O_DIRECTORY)
    with pytest.raises(BadPath, match="not a regular file"):
        files.read(root, "file", 100)
    assert list(read_tree(root, TREE)) == []
    control = threading.Thread(target=lambda: (tmp_path / "file").read_bytes(), daemon=True)
    control.start()
    control.join(0.3)
    assert control.is_alive()  # the control: an ordinary read waits for a writer
    os.close(os.open(tmp_path / "file", os.O_WRONLY))
    control.join()
    os.close(root)


@pytest.mark.parametrize("backend", LOCAL)
def test_other_boxes_go_on(backend: str) -> None:
    """Only the box whose files are used is stopped."""
    with box_of(backend) as one, box_of(backend) as other, other.session() as session:
        session.run("import os, time\nif os.fork() == 0:\n    while True: open('tick', 'w').write(str(time.time()))")
        with one.session():
            for _ in range(5):
                one.snapshot()
            assert session.run("1 + 1").value == "2"
