"""A user id for each box, that nobody else has: what a box may do to other processes and files ends there.

A slot is leased by binding an abstract socket of its name, which the kernel lets go when the holder dies: nothing lies
on disk, and two supervisors on one machine never share an id.
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

_BASES: Final = (900_000, 62_000)  # the second for containers that know only 65,536 ids
COUNT: Final = 1024


@dataclass
class Slot:
    """A leased user id."""

    uid: int
    lock: socket.socket

    def release(self) -> None:
        """Give the id back."""
        self.lock.close()


def lease() -> Slot:
    """Return a user id that is free, with no process on it.

    Raises:
        OSError: this process may not change its user id, or every id is taken.
    """
    for uid in _candidates():
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(f"\0turnwise-sandbox-{uid}")
        except OSError:
            lock.close()
            continue
        if kill_all(uid):
            return Slot(uid, lock)
        lock.close()
    raise OSError("no user id is free for a box")


def sweep() -> None:
    """End what supervisors that died left on ids that nobody holds (a program that was just being started, perhaps)."""
    for base in _BASES if os.geteuid() == 0 else ():
        for uid in filter(populated, range(base, base + COUNT)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock, suppress(OSError):
                lock.bind(f"\0turnwise-sandbox-{uid}")
                kill_all(uid)


def _candidates() -> Iterator[int]:
    for base in _BASES:
        if usable(base):
            yield from range(base, base + COUNT)


@cache
def usable(uid: int) -> bool:
    """Return whether a child of this process can become that user (and only that)."""
    if os.geteuid() != 0:
        return False
    return _in_child(lambda: become(uid)) == 0


def become(uid: int) -> None:
    """Make this process that user, in no other group, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def kill_all(uid: int, reap: Callable[[], object] = lambda: None, seconds: float = 5.0) -> bool:
    """End every process of a user id, and return whether none is left.

    Args:
        uid: the user id of a slot.
        reap: collects children that have ended, since one that nobody collected still counts as a process.
        seconds: how long to wait for the last.
    """

    def strike() -> None:
        become(uid)
        os.kill(-1, signal.SIGKILL)  # all at once, so that nothing can fork away from it

    until = time.monotonic() + seconds
    while populated(uid):
        if time.monotonic() > until:
            return False
        _in_child(strike)
        reap()
        time.sleep(0.0005)
    return True


def populated(uid: int) -> bool:
    """Return whether any process, even one that is only waiting to be collected, has that user id."""
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    return True


def tasks(uid: int) -> int:
    """Return how many processes and threads a user id has."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def owner(pid: int) -> int:
    """Return the user id of a process; -1 when it is gone."""
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
