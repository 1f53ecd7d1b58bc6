"""Resource limits of a box (`Limits`) and the result of a run (`RunResult`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final, Literal, get_args

from turncredit.registry import suggest
from turncredit.tools.sandbox.errors import BadLimits

Stop = Literal["exit", "timeout", "cpu", "memory", "output", "processes", "disk", "killed"]
"""Why a program stopped."""
STOPS: Final[tuple[Stop, ...]] = get_args(Stop)

MB: Final = 1 << 20
_MINIMUM: Final = {"memory": 16 * MB, "disk": 64 * 1024, "files": 8}


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a box.

    Args:
        wall: wall-clock seconds of one run.
        cpu: CPU seconds of one process, rounded up to a whole number.
        memory: bytes of address space of one process, and of all processes together where they can be counted.
        processes: processes and threads at a time.
        output: bytes of standard output, and as many of standard error; a program that writes more is killed.
        file_size: bytes of one file.
        disk: bytes of all files in the box.
        files: number of files and directories in the box.
        network: False: no network at all, not even loopback to the host. True: the host's network.

    Raises:
        BadLimits: a limit is not positive and finite, or too small for any program to run.
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
        if not isinstance(self.network, bool):
            raise BadLimits(f"network must be True or False, got {self.network!r}")
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name == "network":
                continue
            whole = name not in ("wall", "cpu")
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise BadLimits(f"{name} must be {'an integer' if whole else 'a number'}, got {value!r}")
            if not (0 < value < math.inf):
                raise BadLimits(f"{name} must be > 0 and finite, got {value!r}")
            if value < _MINIMUM.get(name, 0):
                raise BadLimits(f"{name} must be >= {_MINIMUM[name]:,}, got {value:,}")

    def but(self, **changes: float) -> Limits:
        """Return a copy with some limits changed.

        >>> Limits().but(wall=2).wall
        2
        """
        names = [field.name for field in fields(self)]
        if unknown := sorted(set(changes) - set(names)):
            raise BadLimits(f"unknown limit {unknown[0]!r}{suggest(unknown[0], names)}")
        return replace(self, **changes)  # type: ignore[arg-type]

    def seconds(self, timeout: float | None) -> float:
        """Return the wall-clock seconds of one run: `timeout`, but at most `wall`.

        Raises:
            BadLimits: `timeout` is not greater than 0.
        """
        if timeout is not None and not timeout > 0:
            raise BadLimits(f"timeout must be > 0 seconds, got {timeout!r}")
        return self.wall if timeout is None else min(self.wall, timeout)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of running one program.

    Args:
        stdout_bytes: standard output, at most `limits.output` bytes; `stdout` decodes it.
        stderr_bytes: the same for standard error.
        code: exit code as a shell reports it: 0 to 255, 128 + n for signal n.
        stop: why the program stopped. "exit": it ended by itself, with any code. "timeout", "cpu", "output": it was
            killed at that limit. "memory", "processes", "disk": it failed because of that limit (docs/sandbox.md
            explains how this is detected). "killed": something else killed it.
        seconds: wall-clock time.
        peak: bytes of memory of the largest process; 0 if unknown.
    """

    stdout_bytes: bytes
    stderr_bytes: bytes
    code: int
    stop: Stop
    seconds: float
    peak: int

    @property
    def stdout(self) -> str:
        """Standard output as text; invalid UTF-8 becomes U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; invalid UTF-8 becomes U+FFFD."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.stop == "exit" and self.code == 0
