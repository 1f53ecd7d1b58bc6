"""Exceptions of environments.

    EnvError
    ├── UnknownEnv         no environment is registered with this id
    ├── UnknownOption      unknown keyword argument or reset option, or an invalid value
    ├── UnknownTask        no task instance with this id
    ├── NoGames            the folder or file holds no games
    ├── GameFileError      a game file is damaged or unsupported (path, line, construct)
    ├── NotReset           step() or plan() before the first reset()
    ├── StepAfterEnd       step() after terminated or truncated
    ├── NoExpert           plan() of an environment that nobody can plan for
    ├── BadSnapshot        bytes that cannot be restored here
    ├── DeadlineExceeded   a call took longer than its deadline; the environment is dead
    └── EnvironmentDied    the process of the environment has ended (exit code)
        └── HostDied       it ended while it ran another environment, or none

The command line prints their messages as they are. All of them can be pickled, since they cross process boundaries.
`UndeclaredType` and `SkippedGames` are warnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from turncredit.registry import suggest

__all__ = [
    "BadSnapshot",
    "DeadlineExceeded",
    "EnvError",
    "EnvironmentDied",
    "GameFileError",
    "HostDied",
    "NoExpert",
    "NoGames",
    "NotReset",
    "SkippedGames",
    "StepAfterEnd",
    "UndeclaredType",
    "UnknownEnv",
    "UnknownOption",
    "UnknownTask",
]


class EnvError(Exception):
    """Base class; the message is one sentence for the user."""


class UnknownEnv(EnvError):
    """No environment is registered with this id."""


class UnknownOption(EnvError):
    """An unknown keyword argument or reset option, or an invalid value of one."""


class UnknownTask(EnvError):
    """There is no task instance with this id."""

    @classmethod
    def of(cls, task: object, names: Iterable[str], where: str) -> UnknownTask:
        """Return the error for a task id that is not in `where` (a split or file), with a suggestion."""
        return cls(f"unknown task {task!r} in {where}{suggest(str(task), names, most=3)}")


class NoGames(EnvError):
    """The folder or file holds no games."""


class GameFileError(EnvError):
    """A game file is damaged, or uses a construct that the engine does not support."""

    def __init__(self, path: str | Path, line: int | None, construct: str, hint: str = "") -> None:
        """Keep the location and the problem.

        Args:
            path: the file (or the member of a packed file).
            line: line number from 1; None if unknown.
            construct: what was found.
            hint: what was expected, or what to do.
        """
        super().__init__(path, line, construct, hint)
        self.path = path
        self.line = line
        self.construct = construct
        self.hint = hint

    def __str__(self) -> str:
        """Return file, line and construct in one sentence."""
        where = f"{self.path}, line {self.line}" if self.line is not None else str(self.path)
        return f"{where}: {self.construct}" + (f" ({self.hint})" if self.hint else "")


class UndeclaredType(UserWarning):
    """A game uses a type that its domain does not declare, so no object has this type."""


class SkippedGames(UserWarning):
    """Games of a folder are left out since a key is missing, which users may not expect."""


class NotReset(EnvError):
    """There is no episode yet: call reset() first."""

    def __init__(self, message: str = "no episode has been started; call reset() first") -> None:
        """Keep the message."""
        super().__init__(message)


class StepAfterEnd(EnvError):
    """The episode has ended: call reset() first."""

    def __init__(self, message: str = "the episode has ended; call reset() before the next step()") -> None:
        """Keep the message."""
        super().__init__(message)


class NoExpert(EnvError):
    """The environment, made as it was, has no expert for the task: plan() fails in every state."""


class BadSnapshot(EnvError):
    """The bytes are damaged, or belong to another environment, other arguments or another version."""


class DeadlineExceeded(EnvError):
    """A call took longer than its deadline; the environment cannot be used any more."""


class EnvironmentDied(EnvError):
    """The process of the environment has ended."""

    took_others = False
    """Whether it ended a process in which other environments may have lived."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        """Keep the message and the exit code (negative: killed by this signal; None: unknown)."""
        super().__init__(message, exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        """Return the message without the exit code."""
        return str(self.args[0])


class HostDied(EnvironmentDied):
    """The process of several environments has ended, as far as is known not because of this one."""

    suspect = False
    """Whether this one was in a call at that moment, so that it may have been the cause."""
