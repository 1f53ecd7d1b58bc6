"""What a program in a box may use, and what became of it: `Limits` and `Result`."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from turnwise.tools.sandbox.errors import BadLimits

Stop = Literal["exit", "timeout", "cpu", "memory", "output", "processes", "disk", "killed"]
STOPS: Final[tuple[Stop, ...]] = ("exit", "timeout", "cpu", "memory", "output", "processes", "disk", "killed")

MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a box may use; frozen, so that boxes can share one.

    Args:
        wall: seconds that one run may take.
        cpu: seconds of processor that one process may use, rounded up to whole ones.
        memory: bytes of address space of one process, and of all together where the machine lets us count them.
        processes: processes and threads at a time.
        output: bytes of standard output, and as many of standard error; a program that writes more is ended.
        file_size: bytes of one file.
        disk: bytes of all files of the box together.
        files: files and folders of the box.
        network: False: no network, not even loopback to the host. True: the host's network.

    Raises:
        BadLimits: a number that is not positive and finite, or a box so small that nothing runs in it.
    """

    wall: float = 10.0
    cpu: float = 10.0
    memory: int = 512 * MB
    processes: int = 32
    output: int = 1 * MB
    file_size: int = 32 * MB
    disk: int = 64 * MB
    files: int = 4096
    network: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "network":
                if not isinstance(value, bool):
                    raise BadLimits(f"network must be True or False, not {value!r}")
                continue
            whole = field.name not in ("wall", "cpu")
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise BadLimits(f"{field.name} must be {'a whole' if whole else 'a'} number, not {value!r}")
            if not (0 < value < math.inf):
                raise BadLimits(f"{field.name} must be more than 0 and finite, not {value!r}")
        for name, least in (("memory", 16 * MB), ("disk", 64 * 1024), ("files", 8)):
            if getattr(self, name) < least:
                raise BadLimits(f"{name} must be at least {least:,}, not {getattr(self, name):,}")

    def but(self, **changes: float) -> Limits:
        """Return these limits with some changed.

        >>> Limits().but(wall=2).wall
        2
        """
        unknown = set(changes) - {field.name for field in fields(self)}
        if unknown:
            names = ", ".join(field.name for field in fields(self))
            raise BadLimits(f"there is no limit {sorted(unknown)[0]!r}; the limits are {names}")
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one run.

    Args:
        stdout_bytes: what it wrote, at most `limits.output` bytes; `stdout` is the text.
        stderr_bytes: likewise.
        code: its exit code as a shell shows it: 0 to 255, 128 + n for signal n.
        stop: why it stopped. "exit": by itself, whatever the code. "timeout", "cpu", "output": ended at that limit.
            "memory", "processes", "disk": it failed, and that limit was what it met (docs/sandbox.md says how this is
            told). "killed": somebody else ended it.
        seconds: wall time.
        peak: bytes of memory of its largest process; 0 where nobody knows.
    """

    stdout_bytes: bytes
    stderr_bytes: bytes
    code: int
    stop: Stop
    seconds: float
    peak: int

    @property
    def stdout(self) -> str:
        """Standard output as text; what is not UTF-8 becomes U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; what is not UTF-8 becomes U+FFFD."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """True when it ended by itself with exit code 0."""
        return self.stop == "exit" and self.code == 0
