"""What can go wrong in an environment and is not a bug in it, as one tree.

    EnvError
    ├── UnknownEnv         no environment is registered under that id
    ├── UnknownOption      a keyword or option that the environment does not take, or a value that it cannot use
    ├── UnknownTask        no task instance of that id in the split
    ├── NoGames            the folder or file holds no games
    ├── GameFileError      a game file that is torn or uses something unknown (path, line, construct)
    ├── NotReset           step() or plan() before the first reset()
    ├── StepAfterEnd       step() after terminated or truncated
    ├── BadSnapshot        bytes from which an episode cannot go on here
    ├── DeadlineExceeded   a call took longer than its deadline; the environment is dead
    └── EnvironmentDied    the process of the environment is gone (exit code)

Every message says what was wanted, what came, and which choices there are; the command line prints it as it stands.
`UndeclaredType` is a warning: a game that can be played, though hardly as it was meant.

All of them survive pickling, because they cross the pipe of an isolated environment.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from turnwise.registry import suggest

__all__ = [
    "BadSnapshot",
    "DeadlineExceeded",
    "EnvError",
    "EnvironmentDied",
    "GameFileError",
    "NoGames",
    "NotReset",
    "StepAfterEnd",
    "UndeclaredType",
    "UnknownEnv",
    "UnknownOption",
    "UnknownTask",
]


class EnvError(Exception):
    """Root of what a user can cause in an environment; its text is one sentence for that user."""


class UnknownEnv(EnvError):
    """No environment is registered under that id."""


class UnknownOption(EnvError):
    """A keyword, an option of reset() or a value of one that the environment does not know."""


class UnknownTask(EnvError):
    """The split holds no task instance of that id."""

    @classmethod
    def of(cls, task: object, known: Iterable[str], where: str) -> UnknownTask:
        """Return the error for a task id that is not in `where` (a split, a file), with the near ids."""
        return cls(f"unknown task {task!r} in {where}{suggest(str(task), known, most=3)}")


class NoGames(EnvError):
    """The folder or file that should hold games holds none."""


class GameFileError(EnvError):
    """A game file that is torn, or uses a construct that the engine does not know."""

    def __init__(self, path: str | Path, line: int | None, construct: str, hint: str = "") -> None:
        """Keep where it is and what it is.

        Args:
            path: the file (or the member of a packed file).
            line: line number from 1; None where there is no line to name.
            construct: what was found, or what is wrong with it.
            hint: what was expected instead, or what to do.
        """
        super().__init__(path, line, construct, hint)
        self.path = path
        self.line = line
        self.construct = construct
        self.hint = hint

    def __str__(self) -> str:
        """Say file, line and construct in one sentence."""
        where = f"{self.path}, line {self.line}" if self.line is not None else str(self.path)
        return f"{where}: {self.construct}" + (f" ({self.hint})" if self.hint else "")


class UndeclaredType(UserWarning):
    """A game uses a type that its domain does not declare: nothing is of that type, so what needs one never happens."""


class NotReset(EnvError):
    """An episode is needed and none was started: reset() comes first."""

    def __init__(self, message: str = "no episode has been started: call reset() before this") -> None:
        """Keep the sentence."""
        super().__init__(message)


class StepAfterEnd(EnvError):
    """The episode has ended; only reset() may follow."""

    def __init__(self, message: str = "the episode has ended: call reset() before the next step()") -> None:
        """Keep the sentence."""
        super().__init__(message)


class BadSnapshot(EnvError):
    """Bytes that are no snapshot, are torn, or belong to another environment, other arguments or another version."""


class DeadlineExceeded(EnvError):
    """A call took longer than its deadline, after which the environment is not to be used again."""


class EnvironmentDied(EnvError):
    """The process in which the environment ran is gone."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        """Keep the sentence and the exit code (negative: killed by that signal; None: not known)."""
        super().__init__(message, exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        """Return the sentence alone."""
        return str(self.args[0])
