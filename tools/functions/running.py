"""Running a function within a time limit: in a thread, or in a process that can be killed.

A thread cannot be killed. A function that is late in one is given up: the agent is told, the function runs on unseen,
and after `MOST_LEFT` of such calls the tool takes no more. What a late function does to shared state it still does. A
function that never lets go of the interpreter's lock (a regular expression that explodes, say) holds the whole program
as well, limit or not. `Child` has none of these faults: the function lives in a process of its own, which is killed
with all that it started. For that, function and arguments cross a pipe, and what it changes stays in its process.

Left out on purpose: limits of memory and disk, and functions that mean harm. That is `turnwise.tools.sandbox`.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from turnwise.tools.deadlines import CallFailed, DeadlinePassed, ProcessDied, WorkerProcess, call_in_thread, wait
from turnwise.tools.functions.calls import Problem
from turnwise.tools.functions.errors import BadTool
from turnwise.tools.functions.render import Unserialisable, cut, said, text_of

__all__ = ["MOST_LEFT", "Child", "Outcome", "Threaded", "perform"]

Outcome = tuple[Problem, str]
"""What came of a run: the problem ("" for none) and the text for the agent."""

MOST_LEFT: Final = 4
"""Calls of one tool that may run on, given up, before it takes no more."""

_GRACE: Final = 0.5
"""Seconds beyond the limit in which an async function may take notice that it was cancelled."""


class _Late(Exception):
    """An async function did not end in time."""


def perform(
    function: Callable[..., Any], values: Mapping[str, Any], budget: int, seconds: float | None = None
) -> Outcome:
    """Call a function and return what came of it as text; whatever it raises is an outcome.

    Args:
        function: sync, or async (it gets an event loop of its own).
        values: its arguments.
        budget: most characters of the text.
        seconds: after which an async function is cancelled; nothing here stops a sync one.
    """
    try:
        value = function(**values)
        if inspect.isawaitable(value):
            value = asyncio.run(_within(value, seconds))
    except _Late:
        return "late", ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # somebody at the keyboard
        # Also SystemExit: a tool that wants to end the program has failed, and the program goes on.
        return "raised", said(error)
    try:
        return "", cut(text_of(value), budget)
    except Unserialisable as error:
        return "unserialisable", str(error)


async def _within(value: Awaitable[Any], seconds: float | None) -> Any:
    # asyncio.wait and not wait_for: a TimeoutError of the function itself is something else.
    task = asyncio.ensure_future(value)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        raise _Late
    return task.result()


class Threaded:
    """A function that runs on a thread of its own if it has a time limit, else on the calling thread."""

    def __init__(self, function: Callable[..., Any], seconds: float | None, budget: int) -> None:
        """Keep the function; `seconds` None: no limit."""
        self.function, self.seconds, self.budget = function, seconds, budget
        self._abandoned: list[Future[Outcome]] = []

    def __call__(self, values: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call, "late" if it took longer than the limit."""
        asynchronous = inspect.iscoroutinefunction(self.function)
        if self.seconds is None and not asynchronous:
            return perform(self.function, values, self.budget)
        self._abandoned = [call for call in self._abandoned if not call.done()]
        if len(self._abandoned) >= MOST_LEFT:
            return "late", f"was not called: {len(self._abandoned)} earlier calls of it have not ended yet"
        call = call_in_thread(partial(perform, self.function, values, self.budget, self.seconds), "turnwise-tool")
        try:
            problem, text = wait(call, None if self.seconds is None else self.seconds + _GRACE * asynchronous)
        except DeadlinePassed:
            self._abandoned.append(call)
            return "late", f"did not end within {self.seconds:g} s and was given up; it may still be running"
        if problem == "late":
            return "late", f"did not end within {self.seconds:g} s and was stopped"
        return problem, text

    def close(self) -> None:
        """Do nothing: threads end by themselves, or with the program."""


class Child:
    """A function in a child process, which starts at the first call and again after a late one."""

    def __init__(self, function: Callable[..., Any], seconds: float | None, budget: int) -> None:
        """Keep the function.

        Raises:
            BadTool: the function cannot be pickled.
        """
        self._make = partial(partial, perform, function, budget=budget)
        try:
            pickle.dumps(self._make)
        except Exception as error:
            raise BadTool(
                f"{function!r} cannot run isolated, since it cannot be sent to another process ({said(error, 120)}); "
                "use a function of a module"
            ) from error
        self.seconds = seconds
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None

    def __call__(self, values: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call; a late call ends the process."""
        with self._lock:
            if self._worker is None:
                try:
                    self._worker = WorkerProcess(self._make, name="turnwise-tool")
                except Exception as error:
                    return "gone", f"did not start in a process of its own ({said(error, 120)})"
            try:
                outcome: Outcome = self._worker.call(self.seconds, values=dict(values))
                return outcome
            except CallFailed as error:
                return "raised", said(error, 200)
            except ProcessDied as error:
                self._worker = None
                return "gone", f"ended the process in which it ran ({error})"
            except DeadlinePassed:
                self._worker = None
                return "late", f"did not end within {self.seconds:g} s and was killed"

    def close(self) -> None:
        """End the process; the next call starts another one."""
        with self._lock:
            if self._worker is not None:
                self._worker.kill(patience=0.2)
                self._worker = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the process: a copy starts its own."""
        return {"_make": self._make, "seconds": self.seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, whose process has not been started."""
        self.__dict__.update(state, _lock=threading.Lock(), _worker=None)
