"""Calls with a deadline, on a thread or in a child process.

    call_in_thread   one call on its own thread
    WorkerThread     many calls, one after the other on the same thread; a late one cannot be stopped, only abandoned
    WorkerProcess    many calls in a child process, which is killed with all its children when a call is late

The executors of `concurrent.futures` do not fit: they wait at exit for calls that never return, and offer no way to
kill a process.
"""

from __future__ import annotations

import contextlib
import contextvars
import pickle
import threading
from collections.abc import Callable
from concurrent import futures
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from turncredit.processes.child_process import (
    CallFailed,
    ChildProcess,
    ProcessDied,
    answer_bytes,
    call_bytes,
    result_of,
    run_call,
)
from turncredit.processes.failures import deliverable

__all__ = ["CallFailed", "DeadlinePassed", "ProcessDied", "WorkerProcess", "WorkerThread", "call_in_thread", "wait"]

T = TypeVar("T")
_START: Final = 60.0
"""Seconds for a process to start and import what it needs."""


class DeadlinePassed(Exception):
    """A call took longer than its deadline."""


def wait(future: futures.Future[T], seconds: float | None) -> T:
    """Return the result of a future.

    Raises:
        DeadlinePassed: there is none after `seconds`. (`future.result` raises TimeoutError, as the call itself may.)
    """
    if not futures.wait([future], timeout=_limit(seconds)).done:
        raise DeadlinePassed(f"took longer than {seconds:g} s")
    return future.result()


def _limit(seconds: float | None) -> float | None:
    return None if seconds is None else min(seconds, threading.TIMEOUT_MAX)


def call_in_thread(function: Callable[[], T], name: str = "turncredit-call") -> futures.Future[T]:
    """Start a call on a new daemon thread and return its future."""
    worker = WorkerThread(name)
    future = worker.submit(function)
    worker.stop()
    return future


class WorkerThread:
    """A daemon thread that runs calls one after the other.

    A call that never returns does not keep the program from exiting. If a call raises what a future cannot deliver,
    such as SystemExit or StopIteration, its future raises RuntimeError.
    """

    def __init__(self, name: str = "turncredit-worker") -> None:
        """Start the thread."""
        self._calls: SimpleQueue[tuple[futures.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._last: Callable[[], object] | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def submit(self, function: Callable[..., T], *args: object, **kwargs: Any) -> futures.Future[T]:
        """Queue a call, to run with the caller's context variables, and return its future."""
        future: futures.Future[T] = futures.Future()
        self._calls.put((future, partial(contextvars.copy_context().run, function, *args, **kwargs)))
        return future

    def stop(self, last: Callable[[], object] | None = None) -> None:
        """End the thread after the queued calls; before that, run `last`, whose exceptions are ignored."""
        self._last = last
        self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, function = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:
                future.set_exception(deliverable(error))
            else:
                future.set_result(result)
                del result
            del item, future, function
        if self._last is not None:
            with contextlib.suppress(BaseException):
                self._last()


class WorkerProcess:
    """A child process that runs calls one after the other, and is killed when one is late.

    See `turncredit.processes.child_process` for what is true of every child. Arguments and results are pickled.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., object]],
        *,
        seconds: float = _START,
        start_method: str = "spawn",
        name: str = "turncredit-worker",
    ) -> None:
        """Start the process and call `make` in it.

        Args:
            make: returns, in the child, the function that runs the calls; has to be picklable.
            seconds: deadline for the start and `make`.
            start_method: see multiprocessing. "fork" is fast, but unsafe once threads run.
            name: name of the process.

        Raises:
            DeadlinePassed, ProcessDied, CallFailed: see `call`. Anything that `make` raises is raised here as well.
        """
        self._number = 0
        self._child = ChildProcess(_serve, pickle.dumps(make), name=name, start_method=start_method)
        self.pid: int = self._child.pid
        try:
            self._answer(seconds)
        except BaseException:
            self.kill()
            raise

    def call(self, seconds: float | None, *args: object, **kwargs: Any) -> Any:
        """Return the result of a call; an exception is raised here with the child's traceback as a note.

        Raises:
            DeadlinePassed: the call took longer than `seconds`; the process has been killed.
            ProcessDied: the process ended during the call.
            CallFailed: the arguments, the result or the exception cannot be pickled. The process lives on.
        """
        message = call_bytes(args, kwargs)
        self._number += 1
        try:
            self._child.pipe.send_bytes(message)
        except OSError:
            raise ProcessDied(self.kill(patience=5.0)) from None
        return self._answer(seconds)

    def kill(self, patience: float = 0.0) -> int | None:
        """Kill the process and the processes that it started; see `ChildProcess.kill`."""
        return self._child.kill(patience)

    def __del__(self) -> None:
        """Kill the process with its owner."""
        if "_child" in self.__dict__ and not self._child.killed:
            self.kill()

    def _answer(self, seconds: float | None) -> object:
        """Return the answer to the last call; answers to calls that were interrupted (Ctrl-C) are dropped."""
        pipe = self._child.pipe
        try:
            while pipe.poll(_limit(seconds)):
                number, error, value = pickle.loads(pipe.recv_bytes())
                if number == self._number:
                    break
            else:
                self.kill()
                raise DeadlinePassed(f"took longer than {seconds:g} s")
        except (EOFError, ConnectionError):
            raise ProcessDied(self.kill(patience=5.0)) from None
        if error is not None:
            raise error
        return value


def _serve(pipe: Connection, recipe: bytes) -> None:
    """Run in the child: answer calls until the parent closes the pipe or exits."""
    error, function = result_of(lambda: pickle.loads(recipe)())
    number, value = 0, None
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(answer_bytes(number, error, value))
            if function is None:
                return
            error, value = result_of(partial(run_call, function, pipe.recv_bytes()))
            number += 1
