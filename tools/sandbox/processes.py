"""End processes that programs leave behind, and count the CPU time of those that run; for the fork server.

Nothing here waits for a process to die: each function does one step and says whether anything is left.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Final

from turncredit.tools.sandbox import user_ids

_FIRST_PAUSE: Final = 0.001  # seconds between two strikes; doubled each time, up to the longest
_LONGEST_PAUSE: Final = 0.05
_ORPHANS: Final = 0.005  # seconds of one step against orphans
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Strikes:
    """Kills all processes of a user id at once, again and again with growing pauses, until none is left."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[float, float]] = {}  # user id -> (time of the next strike, pause after it)

    def kill_all(self, uid: int) -> bool:
        """Kill the processes of a user id if it is time to, and return whether there were none."""
        if not user_ids.has_processes(uid):
            self.forget(uid)
            return True
        due, pause = self._next.get(uid, (0.0, _FIRST_PAUSE))
        if time.monotonic() >= due:
            user_ids.signal_all(uid, signal.SIGKILL)
            self._next[uid] = (time.monotonic() + pause, min(2 * pause, _LONGEST_PAUSE))
        return False

    def forget(self, uid: int) -> None:
        """Start over with short pauses."""
        self._next.pop(uid, None)


def kill_orphans(uid: int, spared: Container[int], reap: Callable[[], object]) -> bool:
    """Kill processes of a user id that have lost their parent to this process; return whether none is left.

    They and all below them are stopped first: one that dies would make room for others to fork, a stopped one does not.
    """
    deadline = time.monotonic() + _ORPHANS
    stopped: set[int] = set()
    while True:
        orphans = [pid for pid in children(os.getpid()) if pid not in spared and user_ids.owner(pid) == uid]
        processes = set(user_ids.descendants(orphans))
        late = time.monotonic() > deadline
        _signal(processes - stopped, signal.SIGSTOP)
        if processes <= stopped or late:
            _signal(processes, signal.SIGKILL)
            reap()
        stopped |= processes
        if not orphans or late:
            return not orphans


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def is_orphaned_init(pid: int) -> bool:
    """Return whether a process is the first one of a process namespace and has lost its parent to this process.

    That excludes a process that merely got the same number later.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if line.startswith(("PPid:", "NSpid:")))
    except OSError:
        return False
    numbers = fields.get("NSpid", "").split()
    return fields.get("PPid", "").strip() == str(os.getpid()) and len(numbers) > 1 and numbers[-1] == "1"


def children(pid: int) -> list[int]:
    """Return the processes that the first thread of a process has started, or adopted."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def cpu_of(pids: Iterable[int]) -> float:
    """Return the CPU seconds of processes, with those of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
            ticks += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
    return ticks / _TICKS
