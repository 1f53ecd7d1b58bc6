"""What every box can do, whatever holds it: run programs, take and give files, be copied, keep an interpreter."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from turnwise.tools.sandbox.bwrap import WORK
from turnwise.tools.sandbox.errors import BadCommand, BadLimits, BoxClosed
from turnwise.tools.sandbox.files import parts
from turnwise.tools.sandbox.limits import Limits, Result, Stop

if TYPE_CHECKING:
    from turnwise.tools.sandbox.session import Channel, Session

_LONGEST_WORD: Final = 100_000  # bytes: Linux takes words of 131,072
_CODE: Final = ".code.py"
_SAID: Final[tuple[tuple[Stop, tuple[str, ...]], ...]] = (
    ("memory", ("MemoryError", "Cannot allocate memory", "std::bad_alloc", "out of memory")),
    ("processes", ("can't start new thread", "Resource temporarily unavailable", "can't fork", "Cannot fork")),
    ("disk", ("No space left on device", "File too large", "Disk quota exceeded")),
)


class Box(ABC):
    """A place for programs that nobody trusts; use it as a context manager, or `close` it.

    One program runs at a time (others wait), besides a session. Files stay from run to run, processes do not.
    """

    backend: str
    python: str
    limits: Limits

    def __init__(self, limits: Limits) -> None:
        """Keep the limits."""
        self.limits = limits
        self.closed = False
        self._turn = threading.Lock()
        self._sessions: list[Session] = []

    @property
    def folder(self) -> str:
        """The box's folder as its programs see it; under landlock a folder of this machine, whose name tells of it."""
        return WORK

    def run(
        self,
        command: str | Sequence[str],
        stdin: bytes | str = b"",
        files: Mapping[str, bytes | str] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a program to its end, or to one of its limits, and return what came of it.

        Args:
            command: a str is the text of a Python program; a list of words is a program with its arguments.
            stdin: what it reads; a program that does not read it loses nothing.
            files: put into the box first, by path.
            timeout: seconds, if fewer than the box's own limit.

        Raises:
            BadCommand: neither of the two, or words that no program can be given.
            BadPath: a file's path does not stay inside.
            BoxClosed: the box was closed before.
            BoxLost: what holds the box died.
        """
        seconds = self._seconds(timeout)
        text = isinstance(command, str)
        argv = _program(self.python, command) if isinstance(command, str) else _words(command)
        data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else bytes(stdin)
        with self._turn:
            self._open()
            for path, content in (files or {}).items():
                self.put(path, content)
            if text and len(argv[-1].encode()) > _LONGEST_WORD:
                self.put(_CODE, argv[-1])
                argv = [self.python, _CODE]
            return self._execute(argv, data, seconds)

    def session(self) -> Session:
        """Return a Python interpreter in the box that keeps its state from call to call, as a notebook does."""
        from turnwise.tools.sandbox.session import Session

        self._open()
        session = Session(self)
        self._sessions.append(session)
        return session

    def put(self, path: str, data: bytes | str) -> None:
        """Write a file below the box's folder, with the folders that it needs; what lies there is replaced.

        Raises:
            BadPath: the path does not stay inside.
            BoxFull: the box has no room for it.
        """
        self._open()
        parts(path)
        self._put(path, data.encode() if isinstance(data, str) else bytes(data))

    def get(self, path: str) -> bytes:
        """Return what a plain file below the box's folder holds.

        Raises:
            BadPath: there is none, or the path does not stay inside (links are not followed).
        """
        self._open()
        parts(path)
        return self._get(path)

    def snapshot(self) -> bytes:
        """Return the files below the box's folder as a tar archive (no processes, and nothing of /tmp).

        Raises:
            BadSnapshot: a path has more than 4,096 bytes or 100 names, which `restore` does not take; or a program
                changes the files meanwhile.
        """
        self._open()
        return self._snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Make the files below the box's folder those of a snapshot, of this box or of another.

        Raises:
            BadSnapshot: it is none, or holds what may not lie in a box; the files are as before.
            BoxFull: it is larger than this box.
        """
        self._open()
        self._restore(snapshot)

    def close(self) -> None:
        """End everything in the box and remove it; closing it again does nothing."""
        if not self.closed:
            self.closed = True
            for session in self._sessions:
                session.close()
            self._close()

    def __enter__(self) -> Self:
        """Return the box."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the box."""
        self.close()

    def __del__(self) -> None:
        """Close a box that nobody has any more."""
        if not getattr(self, "closed", True):
            with suppress(Exception):
                self.close()

    def _open(self) -> None:
        if self.closed:
            raise BoxClosed

    def _seconds(self, timeout: float | None) -> float:
        if timeout is not None and not timeout > 0:
            raise BadLimits(f"a timeout is a number of seconds above 0, not {timeout!r}")
        return min(self.limits.wall, timeout) if timeout is not None else self.limits.wall

    @abstractmethod
    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> Result: ...

    @abstractmethod
    def _converse(self, argv: list[str]) -> Channel: ...

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None: ...

    @abstractmethod
    def _get(self, path: str) -> bytes: ...

    @abstractmethod
    def _snapshot(self) -> bytes: ...

    @abstractmethod
    def _restore(self, snapshot: bytes) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


def _program(python: str, text: str) -> list[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadCommand(f"the program text is not Unicode: {error.reason} at character {error.start}") from error
    if "\0" in text:
        raise BadCommand("the program text holds a null character, which Python does not take")
    return [python, "-c", text]


def _words(command: Sequence[str]) -> list[str]:
    if isinstance(command, bytes) or not isinstance(command, Sequence) or not command:
        raise BadCommand(f"a command is a program text or a list of words, not {type(command).__name__}")
    words = list(command)
    for word in words:
        if not isinstance(word, str):
            raise BadCommand(f"the words of a command are texts, not {type(word).__name__}")
        if "\0" in word or len(os.fsencode(word)) > _LONGEST_WORD:
            raise BadCommand(f"a word of a command has no null character and at most {_LONGEST_WORD:,} bytes")
    if not words[0]:
        raise BadCommand("the first word of a command names a program, and it is empty")
    return words


def told(code: int, stderr: bytes, full: bool) -> Stop:
    """Return why a program stopped that nobody ended, from its exit code and the end of what it said.

    A limit on memory, processes or disk shows inside as a call that fails; most programs then say so and give up.

    Args:
        code: its exit code.
        stderr: what it wrote to standard error.
        full: whether the box has no room left.
    """
    if code == 0:
        return "exit"
    lines = stderr[-4000:].decode("utf-8", "replace").strip().splitlines()[-3:]
    for stop, words in _SAID:
        if any(word in line for line in lines for word in words):
            return stop
    if full:
        return "disk"
    return "killed" if code == 137 else "exit"
