"""Copies of this process that work beside it and begin with everything that it has in memory.

Nothing has to be sent to a fork, which suits work on a model and environments that are already loaded. Forking is safe
where no other thread holds a lock that the work needs: on a CPU, with one thread of torch, and never once CUDA is used.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from turncredit.processes import tracing
from turncredit.processes.child_process import ChildProcess, ProcessDied, answer_bytes, result_of

__all__ = ["ForkPipe", "ForkedProcess"]

T = TypeVar("T")
_MESSAGE, _RESULT = range(2)


class ForkPipe:
    """What the work in a fork exchanges messages with its parent through; they are pickled."""

    def __init__(self, pipe: Connection) -> None:
        """Keep the fork's end of the pipe."""
        self._pipe = pipe

    def send(self, message: object) -> None:
        """Send a message to the parent, which may have to make room for it first."""
        self._pipe.send_bytes(pickle.dumps((_MESSAGE, None, message)))

    def receive(self) -> Any:
        """Wait for the parent's next message."""
        return pickle.loads(self._pipe.recv_bytes())


class ForkedProcess(Generic[T]):
    """A copy of this process that calls one function; its messages and its result come back through a pipe."""

    def __init__(self, work: Callable[[ForkPipe], T], name: str = "turncredit-fork", *, daemon: bool = True) -> None:
        """Fork this process.

        Args:
            work: called in the copy with a pipe to this process. Its result is pickled.
            name: of the process.
            daemon: whether it may have no processes of multiprocessing of its own.
        """
        self._child = ChildProcess(_run, work, name=name, start_method="fork", daemon=daemon)
        self._answer: tuple[Exception | None, Any] | None = None

    def send(self, message: object) -> None:
        """Send the work a message.

        Raises:
            ProcessDied: the copy has ended.
        """
        try:
            self._child.pipe.send_bytes(pickle.dumps(message))
        except OSError:
            raise ProcessDied(self._child.kill(patience=5.0)) from None

    def arrived(self) -> Iterator[Any]:
        """Yield the messages that have arrived, without waiting."""
        while self._answer is None and self._child.pipe.poll():
            yield from self._receive()

    def messages(self) -> Iterator[Any]:
        """Yield all messages that are still to come, until the work is done.

        Raises:
            ProcessDied: the copy ended before its work was done.
        """
        while self._answer is None:
            yield from self._receive()

    def result(self) -> T:
        """Return what the work returned; messages that were not read are dropped.

        Raises:
            ProcessDied: the copy ended before its work was done.
            Exception: that of the work.
        """
        for _ in self.messages():
            pass
        assert self._answer is not None
        error, value = self._answer
        if error is not None:
            raise error
        result: T = value
        return result

    def kill(self) -> None:
        """End the copy, whether or not its work is done."""
        self._child.kill()

    def __enter__(self) -> ForkedProcess[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _receive(self) -> Iterator[object]:
        try:
            kind, error, value = pickle.loads(self._child.pipe.recv_bytes())
        except (EOFError, OSError):
            raise ProcessDied(self._child.kill(patience=5.0)) from None
        if kind == _RESULT:
            self._answer = error, value
        else:
            yield value


def _run(pipe: Connection, work: Callable[[ForkPipe], object]) -> None:
    """Work in the copy."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    result = result_of(lambda: work(ForkPipe(pipe)))
    tracing.flush()  # the parent may end this process once it has the result
    pipe.send_bytes(answer_bytes(_RESULT, *result))
