"""Control groups, versions 1 and 2: limit the memory of all processes of a box together.

Where none can be created, the memory limit applies to each process separately. CPU shares and I/O are not limited.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TOP = Path("/sys/fs/cgroup")
_PREFIX = "turncredit-"


@dataclass(frozen=True)
class ControlGroup:
    """The control group of one box."""

    folder: Path
    oom: str  # the file that counts out-of-memory kills
    entry: str  # the file that a process with one thread joins the group by

    def kills(self) -> int:
        """Return how many processes of the group the kernel has killed for lack of memory."""
        with suppress(OSError, ValueError):
            for line in (self.folder / self.oom).read_text().splitlines():
                word, _, number = line.partition(" ")
                if word == "oom_kill":
                    return int(number)
        return 0

    def join(self) -> int:
        """Return a descriptor; writing "0" to it moves the writer into the group."""
        return os.open(self.folder / self.entry, os.O_WRONLY | os.O_CLOEXEC)

    def remove(self) -> bool:
        """Remove the group; return False while processes in it are still dying."""
        try:
            self.folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def create(name: str, memory: int, top: Path = TOP) -> ControlGroup | None:
    """Create a group limited to `memory` bytes; return None if this machine does not permit it."""
    # In version 1, `tasks` takes the writing thread alone, without a lock of all groups that costs up to 25 ms.
    for parent, limits, oom, entry in (
        (top / "memory", ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "memory.oom_control", "tasks"),
        (top, ("memory.max", "memory.swap.max"), "memory.events", "cgroup.procs"),
    ):
        if (parent / "cgroup.procs").exists() and (group := _make(parent, name, limits, oom, entry, memory)):
            return group
    return None


def _make(parent: Path, name: str, limits: tuple[str, str], oom: str, entry: str, memory: int) -> ControlGroup | None:
    folder = parent / f"{_PREFIX}{os.getpid()}-{name}"
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        (folder / limits[0]).open("r+").close()  # it must exist: a plain directory would accept any file
        (folder / limits[0]).write_text(str(memory))
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    with suppress(OSError):  # not every kernel accounts for swap
        (folder / limits[1]).write_text("0" if limits[1] == "memory.swap.max" else str(memory))
    return ControlGroup(folder, oom, entry)


def sweep(top: Path = TOP) -> None:
    """Remove empty groups of fork servers that are gone."""
    for parent in (top / "memory", top):
        with suppress(OSError):
            for folder in parent.glob(f"{_PREFIX}*"):
                number = folder.name.removeprefix(_PREFIX).split("-")[0]
                if number.isdigit() and not Path(f"/proc/{number}").exists():
                    with suppress(OSError):
                        folder.rmdir()
