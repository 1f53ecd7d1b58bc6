"""Ordinary use of a box on every back end: programs, input, output, files, snapshots, sessions."""

from collections.abc import Iterator

import pytest
from toys.sandboxes import ALL, LIMITS, LOCAL, box_of, needed, needs_modes

from turncredit.tools.sandbox import (
    BadCommand,
    BadLimits,
    BadPath,
    Box,
    BoxClosed,
    BoxFull,
    Limits,
    SnapshotError,
    start,
)

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module", params=ALL)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with box_of(request.param) as made:
        yield made


@pytest.fixture
def clean(box: Box) -> Box:
    box.run(["sh", "-c", "chmod -R u+rwx .; rm -rf ./* ./.[!.]*"])
    return box


def test_a_program_runs(clean: Box) -> None:
    result = clean.run("import sys; print(6 * 7); print('no', file=sys.stderr); sys.exit(3)")
    assert (result.stdout, result.stderr, result.code, result.stop) == ("42\n", "no\n", 3, "exit")
    assert not result.ok
    assert 0 < result.seconds < LIMITS.wall
    assert clean.run("pass").ok


def test_exit_codes_are_those_of_a_shell(clean: Box) -> None:
    assert clean.run(["sh", "-c", "exit 7"]).code == 7
    assert clean.run(["no-such-program"]).code == 127
    assert clean.run("import os; os.kill(os.getpid(), 15)").code == 143
    killed = clean.run("import os; os.kill(os.getpid(), 9)")
    assert (killed.code, killed.stop) == (137, "killed")


def test_arguments_are_passed_exactly(clean: Box) -> None:
    words = ["a b", "", "$HOME", "'", "é", "-n"]
    assert clean.run([clean.python, "-c", "import sys; print(sys.argv[1:])", *words]).stdout == f"{words}\n"


def test_input_may_be_left_unread(clean: Box) -> None:
    big = "line\n" * 200_000
    assert clean.run("import sys; print(len(sys.stdin.read()))", stdin=big).stdout == f"{len(big)}\n"
    assert clean.run("print('done')", stdin=big).stdout == "done\n"
    assert clean.run(["cat"], stdin=b"\xff\x00x").stdout_bytes == b"\xff\x00x"


def test_output_keeps_its_bytes(clean: Box) -> None:
    result = clean.run("import sys; sys.stdout.buffer.write(bytes(range(256)))")
    assert result.stdout_bytes == bytes(range(256))
    assert result.stdout[:3] == "\0\1\2"
    assert result.stdout.endswith("\N{REPLACEMENT CHARACTER}")


def test_a_long_program_runs(clean: Box) -> None:
    assert clean.run("x = 0\n" + "x += 1\n" * 30_000 + "print(x)").stdout == "30000\n"


def test_files_are_written_and_read(clean: Box) -> None:
    clean.put("data/in.txt", "héllo")
    assert (
        clean.run("print(open('data/in.txt').read()); open('data/out', 'wb').write(b'\\0' * 1000)").stdout == "héllo\n"
    )
    assert clean.get("data/out") == bytes(1000)
    assert clean.get("/work/data/in.txt") == "héllo".encode()
    clean.put("data/in.txt", b"")
    assert clean.get("data/in.txt") == b""
    assert clean.run("import helper; print(helper.x)", files={"helper.py": "x = 5"}).stdout == "5\n"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", ".", "a\0b", "/work/../x"])
def test_paths_outside_are_refused(clean: Box, path: str) -> None:
    with pytest.raises(BadPath, match="relative to its directory"):
        clean.put(path, "x")
    with pytest.raises(BadPath, match="relative to its directory"):
        clean.get(path)


@pytest.mark.parametrize("path", ["x" * 5000, "/".join("d" * 101)])
def test_paths_that_are_too_long_are_refused(clean: Box, path: str) -> None:
    with pytest.raises(BadPath, match=r"at most 4,096 bytes and 100 components"):
        clean.put(path, "x")
    with pytest.raises(BadPath, match=r"at most 4,096 bytes and 100 components"):
        clean.get(path)


def test_links_are_not_followed(clean: Box) -> None:
    clean.run(
        "import os; os.symlink('/etc', 'dir'); os.symlink('/etc/passwd', 'file'); os.mkfifo('pipe'); os.mkdir('d')"
    )
    for path in ("dir/passwd", "file", "pipe", "d", "missing", "dir"):
        with pytest.raises(BadPath):
            clean.get(path)
    with pytest.raises(BadPath):
        clean.put("dir/x", "x")
    clean.put("file", "mine")  # the link is replaced
    assert clean.get("file") == b"mine"
    assert clean.run("print(open('/etc/passwd').read())").stdout != "mine\n"


def test_a_box_that_is_full_says_so(clean: Box) -> None:
    for number in range(5):
        clean.put(f"f{number}", bytes(3 << 20))
    with pytest.raises(BoxFull, match="raise its limits"):
        clean.put("f5", bytes(3 << 20))
    assert clean.run(["sh", "-c", "rm -f f*"]).code == 0
    clean.put("small", "fits")


LOOK = """
import os
for here, folders, files in sorted(os.walk(".")):
    print(here, sorted(folders), sorted(files))
print(os.readlink("a/link"), oct(os.stat("a/b.txt").st_mode))
"""


def test_snapshots_are_restored_in_any_box(clean: Box) -> None:
    needs_modes(clean)
    clean.put("a/b.txt", "one")
    clean.run("import os; os.symlink('b.txt', 'a/link'); os.mkdir('empty'); os.chmod('a/b.txt', 0o750)")
    snapshot = clean.snapshot()
    clean.run(["sh", "-c", "rm -r a; echo new > new"])
    clean.restore(snapshot)
    look = LOOK
    seen = clean.run(look)
    assert seen.stdout == ". ['a', 'empty'] []\n./a [] ['b.txt', 'link']\n./empty [] []\nb.txt 0o100750\n"
    assert clean.snapshot() == snapshot
    assert clean.run("open('a/b.txt', 'a').write(' more'); print(open('a/b.txt').read())").stdout == "one more\n"
    with box_of(clean.backend) as other:
        other.restore(snapshot)
        assert other.run(look).stdout == seen.stdout


@pytest.mark.parametrize("mode", [0o666, 0o777, 0o664, 0o600, 0o400])
def test_modes_are_restored_regardless_of_the_umask(clean: Box, mode: int) -> None:
    needs_modes(clean)
    clean.put("file", "x")
    clean.run(f"import os; os.mkdir('folder'); os.chmod('file', {mode}); os.chmod('folder', {mode | 0o500})")
    snapshot = clean.snapshot()
    look = "import os; print(*(oct(os.stat(name).st_mode & 0o7777) for name in ('file', 'folder')))"
    for _ in range(2):
        clean.restore(snapshot)
        assert clean.run(look).stdout == f"{mode:#o} {mode | 0o500:#o}\n"
        assert clean.snapshot() == snapshot


SHUT = """
import os
os.umask(0)
os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o200))
with os.fdopen(os.open("shut\\nfile", os.O_CREAT | os.O_WRONLY, 0), "w") as file: file.write("kept")
os.link("shut\\nfile", "second")
os.makedirs("a/b")
open("a/b/c", "w").write("inside")
os.chmod("a/b/c", 0)
os.chmod("a/b", 0o300)
os.chmod("a", 0)
"""
MODES = """
import os, sys
os.chmod(".", 0o700)
for name in ("file", "shut\\nfile", "second", "a", "a/b", "a/b/c"):
    print(oct(os.stat(name).st_mode & 0o7777))
    if name != "second": os.chmod(name, 0o700)
print(open("shut\\nfile").read(), open("a/b/c").read())
"""


@pytest.mark.parametrize("top", [0o700, 0])
def test_unreadable_files_are_snapshotted_and_restored(clean: Box, top: int) -> None:
    needs_modes(clean)
    assert clean.run(SHUT + f"os.chmod('.', {top})").ok
    snapshot = clean.snapshot()
    assert clean.snapshot() == snapshot  # looking changes nothing
    clean.restore(snapshot)  # over what is shut
    assert clean.snapshot() == snapshot
    said = clean.run(MODES)
    assert said.stdout == "0o200\n0o0\n0o0\n0o0\n0o300\n0o0\nkept inside\n", said
    clean.restore(snapshot)
    with box_of(clean.backend) as other:
        empty = other.snapshot()
        other.restore(snapshot)
        assert other.snapshot() == snapshot
    clean.restore(empty)
    assert clean.run(["ls", "-A"]).stdout == ""


def test_set_user_id_bits_are_dropped(clean: Box) -> None:
    needs_modes(clean)
    clean.put("file", "x")
    clean.run("import os; os.chmod('file', 0o4755); os.mkdir('d'); os.chmod('d', 0o1777)")
    snapshot = clean.snapshot()
    clean.restore(snapshot)
    assert clean.snapshot() == snapshot
    look = "import os; print(*(oct(os.stat(name).st_mode & 0o7777) for name in ('file', 'd')))"
    assert clean.run(look).stdout == "0o755 0o777\n"


def test_a_bad_snapshot_changes_nothing(clean: Box) -> None:
    clean.put("keep", "kept")
    for bad in (b"", b"x" * 5000, clean.snapshot()[:700]):
        with pytest.raises(SnapshotError):
            clean.restore(bad)
    assert clean.get("keep") == b"kept"


def test_invalid_commands_and_timeouts_are_refused(clean: Box) -> None:
    for command in ([], [""], b"bytes", ["a\0b"], [1], "a\0b", "\ud800", ["x" * 200_000], None):
        with pytest.raises(BadCommand):
            clean.run(command)  # type: ignore[arg-type]
    for timeout in (0, -1, float("nan")):
        with pytest.raises(BadLimits):
            clean.run("pass", timeout=timeout)


@pytest.mark.parametrize("backend", ALL)
def test_a_closed_box_says_so(backend: str) -> None:
    box = box_of(backend)
    session = box.session()
    box.close()
    box.close()
    for call in (lambda: box.run("1"), lambda: box.put("a", "b"), box.snapshot, box.session, lambda: session.run("1")):
        with pytest.raises(BoxClosed, match="start another one"):
            call()


def test_a_session_keeps_its_state(clean: Box) -> None:
    with clean.session() as session:
        assert session.run("x = 20\nx + 1").value == "21"
        answer = session.run("print('out'); import os; _ = os.system('echo child; echo err >&2'); x * 2")
        assert (answer.value, answer.stdout, answer.stderr, answer.error) == ("40", "out\nchild\n", "err\n", "")
        assert answer.text == "out\nchild\nerr\n40"
        assert session.run("def f():\n    return 1 / 0").value == ""
        failed = session.run("f()")
        assert failed.error.startswith("Traceback")
        assert "return 1 / 0" in failed.error
        assert failed.error.endswith("ZeroDivisionError: division by zero\n")
        assert "session_driver" not in failed.error
        assert session.run("1 +").error.strip().splitlines()[-1].startswith("SyntaxError")
        assert session.run("import sys; sys.exit(3)").error.strip().endswith("SystemExit: 3")
        assert session.run("input()").error.strip().endswith("EOFError: EOF when reading a line")
        assert session.run("if os.fork() == 0: x = 1\nx").value == "20"
        assert session.run("None").value == ""
        clean.put("seen.txt", "by both")
        assert session.run("open('seen.txt').read()").value == "'by both'"


def test_an_interrupted_session_keeps_its_state(clean: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turncredit.tools.sandbox.session._GRACE", 60.0)  # to notice it, on a busy machine
    with clean.session() as session:
        session.run("x = 5")
        for code in (
            "while True: pass",
            "import time; time.sleep(100)",
            "import subprocess; subprocess.run(['sleep', '100'])",
        ):
            answer = session.run(code, timeout=0.4)
            assert (answer.stop, answer.restarted) == ("timeout", False)
        assert session.run("x").value == "5"


def test_a_lost_session_is_reported_and_restarted(clean: Box) -> None:
    with clean.session() as session:
        session.run("x = 5\nimport signal\ndeaf = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})")
        answer = session.run("while True: pass", timeout=0.4)
        assert (answer.stop, answer.restarted) == ("timeout", True)
        assert "its state" in answer.error
        assert "NameError" in session.run("x").error
        answer = session.run("import os; os._exit(1)")
        assert (answer.stop, answer.restarted) == ("killed", True)
        assert session.run("2").value == "2"


def test_each_call_has_its_own_output(clean: Box) -> None:
    with clean.session() as session:
        for number in range(4):
            result = session.run(f"import os, sys; print({number}); sys.stdout.flush(); os.system('echo {number} >&2')")
            assert (result.stdout, result.stderr, result.value) == (f"{number}\n", f"{number}\n", "0")


def test_a_session_truncates_output(clean: Box) -> None:
    with clean.session() as session:
        answer = session.run("print('x' * 1_000_000)")
        assert answer.stdout.endswith("\n[800,001 more bytes]")
        assert len(session.run("'y' * 1_000_000").value) == 200_000
        assert session.run("1").value == "1"


@pytest.mark.parametrize("backend", LOCAL)
def test_the_network_can_be_allowed(backend: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server, box_of(backend, network=True) as box:
        port = server.getsockname()[1]
        assert (
            box.run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('in')").stdout == "in\n"
        )


@pytest.mark.parametrize("backend", LOCAL)
def test_readable_directories(backend: str) -> None:
    import tempfile
    from pathlib import Path

    needed(backend)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        Path(name, "package.py").write_text("x = 9")
        with start(Limits(wall=20), backend=backend, readable=[name]) as box:
            code = (
                f"import sys; sys.path.append({name!r}); import package; print(package.x); open({name!r} + '/new', 'w')"
            )
            result = box.run(code)
            assert result.stdout == "9\n"
            assert not result.ok
        assert [path.name for path in Path(name).iterdir() if path.suffix != ".pyc"] == ["package.py"]
