"""What each limit of a box is worth: certain, or enforced in part, and how.

A limit is certain if no program in the box can exceed it, whatever it does. The host enforces those on time and output;
the kernel enforces the others, if it offers the means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from turncredit.tools.sandbox.limits import Limits

__all__ = ["DOCKER", "LimitGuarantee", "describe", "local_guarantees"]

LimitName = Literal["wall", "cpu", "memory", "processes", "output", "file_size", "disk", "files", "network"]


@dataclass(frozen=True, slots=True)
class LimitGuarantee:
    """How one limit is enforced.

    Args:
        limit: its name in `Limits`.
        certain: whether no program can exceed it.
        detail: what is certain in its place, or what it applies to; "" if there is nothing to add.
    """

    limit: LimitName
    certain: bool
    detail: str = ""


_CPU: Final = LimitGuarantee("cpu", True, "of each process")
DOCKER: Final = (
    LimitGuarantee("wall", True),
    _CPU,
    LimitGuarantee("memory", True, "of all processes and files together: memory + disk"),
    LimitGuarantee("processes", True),
    LimitGuarantee("output", True),
    LimitGuarantee("file_size", True),
    LimitGuarantee("disk", True, "of /work and of /tmp each, and up to 16 MB of /dev/shm"),
    LimitGuarantee("files", True, "of /work and of /tmp each"),
    LimitGuarantee("network", True),
)


def local_guarantees(
    *, backend: str, own_filesystem: bool, memory_counted: bool, own_uid: bool
) -> tuple[LimitGuarantee, ...]:
    """Return the guarantees of a box without a daemon.

    Args:
        backend: "bwrap" or "landlock".
        own_filesystem: whether its files are in a file system of a fixed size.
        memory_counted: whether it has a control group.
        own_uid: whether its programs have a user id that nobody else has.
    """
    most = f"each file has at most file_size bytes ({Limits().file_size >> 20} MB by default)"
    unwatched = f"disk usage is checked every 20 ms and not limited in between; only {most}"
    uncounted = "the memory limit applies to each process, since no control group can be created"
    own_count = own_uid or backend == "bwrap" or own_filesystem
    return (
        LimitGuarantee("wall", True),
        _CPU,
        LimitGuarantee("memory", memory_counted, "" if memory_counted else uncounted),
        LimitGuarantee("processes", own_count, "" if own_count else "the limit on processes counts your others too"),
        LimitGuarantee("output", True),
        LimitGuarantee("file_size", True),
        LimitGuarantee("disk", own_filesystem, "" if own_filesystem else unwatched),
        LimitGuarantee("files", own_filesystem, "" if own_filesystem else "the number of files is checked as often"),
        LimitGuarantee("network", True),
    )


def describe(guarantees: Iterable[LimitGuarantee]) -> str:
    """Return the limits that are certain, as a list for a table.

    >>> describe(DOCKER[:3])
    'certain limits: wall, cpu (of each process), memory (of all processes and files together: memory + disk)'
    """
    certain = [guarantee for guarantee in guarantees if guarantee.certain]
    return "certain limits: " + ", ".join(
        f"{guarantee.limit} ({guarantee.detail})" if guarantee.detail else guarantee.limit for guarantee in certain
    )
