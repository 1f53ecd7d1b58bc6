"""A separate user id for each box, so that it has no rights to other processes and files.

An id is leased by binding an abstract socket of its name, which the kernel releases when the holder dies: nothing is
left on disk, and two processes on one machine never share an id.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

_BASES: Final = (900_000, 62_000)  # the second one for containers with only 65,536 ids
COUNT: Final = 1024


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
        if kill_all(uid):
            return UserIdLease(uid, lock)
        lock.close()
    raise OSError("no user id is free for a box")


def sweep() -> None:
    """Kill processes with ids that nobody leases, which a process that died may have left behind."""
    for base in _BASES if os.geteuid() == 0 else ():
        for uid in filter(has_processes, range(base, base + COUNT)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock, suppress(OSError):
                lock.bind(_address(uid))
                kill_all(uid)


def _address(uid: int) -> str:
    return f"\0turnwise-sandbox-{uid}"


def _candidates() -> Iterator[int]:
    for base in _BASES:
        if usable(base):
            yield from range(base, base + COUNT)


@cache
def usable(uid: int) -> bool:
    """Return whether a child of this process can switch to that user."""
    return os.geteuid() == 0 and _in_child(lambda: become(uid)) == 0


def become(uid: int) -> None:
    """Switch this process to that user and no other groups, permanently."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def kill_all(uid: int, reap: Callable[[], object] = lambda: None, seconds: float = 5.0) -> bool:
    """Kill every process of a user id, and return whether none is left.

    Args:
        uid: a leased user id.
        reap: collects children that have ended; they count as processes until then.
        seconds: how long to wait for the last one.
    """

    def strike() -> None:
        become(uid)
        os.kill(-1, signal.SIGKILL)  # all at once, so that no process can escape by forking

    deadline = time.monotonic() + seconds
    while has_processes(uid):
        if time.monotonic() > deadline:
            return False
        _in_child(strike)
        reap()
        time.sleep(0.0005)
    return True


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
