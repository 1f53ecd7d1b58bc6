"""Nothing outlives its run, and nothing but files its restore; each attack works where nothing protects."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from toys.processes import end, processes
from toys.sandboxes import ALL, LIMITS, LOCAL, MB, box_of, needed
from toys.waiting import eventually

from turncredit.envs.bash.shell import Shell
from turncredit.tools.sandbox import Box, SnapshotError, probe
from turncredit.tools.sandbox.local import LocalBox

pytestmark = pytest.mark.waits

# The first argument is a word that marks the processes.
LOOP = """
import os, signal, sys, time
if os.fork():
    time.sleep(0.3)
    os._exit(0)
os.setsid()
while True:
    try: os.kill(-1, signal.SIGKILL)
    except OSError: pass
"""
LOOPS = LOOP.replace("os.setsid()", "os.setsid(); os.fork(); os.fork()")
CHAIN = """
import os, sys, time
if os.fork():
    time.sleep(0.2)
    os._exit(0)
while True:
    os.setsid()
    if os.fork(): os._exit(0)
"""
SLOW_CHAIN = CHAIN.replace("os.setsid()", "os.setsid(); time.sleep(0.02)")  # long enough to be seen in /proc
CHAINS = CHAIN.replace("while True:", "os.fork(); os.fork(); os.fork()\nwhile True:")
DAEMON = """
import os, signal, sys, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2): os.dup2(os.open("/dev/null", os.O_RDWR), fd)
        time.sleep(3000)
    os._exit(0)
time.sleep(0.2)
"""
STOPPER = """
import os, signal, sys, time
if os.fork():
    while True: time.sleep(1)
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (1, os.getpid()):
        try: os.kill(int(name), signal.SIGSTOP)
        except OSError: pass
while True: time.sleep(1)
"""
FORKS = "import os, sys\nwhile True:\n    try: os.fork()\n    except OSError: pass"
ATTACKS = {
    "kills everything": LOOP,
    "several kill everything": LOOPS,
    "a chain of forks": CHAIN,
    "a slow chain of forks": SLOW_CHAIN,
    "chains of forks": CHAINS,
    "a daemon that ignores signals": DAEMON,
    "stops everything": STOPPER,
    "forks without end": FORKS,
}
# Rewrite the first process of the namespace: it forgets whom it should die with, and never ends.
REWRITE = """
import os, subprocess, sys
subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True)
place = int(open("/proc/1/syscall").read().split()[-1], 16)
code = bytes.fromhex("b89d000000bf0100000031f60f05" "b8220000000f05ebf7")
with open("/proc/1/mem", "r+b", buffering=0) as memory:
    memory.seek(place)
    memory.write(code)
print("rewritten", flush=True)
"""


@pytest.fixture(params=ALL)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with box_of(request.param, memory=512 * MB) as made:  # room for all forks: else the kernel may end the session
        yield made


def word(kind: str = "") -> str:
    return f"turncredit-survivor-{os.getpid()}{kind}"


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("session", [False, True], ids=["alone", "beside a session"])
def test_nothing_outlives_its_run(attack: str, session: bool, box: Box) -> None:
    opened = box.session() if session else None
    if opened:
        opened.run("x = 5")
    limit = 3 if box.backend == "docker" else 1  # the attack must have begun
    result = box.run([box.python, "-c", ATTACKS[attack], word()], timeout=limit)
    assert processes(word()) == [], result
    assert box.run("print(1)").stdout == "1\n"
    if opened:
        answer = opened.run("6 * 7")
        if box.backend == "docker" and "kill" in attack:  # the same user id, in the same process namespace
            assert (answer.stop, answer.restarted) == ("killed", True)
            answer = opened.run("6 * 7")
        assert answer.value == "42", answer
        opened.close()
    assert processes(word()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user of its own, to end them")
@pytest.mark.parametrize("attack", ["a slow chain of forks", "a daemon that ignores signals"])
def test_they_outlive_a_run_without_protection(attack: str) -> None:
    """Control."""
    own = 100_000 + os.getpid()  # no other worker of pytest ends this one's processes
    user = {"user": own, "group": own, "extra_groups": []}
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    try:
        subprocess.run([python, "-c", ATTACKS[attack], word()], check=True, cwd="/", **user)  # type: ignore[call-overload]
        assert eventually(lambda: bool(processes(word())))
    finally:
        subprocess.run([python, "-c", "import os; os.kill(-1, 9)"], check=True, cwd="/", **user)  # type: ignore[call-overload]
        assert eventually(lambda: not processes(word()))


def test_a_kill_loop_withstands_the_user_that_it_runs_as() -> None:
    """Control: what ends it is not one of the processes that it can kill itself."""
    with box_of("docker") as box:
        api, container = box.api, box.id  # type: ignore[attr-defined]

        def withstands() -> bool:
            loop = api.exec_create(container, [box.python, "-c", LOOP, word()], user="1000:1000")["Id"]
            api.exec_start(loop, detach=True)
            assert eventually(lambda: not api.exec_inspect(loop)["Running"])  # it has killed its parent
            sweep = api.exec_create(container, ["sh", "-c", "kill -9 -1"], user="1000:1000")["Id"]
            api.exec_start(sweep)
            return bool(processes(word()))

        assert any(withstands() for _ in range(30))  # on a busy machine, the sweep is now and then the first to strike
        box._end_runs()  # type: ignore[attr-defined]
        assert processes(word()) == []


def seconds() -> str:
    return f"86.{os.getpid()}"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86-64")
@pytest.mark.parametrize("session", [False, True], ids=["alone", "beside a session"])
def test_a_program_that_rewrites_the_first_process_ends(session: bool) -> None:
    with box_of("bwrap") as box:
        opened = box.session() if session else None
        result = box.run([box.python, "-c", REWRITE, seconds()], timeout=2)
        assert result.stdout == "rewritten\n", result
        assert processes(f"sleep\0{seconds()}") == []
        assert opened is None or opened.run("1 + 1").value == "2"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86-64")
def test_it_outlives_bubblewrap() -> None:
    """Control: bubblewrap alone."""
    needed("bwrap")
    bwrap = shutil.which("bwrap") or "bwrap"
    command = [bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    try:
        run = subprocess.Popen([*command, "--", sys.executable, "-c", REWRITE, seconds()], stdout=subprocess.PIPE)
        assert run.stdout is not None
        assert run.stdout.readline() == b"rewritten\n"
        sleeper = processes(f"sleep\0{seconds()}")
        time.sleep(0.5)  # until the first process has noticed the end of the program
        run.kill()  # as a time limit does
        run.wait()
        run.stdout.close()
        time.sleep(0.5)
        assert len(sleeper) == 1
        assert processes(f"sleep\0{seconds()}") == sleeper
    finally:
        for pid in processes(f"sleep\0{seconds()}"):
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                parent = int(next(line for line in file if line.startswith("PPid:")).split()[1])
            if parent > 1:
                os.kill(parent, 9)  # the first process, and with it the namespace
        end(f"sleep\0{seconds()}")


HIDE = """
import os
for folder in ("/tmp", "/dev/shm", os.environ["TMPDIR"]):
    try:
        os.makedirs(f"{folder}/a/b", exist_ok=True)
        open(f"{folder}/a/b/secret", "w").write("x")
        open(f"{folder}/secret", "w").write("x")
        os.chmod(f"{folder}/a/b", 0)
        os.chmod(f"{folder}/a", 0o500)
    except OSError: continue
    try: os.chmod(folder, 0o555)
    except OSError: pass
    try: os.utime(folder, (77, 77))
    except OSError: pass
try:
    os.utime(".", (77, 77))
    os.chmod(".", 0o711)
except OSError: pass
"""
SEEK = """
import os
for folder in ("/tmp", "/dev/shm", os.environ["TMPDIR"]):
    try: found = os.listdir(folder)
    except OSError: continue
    if "secret" in found or "a" in found: print("FOUND", folder)
    if os.stat(folder).st_mtime == 77 or os.stat(folder).st_atime == 77: print("FOUND times of", folder)
about = os.stat(".")
if 77 in (about.st_mtime, about.st_atime): print("FOUND times")
if about.st_mode & 0o777 == 0o711: print("FOUND mode")
for folder in (".", os.environ["TMPDIR"]):
    try: open(f"{folder}/new", "w").close()
    except OSError as error: print("FOUND", error)
"""


def test_nothing_but_files_outlives_a_restore(box: Box) -> None:
    before = box.snapshot()
    assert box.run(HIDE).ok
    assert "FOUND" in box.run(SEEK).stdout  # until then it is kept, as documented
    assert box.run(HIDE).ok
    box.restore(before)
    assert box.run(SEEK).stdout == ""
    box.restore(before)
    assert box.snapshot() == before


NEST = """
import os
for place in {places}:
    fd = os.open(place, os.O_DIRECTORY)
    for _ in range({depth}):
        os.mkdir({name!r}, dir_fd=fd)
        inner = os.open({name!r}, os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.fchmod(fd, 0)
"""


@pytest.mark.parametrize(("name", "depth"), [("d", 1200), ("n" * 255, 300)])
@pytest.mark.parametrize("backend", ALL)
def test_deep_folders_do_not_outlive_a_restore(backend: str, name: str, depth: int) -> None:
    """Control: `rm` leaves them in the containers, since it opens a file for each level and gives up."""
    with box_of(backend, files=4000) as box:
        before = box.snapshot()
        places = [".", "/tmp", "/dev/shm"] if backend != "landlock" else [".", "../tmp", "../shm"]
        assert box.run(NEST.format(places=places, name=name, depth=depth)).ok
        if backend == "docker":
            assert not box.run(["rm", "-rf", f"/tmp/{name}"]).ok
        with pytest.raises(SnapshotError):
            box.snapshot()
        box.restore(before)
        assert box.run(f"import os\nfor place in {places!r}: print(*os.listdir(place))").stdout.strip() == ""
        assert box.snapshot() == before


@pytest.mark.parametrize("backend", ALL)
def test_a_command_leaves_nothing_for_the_next_one(backend: str) -> None:
    hide = 'for d in "${TMPDIR:-/tmp}" /dev/shm; do echo x > $d/kept; chmod 555 $d; done 2>/dev/null; true'
    seek = 'cat "${TMPDIR:-/tmp}"/kept /dev/shm/kept'
    shell = Shell(lambda: box_of(backend), 20)
    try:
        assert shell.run({}, "", f"{hide}; {seek}").text.count("x") >= 1
        assert "x\n" not in shell.run({}, "", seek).text
    finally:
        shell.close()


@pytest.mark.parametrize("path", ["/work/" + "x" * 150_000, "/" + "y" * 150_000, "/work/a\0b", "/\0", "/work/\udcff"])
def test_a_false_folder_does_not_break_the_next_command(path: str) -> None:
    """A program that writes the control lines of the shell."""
    code = "import os; os.write(9, b'\\n' + open('/proc/self/environ', 'rb').read()[:0] + PATH)"
    shell = Shell(lambda: box_of("bwrap"), 20)
    try:
        said = f"import sys, os\nnonce = open('/proc/%d/cmdline' % os.getppid(), 'rb').read().split(b'\\0')[-3]\n{code}"
        data = os.fsencode(path)
        program = said.replace("PATH", "nonce + b' at ' + DATA + b'\\n'").replace("DATA", _expression(data))
        first = shell.run({}, "", f"python3 - <<'END'\n{program}\nos.kill(os.getppid(), 9)\nEND\n")
        second = shell.run(first.tree, first.folder, "echo alive; pwd")
        assert "alive\n/work" in second.text, (first, second)
    finally:
        shell.close()


def _expression(data: bytes) -> str:
    """Return Python source of bytes, short if one byte is repeated."""
    return f"{data[:6]!r} + {data[-1:]!r} * {len(data) - 6}" if len(data) > 100 else repr(data)


def monitored(backend: str = "landlock", **changes: float) -> LocalBox:
    """Return a box without a file system of its own, as on a machine that does not permit one."""
    needed(backend)
    config = next(status.config for status in probe() if status.name == backend)
    assert config is not None
    return LocalBox(LIMITS.but(**changes), replace(config, own_filesystem=False))


def test_closing_a_large_box_does_not_hold_up_others() -> None:
    box, neighbour = monitored(files=30_000, disk=1 << 30), box_of("landlock")
    with neighbour:
        many = "for n in range(20000): open(f'{n}', 'w').close()"
        assert box.run(many).ok
        closing = threading.Thread(target=box.close)
        closing.start()
        assert eventually(lambda: box.closed)
        assert neighbour.run(["echo", "here"]).stdout == "here\n"
        assert closing.is_alive(), "the neighbour had to wait until the files were removed"
        closing.join()
    assert not os.path.exists(box.path)


@pytest.mark.parametrize("backend", LOCAL)
def test_many_boxes_with_fork_bombs_close(backend: str) -> None:
    boxes = [box_of(backend) for _ in range(4)]
    running = [threading.Thread(target=lambda box=box: box.run([box.python, "-c", FORKS, word()])) for box in boxes]  # type: ignore[misc]
    for thread in running:
        thread.start()
    assert eventually(lambda: len(processes(word())) > 20)
    for box in boxes:
        box.close()
    for thread in running:
        thread.join()
    assert processes(word()) == []
