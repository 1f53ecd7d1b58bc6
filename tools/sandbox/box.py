"""The interface that all boxes share: run programs, read and write files, take snapshots, open sessions."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, Self, TypeVar

from turncredit.tools.sandbox.bwrap import WORK
from turncredit.tools.sandbox.channel import Channel
from turncredit.tools.sandbox.errors import BadCommand, BadPath, BoxClosed, BoxFull, BoxLost
from turncredit.tools.sandbox.files import FULL, split_path
from turncredit.tools.sandbox.limits import Limits, RunResult, Stop
from turncredit.tools.sandbox.session import PythonSession
from turncredit.tools.sandbox.untrusted_archives import FileEntry, TreeLimits, read_archive
from turncredit.tools.sandbox.untrusted_trees import TreeChanged

T = TypeVar("T")
_MAX_ARGUMENT: Final = 100_000  # bytes; Linux takes arguments of up to 131,072
_CODE: Final = ".code.py"
_LIMIT_MESSAGES: Final[tuple[tuple[Stop, tuple[str, ...]], ...]] = (
    ("memory", ("MemoryError", "Cannot allocate memory", "std::bad_alloc", "out of memory")),
    ("processes", ("can't start new thread", "Resource temporarily unavailable", "can't fork", "Cannot fork")),
    ("disk", ("No space left on device", "File too large", "Disk quota exceeded")),
)


class Box(ABC):
    """An isolated place to run untrusted programs. Use it as a context manager, or call `close`.

    One program runs at a time, beside any sessions; concurrent calls of `run` wait. Files persist from run to run,
    processes do not.
    """

    backend: str
    python: str
    limits: Limits

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.closed = False
        self._run_lock = threading.Lock()
        self._files_lock = threading.Lock()  # held while the host uses the files; no program is started meanwhile
        self._sessions: list[PythonSession] = []

    @property
    def folder(self) -> str:
        """Path of the box's directory as its programs see it (under landlock, a real path of this machine)."""
        return WORK

    def run(
        self,
        command: str | Sequence[str],
        stdin: bytes | str = b"",
        files: Mapping[str, bytes | str] | None = None,
        timeout: float | None = None,
    ) -> RunResult:
        """Run a program until it ends or reaches a limit, and return the result.

        Args:
            command: a str is Python source; a list is a program and its arguments.
            stdin: standard input of the program.
            files: files to write first, path -> content.
            timeout: seconds; the limit of the box applies if that is less.

        Raises:
            BadCommand: the command is neither, or has arguments that Linux does not take.
            BadPath: the path of a file leaves the box.
            BoxClosed: the box is closed.
            BoxLost: the container or the process that holds the box died.
        """
        seconds = self.limits.seconds(timeout)
        is_source = isinstance(command, str)
        argv = _python_argv(self.python, command) if isinstance(command, str) else _checked_argv(command)
        data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else bytes(stdin)
        with self._run_lock:
            self._check_open()
            for path, content in (files or {}).items():
                self.put(path, content)
            if is_source and len(argv[-1].encode()) > _MAX_ARGUMENT:
                self.put(_CODE, argv[-1])
                argv = [self.python, _CODE]
            return self._execute(argv, data, seconds)

    def session(self, *, isolated: bool = False, packages: bool = True) -> PythonSession:
        """Start a Python interpreter in the box that keeps its state between calls.

        Args:
            isolated: whether neither the environment nor the user's or the box's directory add modules (`python -I`).
            packages: whether installed packages can be imported; without, it starts faster (`python -S`).
        """
        self._check_open()
        options = (*(("-I", "-B") if isolated else ()), *(() if packages else ("-S",)))
        session = PythonSession(self._open_channel, [self.python, *options], self.limits)
        self._sessions.append(session)
        return session

    def put(self, path: str, data: bytes | str) -> None:
        """Write a file, creating missing directories and replacing an existing file.

        Raises:
            BadPath: the path leaves the box.
            BoxFull: the file does not fit.
            BoxLost: the programs in the box prevent it, and cannot be killed.
        """
        self._check_open()
        split_path(path)
        content = data.encode() if isinstance(data, str) else bytes(data)
        if len(content) > self.limits.file_size:
            raise BoxFull(FULL.format(path=path))
        self._use_file(lambda: self._put(path, content))

    def get(self, path: str) -> bytes:
        """Return the content of a regular file.

        Raises:
            BadPath: there is no such file, it is larger than `limits.file_size`, or the path leaves the box (links are
                not followed).
            BoxLost: the programs in the box prevent it, and cannot be killed.
        """
        self._check_open()
        split_path(path)
        return self._use_file(lambda: self._get(path))

    def snapshot(self) -> bytes:
        """Return all files in the box's directory as a tar archive; processes and /tmp are not included.

        Raises:
            SnapshotError: the files exceed `limits`, counting holes as data and a file once for each of its names, or a
                path has more than 4,096 bytes or 100 components.
            BoxLost: the programs in the box prevent it, and cannot be killed.
        """
        self._check_open()
        return self._undisturbed(self._snapshot)

    def restore(self, snapshot: bytes) -> None:
        """Replace all files in the box's directory by those of a snapshot of this or another box, and empty /tmp.

        Nothing else that programs have left in the box is kept either: it is as if it were new.

        Raises:
            SnapshotError: the bytes are not a snapshot, or contain entries that a box does not allow; nothing changed.
            BoxFull: the snapshot is larger than this box; nothing changed.
            BoxLost: the programs in the box prevent it, and cannot be killed; the box is closed.
        """
        self._check_open()
        entries = read_archive(snapshot, self._tree_limits())
        try:
            self._undisturbed(lambda: self._replace_all(entries))
        except TreeChanged as error:
            self.close()
            raise BoxLost(f"the box could not be filled again and was closed: {error}") from error

    def _replace_all(self, entries: list[FileEntry]) -> None:
        self._restore(entries)
        self._empty_scratch()

    def _tree_limits(self) -> TreeLimits:
        return TreeLimits(self.limits.disk, self.limits.files, self.limits.file_size)

    def _use_file(self, use: Callable[[], T]) -> T:
        try:
            return self._undisturbed(use)
        except TreeChanged as error:
            raise BadPath(str(error)) from error

    def _undisturbed(self, use: Callable[[], T]) -> T:
        """Use the files while the programs in the box are stopped; kill them if they go on nevertheless."""
        with self._files_lock:
            self._check_open()
            try:
                with self._paused():
                    return use()
            except TreeChanged:
                self._kill_programs()
                return use()

    def close(self) -> None:
        """Kill all programs and remove the box; closing it twice has no effect."""
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
        """Close the box when it is garbage collected."""
        if not getattr(self, "closed", True):
            with suppress(Exception):
                self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise BoxClosed

    @abstractmethod
    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> RunResult: ...

    @abstractmethod
    def _open_channel(self, argv: list[str]) -> Channel: ...

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None: ...

    @abstractmethod
    def _get(self, path: str) -> bytes: ...

    @abstractmethod
    def _snapshot(self) -> bytes: ...

    @abstractmethod
    def _restore(self, entries: list[FileEntry]) -> None: ...

    @abstractmethod
    def _paused(self) -> AbstractContextManager[None]:
        """Stop all programs in the box meanwhile, sessions too; raise TreeChanged if one goes on."""

    @abstractmethod
    def _kill_programs(self) -> None:
        """Kill all programs in the box, sessions too; raise BoxLost if one is left."""

    @abstractmethod
    def _empty_scratch(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


def _python_argv(python: str, source: str) -> list[str]:
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise BadCommand(f"the source is not valid Unicode: {error.reason} at character {error.start}") from error
    if "\0" in source:
        raise BadCommand("the source contains a null character")
    return [python, "-c", source]


def _checked_argv(command: Sequence[str]) -> list[str]:
    if isinstance(command, bytes) or not isinstance(command, Sequence) or not command:
        raise BadCommand(f"command must be Python source or a non-empty list of str, got {command!r:.80}")
    argv = list(command)
    for argument in argv:
        if not isinstance(argument, str):
            raise BadCommand(f"the arguments of a command must be str, got {type(argument).__name__}")
        if "\0" in argument or len(os.fsencode(argument)) > _MAX_ARGUMENT:
            raise BadCommand(f"an argument must have no null character and at most {_MAX_ARGUMENT:,} bytes")
    if not argv[0]:
        raise BadCommand("the name of the program is empty")
    return argv


def stop_reason(code: int, stderr: bytes, full: bool) -> Stop:
    """Infer why a program stopped that the sandbox did not kill.

    A program that reaches its limit on memory, processes or disk sees a failing call; most programs report it and exit.

    Args:
        code: exit code.
        stderr: standard error of the program.
        full: whether the box has no space left.
    """
    if code == 0:
        return "exit"
    lines = stderr[-4000:].decode("utf-8", "replace").strip().splitlines()[-3:]
    for stop, messages in _LIMIT_MESSAGES:
        if any(message in line for line in lines for message in messages):
            return stop
    if full:
        return "disk"
    return "killed" if code == 137 else "exit"
