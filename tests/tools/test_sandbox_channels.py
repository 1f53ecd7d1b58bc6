"""Boxes that run at the same time: one must not learn from another, hold up the host, or use up what all share."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys.sandboxes import ALL, LOCAL, box_of

from turncredit.tools.sandbox import Box, seccomp

pytestmark = pytest.mark.waits

x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
_HELP = """
import contextlib, ctypes, fcntl, os, struct
libc = ctypes.CDLL(None, use_errno=True)
held, shared = [], os.path.realpath("/bin/sh")  # in every box, the same file of the machine or of the image
def record(kind, start=0, length=1): return struct.pack("hhlliq", kind, 0, start, length, 0, 0)
def free(fd, command=fcntl.F_GETLK):
    return struct.unpack("hhlliq", fcntl.fcntl(fd, command, record(fcntl.F_WRLCK)))[0] == fcntl.F_UNLCK
def whole(fd): fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); held.append(fd)
def opened(path, flags=os.O_RDONLY): return os.open(path, flags)
def event(): return libc.eventfd(0, 0)
"""
# What one program does, and an expression by which another can tell; it is True where nobody has done that.
CHANNELS = {
    "a lock on a file": ("whole(opened(shared))", "whole(opened(shared)) is None"),
    "a lock on a device": ("whole(opened('/dev/zero'))", "whole(opened('/dev/zero')) is None"),
    "a lock on an event": ("whole(event())", "whole(event()) is None"),
    "a lock on a namespace": ("whole(opened('/proc/self/ns/time'))", "whole(opened('/proc/self/ns/time')) is None"),
    "a record of a file": (
        "held.append(opened(shared)); fcntl.fcntl(held[0], fcntl.F_SETLK, record(fcntl.F_RDLCK))",
        "free(opened(shared))",
    ),
    "a record of an event": (
        "held.append(event()); fcntl.fcntl(held[0], fcntl.F_SETLK, record(fcntl.F_WRLCK))",
        "free(event())",
    ),
    "a description of a file": (
        "held.append(opened(shared)); fcntl.fcntl(held[0], 37, record(fcntl.F_RDLCK))",
        "free(opened(shared), 36)",
    ),
    "a list of locks": (
        "held.append(opened('own', 66)); fcntl.fcntl(held[0], 37, record(fcntl.F_WRLCK, 471147, 7))",
        "' 471147 ' not in open('/proc/locks').read()",
    ),
}


class Program:
    """A program without a box that stays until it is closed."""

    def __init__(self, code: str, folder: Path) -> None:
        command = [sys.executable, "-c", f"{_HELP}\n{code}\nprint('done', flush=True)\ninput()"]
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def close(self) -> None:
        self.process.communicate("\n")


def told(channel: str) -> str:
    """A program that prints whether it can tell that another one is there."""
    return f"{_HELP}\nwith contextlib.suppress(OSError): print('free' if {CHANNELS[channel][1]} else 'held')"


def alone(code: str, folder: Path) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder).stdout


@pytest.fixture(scope="module", params=ALL)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Box, Box]]:
    with box_of(request.param) as sender, box_of(request.param) as receiver:
        yield sender, receiver


@x86_64
@pytest.mark.parametrize("channel", CHANNELS)
def test_boxes_cannot_talk_by_locks(channel: str, pair: tuple[Box, Box], tmp_path: Path) -> None:
    assert alone(told(channel), tmp_path) == "free\n"
    program = Program(CHANNELS[channel][0], tmp_path)
    try:
        assert alone(told(channel), tmp_path) != "free\n", "without a box, it can be told"
    finally:
        program.close()
    sender, receiver = pair
    quiet = receiver.run(told(channel))
    with sender.session() as session:
        session.run(_HELP + CHANNELS[channel][0])
        loud = receiver.run(told(channel))
    assert (loud.stdout, loud.stderr) == (quiet.stdout, quiet.stderr)
    assert "held" not in loud.stdout


@x86_64
@pytest.mark.parametrize("backend", LOCAL)
def test_a_box_does_not_keep_the_host_from_locking(backend: str) -> None:
    """A file of the host that boxes can read, in a folder that everybody may enter."""
    with open(os.path.realpath("/bin/sh"), "rb") as file, box_of(backend) as box, box.session() as session:
        said = session.run(f"{_HELP}\nfd = opened(shared); fcntl.fcntl(fd, fcntl.F_SETLK, record(fcntl.F_RDLCK))")
        assert not said.error, "SQLite needs record locks"
        assert "Function not implemented" in session.run("fcntl.flock(fd, fcntl.LOCK_EX)").error
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locks = Path("/proc/locks").read_text(encoding="utf-8")
        assert f":{os.fstat(file.fileno()).st_ino} " in locks
        assert locks.count(f":{os.fstat(file.fileno()).st_ino} ") == 1


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite_works_without_locks(pair: tuple[Box, Box], journal: str) -> None:
    code = f"""
import sqlite3
for number in range(2):
    base = sqlite3.connect("base-{journal}")
    mode = base.execute("pragma journal_mode={journal}").fetchone()[0]
    base.execute("create table if not exists a (b)")
    base.execute("insert into a values (?)", (number,))
    base.commit()
    print(mode, base.execute("select b from a").fetchall())
"""
    assert pair[0].run(code).stdout == f"{journal} [(0,)]\n{journal} [(0,), (1,)]\n"


TERMINALS = """
import os
count = 0
try:
    while count < 200:
        os.openpty()
        count += 1
except OSError: pass
print(count)
"""


def test_a_box_has_no_terminals(pair: tuple[Box, Box], tmp_path: Path) -> None:
    """The machine has a few thousand for all boxes, containers and users."""
    assert int(alone(TERMINALS, tmp_path)) > 100
    assert pair[0].run(TERMINALS).stdout == "0\n"
    assert pair[0].run("import os\nos.open('/dev/ptmx', os.O_RDWR)").code == 1


# Each prints OPEN where the command can be used.
COMMANDS = {
    "notices of changes": "fcntl.fcntl(opened('/usr'), 1026, 0x2f)",
    "leases": "fcntl.fcntl(opened('own', 66), 1024, fcntl.F_WRLCK)",
    "delegations": "fcntl.fcntl(opened('/usr'), 1040, bytes(16))",
    "hints on files": "fcntl.fcntl(opened('own', 66), 1036, struct.pack('Q', 4))",
    "hints on descriptions": "fcntl.fcntl(opened('own', 66), 1038, struct.pack('Q', 4))",
    "commands of tomorrow": "fcntl.fcntl(opened('own', 66), 1099)",
}


@x86_64
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_a_descriptor_is_refused(name: str, pair: tuple[Box, Box]) -> None:
    code = f"{_HELP}\ntry: {COMMANDS[name]}; print('OPEN')\nexcept OSError as error: print(error.errno)"
    result = pair[0].run(code)
    assert result.stdout == "1\n", result


@x86_64
def test_signals_of_descriptors_stay_in_the_box(pair: tuple[Box, Box]) -> None:
    """A descriptor may signal a process of the box when it is ready, but none outside."""
    code = f"""{_HELP}
import signal, time
signal.signal(signal.SIGIO, lambda *_: print("own"))
for owner in (os.getpid(), {os.getpid()}):
    here, there = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(here, fcntl.F_SETOWN, owner)
        fcntl.fcntl(here, 10, signal.SIGIO if owner == os.getpid() else signal.SIGTERM)  # F_SETSIG
        fcntl.fcntl(here, fcntl.F_SETFL, os.O_ASYNC)
        os.write(there, b"x")
        time.sleep(0.1)
"""
    result = pair[0].run(code)
    assert result.stdout == "own\n", result
    assert result.ok


@x86_64
def test_the_profile_of_docker_has_the_same_commands() -> None:
    import json

    profile = json.loads(seccomp.docker_profile(seccomp.CallPolicy(own_ipc=False)))
    rules = [rule for rule in profile["syscalls"] if "fcntl" in rule["names"]]
    locks = {rule["args"][0]["value"] for rule in rules if rule["action"] == "SCMP_ACT_ERRNO"}
    allowed = {rule["args"][0]["value"] for rule in rules if rule["action"] == "SCMP_ACT_ALLOW"}
    assert locks == {fcntl.F_SETLK, fcntl.F_SETLKW}
    assert allowed.isdisjoint({*locks, 36, 37, 38, 1024, 1026, 1029, 1036, 1038, 1039, 1040})
    assert {fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFL, fcntl.F_SETFL} <= allowed
    assert [rule["errnoRet"] for rule in profile["syscalls"] if "flock" in rule["names"]] == [38]
