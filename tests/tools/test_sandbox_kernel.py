"""Kernel interfaces that programs in a box must not have: each attack works on this machine without a box."""

import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys.sandboxes import ALL, LOCAL, box_of, needs_modes

from turncredit.tools.sandbox import Box, kernel, landlock, seccomp
from turncredit.tools.sandbox.seccomp import CallPolicy

pytestmark = pytest.mark.waits

x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
_HELP = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def open_(value): print("OPEN" if value >= 0 else "refused", value)
def family(*arguments):
    try: socket.socket(*arguments).close()
    except OSError as error: print("refused", error)
    else: print("OPEN", arguments)
"""
# Each prints OPEN where the interface can be used.
INTERFACES = {
    "sockets of virtual machines": "family(40, 1, 0)",
    "sockets of the audit system": "family(16, 3, 9)",
    "sockets for device events": "family(16, 3, 15)",
    "packet sockets": "family(17, 3, 0)",
    "cryptography sockets": "family(38, 5, 0)",
    "other families": "for number in range(64):\n    if number not in (1, 2, 10, 16): family(number, 1, 0)",
    "pairs of other families": """
try: socket.socketpair(socket.AF_INET); print("OPEN")
except OSError as error: print("refused" if error.errno == 1 else "OPEN", error)""",
    "asynchronous I/O contexts": "open_(libc.syscall(206, 64, ctypes.byref(ctypes.c_ulong())))",
    "inotify": "open_(libc.inotify_init1(0))",
    "old inotify": "open_(libc.inotify_init())",
    "fanotify": "open_(libc.fanotify_init(0, 0))",
    "io_uring": "open_(libc.syscall(425, 8, ctypes.create_string_buffer(200)))",
    "keys": "open_(libc.syscall(248, b'user', b'turncredit', b'x', 1, -3))",
    "keyrings": "open_(libc.syscall(250, 0, -3, 1))",
    "userfaultfd": "open_(libc.syscall(323, 1))",
    "bpf": "open_(libc.syscall(321, 0, (ctypes.c_uint32 * 18)(2, 4, 8, 1), 72))",
    "performance counters": """
attributes = ctypes.create_string_buffer((1).to_bytes(4, "little") + (128).to_bytes(4, "little"), 128)
open_(libc.syscall(298, attributes, 0, -1, -1, 0))""",
    "attributes of files": """
open("own", "w").close()
try: os.setxattr("own", "user.x", b"1"); print("OPEN")
except OSError as error: print("refused" if error.errno == 95 else "OPEN", error)""",
    "attributes of directories": """
try: os.setxattr(".", "user.x", b"1"); print("OPEN")
except OSError as error: print("refused", error)""",
    "calls of tomorrow": "open_(libc.syscall(1000)); print('OPEN' if ctypes.get_errno() not in (1, 38) else '')",
}
LASTING = {
    "shared memory": "open_(libc.shmget(0x7457, 4096, 0o1600))",
    "messages": "open_(libc.msgget(0x7457, 0o1600))",
    "semaphores": "open_(libc.semget(0x7457, 1, 0o1600))",
    "message queues": "open_(libc.syscall(240, b'turncredit', 0o102, 0o600, None))",
}
CLEAN = """
for name, remove in (("shmget", libc.shmctl), ("msgget", libc.msgctl)):
    found = getattr(libc, name)(0x7457, 0, 0) if name == "shmget" else getattr(libc, name)(0x7457, 0)
    if found >= 0: remove(found, 0, None)
if (found := libc.semget(0x7457, 0, 0)) >= 0: libc.semctl(found, 0, 0)
libc.syscall(241, b"turncredit")
"""


def unprotected(code: str) -> str:
    """Output of a program without a box."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        command = [sys.executable, "-c", _HELP + code]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "network"])
def network(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=ALL)
def box(request: pytest.FixtureRequest, network: bool) -> Iterator[Box]:
    with box_of(request.param, network=network) as made:
        yield made


@x86_64
@pytest.mark.parametrize("name", INTERFACES)
def test_an_interface_is_refused(name: str, box: Box) -> None:
    if name != "calls of tomorrow" and "OPEN" not in unprotected(INTERFACES[name]):
        pytest.skip("this kernel does not have it")
    result = box.run(_HELP + INTERFACES[name])
    assert "OPEN" not in result.stdout, result
    assert result.stdout, result


@x86_64
@pytest.mark.parametrize("name", LASTING)
def test_lasting_objects_do_not_outlive_a_run(name: str, box: Box) -> None:
    try:
        assert "OPEN" in unprotected(LASTING[name])  # without O_CREAT it would be there for the next one
    finally:
        unprotected(CLEAN)
    result = box.run(_HELP + LASTING[name])
    assert box.backend == "bwrap" or "OPEN" not in result.stdout, result
    found = box.run(_HELP + LASTING[name].replace("0o1600", "0").replace("0o102, 0o600", "2, 0"))
    assert found.stdout.startswith("refused"), found


def test_ordinary_sockets_remain(box: Box, network: bool) -> None:
    code = """
import socket
with socket.socketpair()[0] as one: print(one.family.name)
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
    try: socket.socket(family).close()
    except PermissionError: print("no", family.name)
    else: print(family.name)
"""
    wanted = {"AF_UNIX": not network, "AF_INET": True, "AF_INET6": True}
    if box.backend == "landlock" and not network:
        wanted = dict.fromkeys(wanted, False)
    lines = [name if works else f"no {name}" for name, works in wanted.items()]
    if not Path("/proc/net/if_inet6").exists():
        lines = lines[:-1]
    assert box.run(code).stdout.splitlines()[: len(lines) + 1] == ["AF_UNIX", *lines]


def test_programs_that_use_much_of_the_kernel_still_run(box: Box) -> None:
    needs_modes(box)
    code = """
import asyncio, concurrent.futures, ctypes, mmap, multiprocessing, os, selectors, shutil, sqlite3, subprocess, tempfile
import threading, time
async def main():
    process = await asyncio.create_subprocess_exec("echo", "sub", stdout=subprocess.PIPE)
    return (await process.communicate())[0]
print(asyncio.run(main()))
def square(n): return n * n
with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(square, range(3)))
with concurrent.futures.ThreadPoolExecutor(2) as pool: print(list(pool.map(square, range(3))))
with tempfile.TemporaryFile() as file: file.write(b"x"); print(file.tell())
open("one", "w").write("1"); shutil.copy2("one", "two"); os.mkdir("d0"); shutil.copytree("d0", "tree")
base = sqlite3.connect("base"); base.execute("create table a (b)"); base.commit(); print("sqlite")
print(time.clock_gettime(time.CLOCK_MONOTONIC) > 0, os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0)
"""
    if box.backend == "landlock":  # its semaphores are in /dev/shm, which belongs to the machine
        code = code.replace('multiprocessing.get_context("fork").Pool(2)', "concurrent.futures.ThreadPoolExecutor(2)")
        code = code.replace("print(pool.map", "print(*[list(pool.map", 1).replace("range(3)))\n", "range(3)))])\n", 1)
    result = box.run(code)
    assert result.ok, result
    assert result.stdout == "b'sub\\n'\n[0, 1, 4]\n[0, 1, 4]\n1\nsqlite\nTrue True True\n", result
    shell = (
        "touch -d @5 one; mkdir -p d; cp -a one d/; tar -cf t.tar d && tar -xf t.tar && ls -l d >/dev/null && echo done"
    )
    assert box.run(["sh", "-c", shell]).stdout == "done\n"


@pytest.mark.parametrize("backend", LOCAL)
def test_sockets_of_the_machine_are_out_of_reach_with_a_network(backend: str) -> None:
    """A Unix socket that everyone may connect to, as many system services have, with a name and with a path."""
    import socket

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as one, socket.socket(1) as two:
        Path(folder).chmod(0o755)
        one.bind(f"{folder}/socket")
        Path(folder, "socket").chmod(0o777)
        two.bind(name := f"\0turncredit-kernel-test-{os.getpid()}")
        one.listen()
        two.listen()
        for address in (f"{folder}/socket", name):
            code = f"import socket\nsocket.socket(socket.AF_UNIX).connect({address!r}); print('OPEN')"
            assert unprotected(code) == "OPEN\n"
            with box_of(backend, network=True) as box:
                assert box.run(code).stdout == ""


_HOST_FILE = """
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
path = {path!r}
def tries(what, attempt):
    try: attempt()
    except OSError as error: print("refused", what, error)
    else: print("OPEN", what)
tries("read an attribute", lambda: os.getxattr(path, "user.old"))
tries("list attributes", lambda: os.listxattr(path)[0])
tries("set an attribute", lambda: os.setxattr(path, "user.new", b"1"))
tries("remove an attribute", lambda: os.removexattr(path, "user.old"))
with __import__("contextlib").suppress(OSError): os.utime(path)
with __import__("contextlib").suppress(OSError): os.utime(path, (5, 5))
libc.utimes(path.encode(), None); libc.utime(path.encode(), None)
watch = libc.inotify_init1(0o4000)
if watch >= 0 and libc.inotify_add_watch(watch, os.path.dirname(path).encode(), 0x100) >= 0:
    print("OPEN names")
"""


def attributes(path: Path) -> tuple[list[str], float]:
    return sorted(os.listxattr(path)), path.stat().st_mtime


def test_attributes_and_times_of_files_of_the_host() -> None:
    """A file of the host that everyone may write, under landlock, which limits neither attributes nor times."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        file = Path(folder, "file")

        def prepare() -> tuple[list[str], float]:
            file.unlink(missing_ok=True)
            file.touch()
            file.chmod(0o666)
            os.utime(file, (1000, 1000))
            os.setxattr(file, "user.old", b"secret")
            return attributes(file)

        code = _HOST_FILE.format(path=str(file))
        before = prepare()
        user = {"user": 4242, "group": 4242, "extra_groups": []} if os.geteuid() == 0 else {}
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, **user)  # type: ignore[call-overload]
        assert done.stdout.count("OPEN") == 5, done.stdout
        assert attributes(file) != before
        before = prepare()
        with box_of("landlock") as box:
            result = box.run(code)
            assert "OPEN" not in result.stdout, result
            assert result.stdout.count("refused") == 4, result
        assert attributes(file) == before


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


@x86_64
@pytest.mark.parametrize(
    ("version", "network", "ports"),
    [(3, False, None), (3, True, None), (4, False, 3), (4, True, 0), (6, False, 3), (6, True, 0)],
)
def test_landlock_closes_ports_unless_the_network_is_allowed(
    monkeypatch: pytest.MonkeyPatch, version: int, network: bool, ports: int | None
) -> None:
    """Bits 1 and 2 of the second word: to bind and to connect. Older kernels do not know that word."""
    rulesets = []

    def syscall(number: int, *arguments: object) -> int:
        if isinstance(arguments[0], ctypes.Array):
            rulesets.append(bytes(arguments[0].raw))
        return os.open(os.devnull, os.O_RDONLY) if len(rulesets) == 1 and len(arguments) == 3 else 0

    monkeypatch.setattr(kernel, "syscall", syscall)  # nothing restricts this process
    monkeypatch.setattr(landlock, "abi", lambda: version)
    landlock.restrict([], [], [], network=network)
    (ruleset,) = rulesets
    words = struct.unpack(f"{len(ruleset) // 8}Q", ruleset)
    assert (words[1] if len(words) > 1 else None) == ports


def test_the_filter_refuses_exactly_the_listed_calls() -> None:
    allow, refuse, missing, kill, nothing, unsupported = (
        *(0x7FFF0000, 0x00050001, 0x00050026, 0x80000000, 0x00050000, 0x0005005F),
    )
    base = seccomp.program(CallPolicy())
    alone = seccomp.program(CallPolicy(sockets=False, path_bound=False, own_ipc=False, memory_files=False))
    own = seccomp.program(CallPolicy(network=True, path_bound=False, own_ipc=False, own_uid=True))
    for number in (0, 1, 2, 9, 39, 57, 59, 60, 231):  # read, write, open, mmap, getpid, fork, execve, exit, exit_group
        assert judge(alone, number) == judge(base, number) == allow
    for number in (101, 165, 206, 253, 254, 272, 294, 308, 321, 425):  # ptrace, mount, io_setup, inotify, setns, ...
        assert judge(alone, number) == judge(base, number) == refuse
    assert (judge(alone, 41, 1), judge(base, 41, 1), judge(own, 41, 1)) == (refuse, allow, refuse)  # socket
    assert (judge(base, 41, 2), judge(own, 41, 2), judge(base, 41, 40)) == (allow, allow, refuse)
    assert (judge(base, 41, 16, 3, 0), judge(base, 41, 16, 3, 9)) == (allow, refuse)
    assert (judge(alone, 53, 1), judge(alone, 53, 2)) == (allow, refuse)  # socketpair
    assert (judge(base, 435), judge(base, 437), judge(base, 470)) == (missing, missing, missing)  # clone3, openat2, new
    assert (judge(base, 56, 17), judge(base, 56, 0x10000000 | 17)) == (allow, refuse)  # clone
    assert (judge(base, 302, 0), judge(base, 302, 77)) == (allow, refuse)  # prlimit64
    assert (judge(base, 188), judge(alone, 191)) == (unsupported, unsupported)  # setxattr, getxattr
    assert (judge(base, 280), judge(alone, 280)) == (allow, nothing)  # utimensat
    assert (judge(base, 257, 0, 0, 0x410002), judge(alone, 257, 0, 0, 0x410002)) == (allow, unsupported)  # O_TMPFILE
    assert (judge(alone, 2, 0, 0x410002), judge(alone, 2, 0, 0x10000)) == (unsupported, allow)
    assert (judge(base, 319), judge(alone, 319), judge(base, 29), judge(alone, 29)) == (allow, refuse, allow, refuse)
    assert judge(base, 0x40000000 | 1) == kill
    assert judge(base, 1, audit=0x40000003) == kill
    assert (judge(alone, 90), judge(own, 90)) == (allow, refuse)  # chmod


def test_the_profile_of_docker_says_the_same() -> None:
    profile = json.loads(seccomp.docker_profile(CallPolicy(own_ipc=False)))
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", errno.EPERM)
    named: dict[str, list[dict[str, object]]] = {}
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            named.setdefault(name, []).append(rule)
    for name in ("read", "execve", "futex", "mmap"):
        assert [rule["action"] for rule in named[name]] == ["SCMP_ACT_ALLOW"]
        assert "args" not in named[name][0]
    for name in ("io_uring_setup", "keyctl", "bpf", "io_setup", "inotify_init1", "shmget", "mq_open", "userfaultfd"):
        assert name not in named
    assert [rule["errnoRet"] for rule in named["clone3"]] == [errno.ENOSYS]
    assert [rule["errnoRet"] for rule in named["fgetxattr"]] == [errno.EOPNOTSUPP]
    assert sorted(rule["args"][0]["value"] for rule in named["socket"]) == [1, 2, 10, 16]  # type: ignore[index]


def test_every_call_of_the_table_has_a_class() -> None:
    text = Path(seccomp.__file__).with_name("system_calls.txt").read_text(encoding="ascii")
    rows = [line.split() for line in text.splitlines()]
    assert {len(row) for row in rows} == {4}
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    for column in (1, 2):
        numbers = [row[column] for row in rows if row[column] != "-"]
        assert len(numbers) == len(set(numbers)) > 300
    kinds = {row[3] for row in rows}
    assert kinds == {
        *(
            "free",
            "never",
            "attributes",
            "locks",
            "lasting",
            "memory",
            "times",
            "modes",
            "priority",
            "absent",
            "socket",
        ),
        "checked",
    }
