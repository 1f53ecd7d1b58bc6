"""Attacks from inside a box, on every back end of this machine; a successful attack fails the test."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from toys.processes import processes
from toys.sandboxes import ALL, MB, box_of

from turncredit.tools.sandbox import Box

pytestmark = pytest.mark.waits

# Each tries one thing and prints "BROKEN" (and what) if it could; how it ends otherwise is its own affair.
ESCAPES = {
    "read the host's accounts": """
for path in ("/etc/shadow", "/etc/sudoers", "/root/.bashrc", "/root/.ssh", "/var/lib", "{secret}"):
    tries(lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())""",
    "read through /proc": """
for name in ("{pid}", str(os.getppid()), "1"):
    tries(lambda: open(f"/proc/{{name}}/environ", "rb").read().index(b"TURNCREDIT_TEST_SECRET"))
tries(lambda: open("/proc/{pid}/root{secret}").read())
tries(lambda: open("/proc/1/root{secret}").read())
tries(lambda: os.environ["TURNCREDIT_TEST_SECRET"])""",
    "reach loopback of the host": """
tries(lambda: socket.create_connection(("127.0.0.1", {port}), 2))
tries(lambda: socket.create_connection(("localhost", {port}), 2))""",
    "reach an abstract socket of the host": """
def call():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\\0{name}")
tries(call)""",
    "reach the network": """
tries(lambda: socket.create_connection(("1.1.1.1", 53), 2))
def say():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.sendto(b"x", ("8.8.8.8", 53))
tries(say)""",
    "write outside": """
for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/var/tmp/x", "/root/x", "{folder}/x", "/proc/sys/kernel/hostname"):
    tries(lambda: open(path, "w").write("x"))
tries(lambda: os.mkdir("/y"))
tries(lambda: os.chmod("{secret}", 0o777))
tries(lambda: os.rename("/etc/passwd", "/tmp/p"))
tries(lambda: os.unlink("{secret}"))""",
    "go up and around": """
tries(lambda: open("../../../../../..{secret}").read())
os.symlink("{secret}", "link"); tries(lambda: open("link").read())
os.symlink("/", "root"); tries(lambda: open("root{secret}").read())
tries(lambda: os.link("{secret}", "hard"))
tries(lambda: os.chroot("."))""",
    "signal the supervisor": """
import signal
if os.getpid() != {pid}:
    tries(lambda: os.kill({pid}, 0))
for pid in (1, os.getppid()):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
with contextlib.suppress(OSError):
    os.kill(-1, signal.SIGKILL)""",
    "trace another process": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, {pid}, 0, 0) != -1: print("BROKEN: attached")
if libc.process_vm_readv({pid}, None, 0, None, 0, 0) != -1: print("BROKEN: read memory")""",
    "nest user namespaces": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x10020000):
    if libc.unshare(flag) == 0: print("BROKEN: unshare")
    pid = libc.syscall(56 if os.uname().machine == "x86_64" else 220, flag | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: print("BROKEN: clone")""",
    "mount": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0: print("BROKEN: mount")
if libc.umount2(b"/work", 2) == 0: print("BROKEN: umount")
if libc.mount(None, b"/", None, 32 | 4096, None) == 0: print("BROKEN: remount")""",
    "go around the filter with io_uring, or make keys": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if os.uname().machine == "x86_64":
    # Docker before 25 lets programs have io_uring; its rings are as confined as they are.
    if not os.path.exists("/.dockerenv"):
        if libc.syscall(425, 8, ctypes.create_string_buffer(200)) >= 0: print("BROKEN: io_uring")
    if libc.syscall(248, b"user", b"x", b"y", 1, -3) > 0: print("BROKEN: add_key")
    if libc.syscall(321, 0, ctypes.create_string_buffer(200), 72) >= 0: print("BROKEN: bpf")""",
    "become root": """
for change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    tries(change) if os.getuid() else print("BROKEN: root")
tries(lambda: os.mknod("disk", 0o60600, os.makedev(254, 0)))""",
    "raise the limits": """
import resource
for name in ("CPU", "AS", "NPROC", "FSIZE"):
    number = getattr(resource, f"RLIMIT_{{name}}")
    soft, hard = resource.getrlimit(number)
    if hard != resource.RLIM_INFINITY:
        tries(lambda: resource.setrlimit(number, (hard + 1, hard + 1)))""",
}
_TRIES = """
import contextlib, os, socket
def tries(attempt):
    try: attempt()
    except BaseException: return
    import inspect
    print("BROKEN", inspect.currentframe().f_back.f_lineno)
"""


@dataclass
class Host:
    """Things of the host that a box must not reach."""

    folder: Path
    secret: Path
    port: int
    name: str


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    import tempfile

    os.environ["TURNCREDIT_TEST_SECRET"] = "secret"
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as server:
        folder, abstract = Path(name), f"turncredit-test-{os.getpid()}"
        folder.chmod(0o777)  # only the sandbox stands between the programs and it
        secret = folder / "secret"
        secret.write_text("secret")
        secret.chmod(0o666)
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(f"\0{abstract}")
            unix.listen()
            yield Host(folder, secret, server.getsockname()[1], abstract)


@pytest.fixture(scope="module", params=ALL)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with box_of(request.param) as made:
        yield made


@pytest.fixture
def clean(box: Box) -> Box:
    box.run(
        ["sh", "-c", "chmod -R u+rwx . /tmp/* 2>/dev/null; rm -rf ./* ./.[!.]* /tmp/* /dev/shm/* 2>/dev/null; true"]
    )
    return box


@pytest.mark.parametrize("attack", ESCAPES)
def test_nothing_outside_can_be_reached(attack: str, clean: Box, host: Host) -> None:
    code = ESCAPES[attack].format(
        secret=host.secret, folder=host.folder, port=host.port, name=host.name, pid=os.getpid()
    )
    result = clean.run(_TRIES + code + "\nprint('tried')")
    assert "BROKEN" not in result.stdout, result
    assert "tried" in result.stdout or attack == "signal the supervisor", result
    assert host.secret.read_text() == "secret"
    assert sorted(path.name for path in host.folder.iterdir()) == ["secret"]
    assert host.secret.stat().st_mode & 0o777 == 0o666
    assert clean.run("print(1)").stdout == "1\n"


def ended(box: Box, code: str, stop: str, *, timeout: float = 1.0) -> None:
    start = time.monotonic()
    result = box.run(code, timeout=timeout)
    assert result.stop == stop, result
    assert time.monotonic() - start < 300  # what is run here sleeps for much longer
    assert box.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(10000)",
        "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        "import subprocess; subprocess.run(['sleep', '10000'])",
        "import os\nos.fork(); os.setsid() if os.getpid() != os.getpgid(0) else 0\nwhile True: pass",
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGSTOP)",
    ],
)
def test_programs_that_do_not_end_are_killed(clean: Box, code: str) -> None:
    ended(clean, code, "timeout")


@pytest.mark.parametrize("backend", ALL)
def test_cpu_time_is_limited(backend: str) -> None:
    with box_of(backend, cpu=1, wall=90) as box:
        assert box.run("while True: pass").stop == "cpu"
        stubborn = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
        assert box.run(stubborn).stop == "cpu"


COUNTED_FORKS = """
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0: time.sleep(900)
        n += 1
finally: print(n)
"""
COUNTED_THREADS = """
import threading, time
n = 0
while True:
    threading.Thread(target=time.sleep, args=(900,), daemon=True).start()
    n += 1
    print(n, flush=True)
"""


def test_a_fork_bomb_is_held(clean: Box) -> None:
    result = clean.run("import os\nwhile True: os.fork()", timeout=2)
    assert result.stop in ("processes", "timeout"), result
    result = clean.run(COUNTED_FORKS)
    assert result.stop == "processes", result
    assert 5 <= int(result.stdout) <= 24 + 4
    assert clean.run("print(1)").stdout == "1\n"


def test_a_thread_bomb_is_held(clean: Box) -> None:
    result = clean.run(COUNTED_THREADS)
    assert result.stop in ("processes", "memory"), result
    assert int(result.stdout.split()[-1]) < 40


def test_a_memory_bomb_is_held(clean: Box) -> None:
    result = clean.run("a = []\nwhile True: a.append(bytearray(1 << 20))")
    assert result.stop == "memory", result
    assert result.peak <= 300 * MB


FOUR_AT_ONCE = """
import os, time
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        block = b"x" * (120 << 20)
        time.sleep(30)
        os._exit(0)
    children.append(child)
block = b"x" * (120 << 20)
print("killed" if any(os.waitpid(child, 0)[1] == 9 for child in children) else "all lived")
"""


def test_memory_is_counted_over_processes() -> None:
    """Four processes, each within the limit of one: the kernel ends the first one, or others, which that one sees."""
    with box_of("bwrap", wall=60) as box:
        if not box.memory_counted:  # type: ignore[attr-defined]
            pytest.skip("no control group can be made here")
        result = box.run(FOUR_AT_ONCE)
        assert result.stop in ("memory", "killed") or result.stdout == "killed\n", result


WRITABLE = """
import os
spent = 0
folders = (".", "/tmp", "/dev/shm", "/var/tmp", "/run", "/dev", "/", os.environ["TMPDIR"])
for folder in {os.path.realpath(name) for name in folders}:
    for n in range(12):
        try:
            with open(f"{folder}/fill{n}", "wb", buffering=0) as file:
                for _ in range(8):
                    spent += file.write(bytes(1 << 20))
        except OSError: pass
print(spent)
if spent > 20 << 20: raise SystemExit("No space left on device")
"""


def test_the_disk_cannot_be_filled(clean: Box) -> None:
    result = clean.run(WRITABLE)
    if not getattr(clean, "own_filesystem", True):  # watched: it is ended, some way past the limit
        assert result.stop == "disk", result
    elif clean.backend == "docker":  # /work, /tmp and /dev/shm, each with its size
        assert int(result.stdout) <= 3 * 16 * MB, result
    else:
        assert int(result.stdout) <= 16 * MB, result


def test_the_number_of_files_is_limited(clean: Box) -> None:
    code = "import time\nfor n in range(100000):\n    open(f'{n}', 'w').close()\n    n % 50 or time.sleep(0.01)"
    assert clean.run(code).stop == "disk"


def test_the_size_of_a_file_is_limited(clean: Box) -> None:
    result = clean.run("with open('f', 'wb') as file:\n    while True: file.write(bytes(1 << 20))")
    assert result.stop == "disk", result
    assert len(clean.get("f")) <= 8 * MB


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_limited(clean: Box, stream: str) -> None:
    result = clean.run(f"import sys\nfor _ in range(1000): sys.{stream}.write('x' * 100_000)")
    assert result.stop == "output"
    assert len(getattr(result, f"{stream}_bytes")) == 200_000


def test_reading_missing_input_ends(clean: Box) -> None:
    result = clean.run("print(repr(__import__('sys').stdin.read()))")
    assert result.stdout == "''\n"
    assert clean.run("input()").stderr.strip().endswith("EOFError: EOF when reading a line")


def test_a_daemon_does_not_outlive_its_run(clean: Box) -> None:
    word = f"turncredit-daemon-{os.getpid()}-{clean.backend}"
    daemon = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.execvp("python3", ["python3", "-c", "import time; time.sleep(300)", "{word}"])
    os._exit(0)
time.sleep(0.7)
print("left")
"""
    assert clean.run(daemon).stdout == "left\n"
    until = time.monotonic() + 60
    while processes(word) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes(word) == []


def test_boxes_do_not_see_one_another(clean: Box) -> None:
    with box_of(clean.backend) as other:
        other.put("mine.txt", "secret of the other box")
        path = getattr(other, "path", "/work")
        code = f"""
import os
for folder in ("{path}", "{path}/work", "/"):
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("proc", "usr", "sys", "lib", "etc")]
        if "mine.txt" in names: print("BROKEN", here)
"""
        assert "BROKEN" not in clean.run(code).stdout
        word = f"turncredit-neighbour-{os.getpid()}"
        with other.session() as session:
            assert (
                session.run(
                    f"import subprocess; p = subprocess.Popen(['sleep', '60'], env=dict(W='{word}')); p.poll()"
                ).stop
                == "exit"
            )
            clean.run("import os, signal\nos.kill(-1, signal.SIGKILL)")
            assert session.run("p.poll() is None").value == "True"
