"""Run a function with a time limit: in a thread, or in a process that can be killed.

A thread cannot be killed. If a function exceeds its limit in `ThreadRunner`, its call is abandoned: the agent is told,
and the function continues in the background, with any effect on shared state. After `MAX_ABANDONED` such calls the
tool refuses further ones. A function that never releases the GIL (a regular expression with catastrophic backtracking,
for example) blocks the whole program.

`ProcessRunner` has none of these problems: it kills the process and everything that it started. In return, the function
and its arguments must be picklable, and its side effects stay in that process.

Memory and disk are not limited, and hostile code is not contained: use `turncredit.tools.sandbox` for that.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final

from turncredit.processes.deadlines import CallFailed, DeadlinePassed, ProcessDied, WorkerProcess, call_in_thread, wait
from turncredit.tools.functions.calls import Arguments, Problem
from turncredit.tools.functions.errors import BadTool
from turncredit.tools.functions.render import Unserialisable, describe_error, to_text, truncate

__all__ = ["MAX_ABANDONED", "CallOutcome", "ProcessRunner", "ThreadRunner", "run_function"]

CallOutcome = tuple[Problem, str]
"""Problem of a call ("" for none) and text for the agent."""

MAX_ABANDONED: Final = 4
"""Abandoned calls of one tool that may still be running before it refuses further calls."""

_GRACE: Final = 0.5  # seconds beyond the limit that an async function has to handle its cancellation


class _TimedOut(Exception):
    """An async function exceeded its time limit."""


def run_function(
    function: Callable[..., object], values: Mapping[str, object], budget: int, seconds: float | None = None
) -> CallOutcome:
    """Call a function and return its result as text; exceptions are reported in the outcome.

    Args:
        function: sync, or async (it gets its own event loop).
        values: its arguments.
        budget: maximum number of characters of the text.
        seconds: time limit of an async function; a sync one is not limited here.
    """
    try:
        value = function(**values)
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value, seconds))
    except _TimedOut:
        return "late", ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # the user pressed Ctrl-C
        return "raised", describe_error(error)  # SystemExit too: a tool must not end the program
    try:
        return "", truncate(to_text(value), budget)
    except Unserialisable as error:
        return "unserialisable", str(error)


async def _await(value: Awaitable[object], seconds: float | None) -> object:
    # asyncio.wait instead of wait_for, to tell our limit from a TimeoutError of the function itself.
    task = asyncio.ensure_future(value)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        raise _TimedOut
    return task.result()


class ThreadRunner:
    """Calls a function in a thread; without a time limit, a sync function runs in the caller's thread.

    Args:
        function: sync or async.
        seconds: time limit of a call; None: no limit.
        budget: maximum number of characters of a result.
    """

    def __init__(self, function: Callable[..., object], seconds: float | None, budget: int) -> None:
        self.function, self.seconds, self.budget = function, seconds, budget
        self._abandoned: list[Future[CallOutcome]] = []

    def __call__(self, values: Arguments) -> CallOutcome:
        """Call the function and return the outcome, at the latest when the time is up."""
        is_async = inspect.iscoroutinefunction(self.function)
        if self.seconds is None and not is_async:
            return run_function(self.function, values, self.budget)
        self._abandoned = [call for call in self._abandoned if not call.done()]
        if len(self._abandoned) >= MAX_ABANDONED:
            return "late", f"was not called: {len(self._abandoned)} earlier calls are still running"
        call = call_in_thread(
            partial(run_function, self.function, values, self.budget, self.seconds), "turncredit-tool"
        )
        try:
            problem, text = wait(call, None if self.seconds is None else self.seconds + _GRACE * is_async)
        except DeadlinePassed:
            self._abandoned.append(call)
            return "late", f"exceeded its limit of {self.seconds:g} s; it may still be running"
        if problem == "late":
            return "late", f"exceeded its limit of {self.seconds:g} s and was cancelled"
        return problem, text

    def close(self) -> None:
        """Do nothing: threads end by themselves, or with the program."""


class ProcessRunner:
    """Calls a function in a process, started at the first call and again after a call that exceeded its limit.

    Args:
        function: a picklable function.
        seconds: time limit of a call; None: no limit.
        budget: maximum number of characters of a result.

    Raises:
        BadTool: the function cannot be pickled.
    """

    def __init__(self, function: Callable[..., object], seconds: float | None, budget: int) -> None:
        self._make = partial(partial, run_function, function, budget=budget)
        try:
            pickle.dumps(self._make)
        except Exception as error:
            raise BadTool(
                "isolated=True needs a function that can be pickled, for example one defined in a module; "
                f"got {function!r} ({describe_error(error, 120)})"
            ) from error
        self.seconds = seconds
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None

    def __call__(self, values: Arguments) -> CallOutcome:
        """Call the function and return the outcome; at the time limit its process is killed."""
        with self._lock:
            if self._worker is None:
                try:
                    self._worker = WorkerProcess(self._make, name="turncredit-tool")
                except Exception as error:
                    return "gone", f"did not start in its own process ({describe_error(error, 120)})"
            try:
                outcome: CallOutcome = self._worker.call(self.seconds, values=dict(values))
                return outcome
            except CallFailed as error:
                return "raised", describe_error(error, 200)
            except ProcessDied as error:
                self._worker = None
                return "gone", f"ended the process in which it ran ({error})"
            except DeadlinePassed:
                self._worker = None
                return "late", f"exceeded its limit of {self.seconds:g} s and was killed"

    def close(self) -> None:
        """Kill the process; the next call starts another one."""
        with self._lock:
            if self._worker is not None:
                self._worker.kill(patience=0.2)
                self._worker = None

    def __getstate__(self) -> dict[str, object]:
        """Leave out the process: a copy starts its own."""
        return {"_make": self._make, "seconds": self.seconds}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a runner that has no process yet."""
        self.__dict__.update(state, _lock=threading.Lock(), _worker=None)
