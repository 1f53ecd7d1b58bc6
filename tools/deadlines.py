"""Calls with a deadline, on a thread or in a child process.

    call_in_thread   one call on a thread of its own
    WorkerThread     many calls, one after the other on the same thread; a late one cannot be stopped, only abandoned
    WorkerProcess    many calls in a child process, which is killed with all its children when a call is late

The executors of `concurrent.futures` do not fit: they wait at exit for calls that never return, and offer no way to
kill a process.
"""

from __future__ import annotations

import contextlib
import contextvars
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent import futures
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Final, TypeVar

__all__ = ["CallFailed", "DeadlinePassed", "ProcessDied", "WorkerProcess", "WorkerThread", "call_in_thread", "wait"]

T = TypeVar("T")
_START: Final = 60.0
"""Seconds for a process to start and import what it needs."""


class DeadlinePassed(Exception):
    """A call took longer than its deadline."""


class ProcessDied(Exception):
    """The child process ended during a call; the message says how."""

    def __init__(self, exit_code: int | None) -> None:
        """Keep the exit code: negative if a signal killed the process, None if unknown."""
        killed = exit_code is not None and exit_code < 0
        super().__init__(f"killed by {signal.Signals(-exit_code).name}" if killed else f"exit code {exit_code}")  # type: ignore[operator]
        self.exit_code = exit_code


class CallFailed(Exception):
    """A call in a child process raised an exception, or returned a value, that cannot be pickled."""


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


def call_in_thread(function: Callable[[], T], name: str = "turnwise-call") -> futures.Future[T]:
    """Start a call on a new daemon thread and return its future."""
    worker = WorkerThread(name)
    future = worker.submit(function)
    worker.stop()
    return future


class WorkerThread:
    """A daemon thread that runs calls one after the other.

    A call that never returns does not keep the program from exiting. If a call raises something other than an
    Exception, such as SystemExit, its future raises RuntimeError.
    """

    def __init__(self, name: str = "turnwise-worker") -> None:
        """Start the thread."""
        self._calls: SimpleQueue[tuple[futures.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._last: Callable[[], object] | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def submit(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> futures.Future[T]:
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
            except Exception as error:
                # asyncio cannot put StopIteration into its futures
                wrapped = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
                future.set_exception(wrapped)
            except BaseException as error:
                future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
            else:
                future.set_result(result)
                del result
            del item, future, function
        if self._last is not None:
            with contextlib.suppress(Exception):
                self._last()


class WorkerProcess:
    """A child process that runs calls one after the other, and is killed when one is late.

    The child leads a session of its own: signals from the terminal do not reach it, and killing it kills the processes
    that it started. It exits when its parent does, even during a call. Arguments and results are pickled.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        *,
        seconds: float = _START,
        start_method: str = "spawn",
        name: str = "turnwise-worker",
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
        recipe = pickle.dumps(make)
        context = multiprocessing.get_context(start_method)
        self._number = 0
        self._pipe, theirs = context.Pipe()
        self._process: Any = context.Process(target=_serve, args=(theirs, recipe), name=name, daemon=True)  # type: ignore[attr-defined]
        self._process.start()
        self.pid: int = self._process.pid
        theirs.close()
        try:
            self._answer(seconds)
        except BaseException:
            self.kill()
            raise

    def call(self, seconds: float | None, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a call; an exception is raised here with the child's traceback as a note.

        Raises:
            DeadlinePassed: the call took longer than `seconds`; the process has been killed.
            ProcessDied: the process ended during the call.
            CallFailed: the arguments, the result or the exception cannot be pickled. The process lives on.
        """
        try:
            message = pickle.dumps((args, kwargs))
        except Exception as error:
            raise CallFailed(f"the arguments cannot be sent to another process: {error}") from error
        self._number += 1
        try:
            self._pipe.send_bytes(message)
        except OSError:
            raise ProcessDied(self.kill(patience=5.0)) from None
        return self._answer(seconds)

    def kill(self, patience: float = 0.0) -> int | None:
        """Kill the process and the processes that it started.

        Args:
            patience: seconds in which the process may exit by itself.

        Returns:
            Its exit code if it exited by itself, else None.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        self._pipe.close()
        process.join(timeout=patience)
        code: int | None = process.exitcode
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # Before the child has called setsid, it is still in our own group.
            if code is not None or os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        if process.is_alive():
            process.kill()
        process.join(timeout=5.0)
        process.close()
        return code

    def __del__(self) -> None:
        """Kill the process with its owner."""
        if self.__dict__.get("_process") is not None:
            self.kill()

    def _answer(self, seconds: float | None) -> Any:
        """Return the answer to the last call; answers to calls that were interrupted (Ctrl-C) are dropped."""
        try:
            while self._pipe.poll(_limit(seconds)):
                number, error, value = pickle.loads(self._pipe.recv_bytes())
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
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    threading.Thread(target=_exit_with_parent, name="turnwise-parent", daemon=True).start()
    error, function = _result(lambda: pickle.loads(recipe)())
    number, value = 0, None
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_message(number, error, value))
            if function is None:
                return
            error, value = _result(partial(_call, function, pipe.recv_bytes()))
            number += 1


def _call(function: Callable[..., Any], arguments: bytes) -> Any:
    args, kwargs = pickle.loads(arguments)
    return function(*args, **kwargs)


def _message(number: int, error: Exception | None, value: Any) -> bytes:
    """Return the answer to a call as bytes."""
    try:
        return pickle.dumps((number, error, value))
    except Exception as problem:
        return pickle.dumps((number, CallFailed(f"the result cannot be sent between processes: {problem}"), None))


def _result(function: Callable[[], Any]) -> tuple[Exception | None, Any]:
    """Return (exception that can be pickled, None), or (None, value)."""
    try:
        return None, function()
    except Exception as error:
        error.add_note("in the child process:\n" + "".join(traceback.format_exception(error)))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return CallFailed(f"{type(error).__name__}: {error}\n{error.__notes__[-1]}"), None
        return error, None


def _exit_with_parent() -> None:
    """Exit as soon as the parent has, even during a call."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
