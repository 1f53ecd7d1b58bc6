"""A separate user id for each box, so that it has no rights to other processes and files.

An id is leased by binding an abstract socket of its name, which the kernel releases when the holder dies: nothing is
left on disk, and two processes on one machine never share an id.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

_BASES: Final = (900_000, 62_000)  # the second one for containers with only 65,536 ids
COUNT: Final = 1024
_LEFTOVERS: Final = 0.2  # seconds for processes of a free id to end; after that, the next id is tried


@dataclass
class UserIdLease:
    """A user id that no other box uses."""

    uid: int
    lock: socket.socket

    def release(self) -> None:
        """Give the id back."""
        self.lock.close()


def lease() -> UserIdLease:
    """Lease a free user id without any processes.

    Raises:
        OSError: this process may not change its user id, or all ids are taken.
    """
    for uid in _candidates():
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(_address(uid))
        except OSError:
            lock.close()
            continue
        if kill_all(uid, seconds=_LEFTOVERS):
            return UserIdLease(uid, lock)
        lock.close()
    raise OSError("no user id is free for a box")


def sweep() -> None:
    """Kill processes with ids that nobody leases, which a process that died may have left behind."""
    for base in _BASES if os.geteuid() == 0 else ():
        for uid in filter(has_processes, range(base, base + COUNT)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock, suppress(OSError):
                lock.bind(_address(uid))
                kill_all(uid, seconds=_LEFTOVERS)


def _address(uid: int) -> str:
    return f"\0turncredit-sandbox-{uid}"


def _candidates() -> Iterator[int]:
    for base in _BASES:
        if usable(base):
            yield from range(base, base + COUNT)


@cache
def usable(uid: int) -> bool:
    """Return whether a child of this process can switch to that user, and to the last one of its range."""
    return os.geteuid() == 0 and all(_in_child(partial(become, member)) == 0 for member in (uid, uid + COUNT))


def become(uid: int) -> None:
    """Switch this process to that user and no other groups, permanently."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def kill_all(uid: int, *, seconds: float) -> bool:
    """Kill every process of a leased user id, and return whether none is left after some seconds."""
    deadline = time.monotonic() + seconds
    while has_processes(uid):
        if time.monotonic() > deadline:
            return False
        signal_all(uid, signal.SIGKILL)
        time.sleep(0.0005)
    return True


def signal_all(uid: int, number: int) -> None:
    """Send a signal to every process of a leased user id, all at once, so that none can escape by forking.

    The process that does it can signal them by its effective user id. They cannot signal it in return, which takes its
    real or saved id: these are an id that no box has.
    """

    def strike() -> None:
        shield = next(base + COUNT for base in _BASES if base <= uid < base + COUNT)
        os.setgroups([])
        os.setresgid(shield, shield, shield)
        os.setresuid(shield, uid, shield)
        os.kill(-1, number)

    _in_child(strike)


def running(uid: int) -> bool:
    """Return whether any thread of a user id is neither stopped nor dead."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid and any(map(_runs, _threads(name))):
                return True
    return False


def _threads(process: str) -> list[str]:
    return [f"/proc/{process}/task/{name}/stat" for name in os.listdir(f"/proc/{process}/task")]


def _runs(stat: str) -> bool:
    with open(stat, "rb") as file:
        state = file.read().rpartition(b")")[2].split()[0]  # the name of the program in brackets is its own choice
    return state not in (b"T", b"t", b"Z", b"X")


def descendants(pids: Iterable[int]) -> list[int]:
    """Return these processes and all that descend from them."""
    processes, waiting = [], list(pids)
    while waiting:
        pid = waiting.pop()
        processes.append(pid)
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                    waiting += map(int, file.read().split())
    return processes


def has_processes(uid: int) -> bool:
    """Return whether any process, zombies included, has that user id."""
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    return True


def tasks(uid: int) -> int:
    """Return the number of processes and threads of a user id."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def owner(pid: int) -> int:
    """Return the user id of a process; -1 if it is gone."""
    with suppress(OSError, StopIteration), open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("Uid:")).split()[1])
    return -1


def _in_child(task: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            task()
            code = 0
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
