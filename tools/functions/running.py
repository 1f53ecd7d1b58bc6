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
import contextlib
import contextvars
import inspect
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

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
_START: Final = 60.0
"""Most seconds for a process to start and import the function."""


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
    """A function that is called in a thread when there is a limit, else in the thread that calls."""

    def __init__(self, function: Callable[..., Any], seconds: float | None, budget: int) -> None:
        """Keep the function; `seconds` None: no limit."""
        self.function, self.seconds, self.budget = function, seconds, budget
        self._left: list[threading.Thread] = []

    @property
    def left(self) -> int:
        """How many calls were given up and still run."""
        self._left = [thread for thread in self._left if thread.is_alive()]
        return len(self._left)

    def __call__(self, values: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call within the limit, or "late"."""
        if self.seconds is None and not inspect.iscoroutinefunction(self.function):
            return perform(self.function, values, self.budget)
        if self.left >= MOST_LEFT:
            return "late", f"was not called: {self.left} earlier calls of it have not ended yet"
        found: list[Outcome] = []
        work = partial(perform, self.function, values, self.budget, self.seconds)
        context = contextvars.copy_context()
        # A daemon: the program must be able to end although the function does not.
        thread = threading.Thread(target=lambda: found.append(context.run(work)), name="turnwise-tool", daemon=True)
        thread.start()
        loop = inspect.iscoroutinefunction(self.function)
        thread.join(None if self.seconds is None else self.seconds + _GRACE * loop)
        if found and found[0][0] != "late":
            return found[0]
        if not found:
            self._left.append(thread)
            return "late", f"did not end within {self.seconds:g} s and was given up; it may still be running"
        return "late", f"did not end within {self.seconds:g} s and was stopped"

    def close(self) -> None:
        """Do nothing: threads end by themselves, or with the program."""


class Child:
    """A function in a process of its own, started at the first call and anew after one that was late."""

    def __init__(self, function: Callable[..., Any], seconds: float | None, budget: int) -> None:
        """Keep the function.

        Raises:
            BadTool: it cannot be sent to another process.
        """
        try:
            self._recipe = pickle.dumps((function, budget))
        except Exception as error:
            raise BadTool(
                f"{function!r} cannot run isolated, since it cannot be sent to another process ({said(error, 120)}); "
                "give a function of a module"
            ) from error
        self.seconds = seconds
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child; None when there is none."""
        pid: int | None = None if self._process is None else self._process.pid
        return pid

    def __call__(self, values: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call; a late one ends its process."""
        try:
            message = pickle.dumps(dict(values))
        except Exception as error:
            return "raised", f"the arguments cannot be sent to another process ({said(error, 120)})"
        with self._lock:
            try:
                pipe = self._running()
                if pipe is None:
                    return "gone", f"did not start within {_START:g} s in a process of its own"
                pipe.send_bytes(message)
                if pipe.poll(self.seconds):
                    return self._known(pickle.loads(pipe.recv_bytes()))
            except (EOFError, OSError):
                return "gone", f"ended the process in which it ran ({self._end(patience=5.0)})"
            self._end()
            return "late", f"did not end within {self.seconds:g} s and was killed"

    def close(self) -> None:
        """End the process; the next call starts another one."""
        with self._lock:
            self._end()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the process: a copy starts its own."""
        return {"_recipe": self._recipe, "seconds": self.seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be a child that was not started."""
        self.__dict__.update(state, _lock=threading.Lock(), _process=None, _pipe=None)

    def __del__(self) -> None:
        """Leave no process behind."""
        if self.__dict__.get("_process") is not None:
            self._end()

    def _running(self) -> Connection | None:
        """Return the pipe to the process, started where it is not there; None when it does not start."""
        if self._pipe is not None:
            return self._pipe
        # Not fork, which is unsafe once threads run.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._recipe), name="turnwise-tool", daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START):
            self._end()
            return None
        self._pipe.recv_bytes()
        return self._pipe

    @staticmethod
    def _known(answer: Any) -> Outcome:
        problem, text = answer
        return problem, text

    def _end(self, patience: float = 0.2) -> str:
        """Kill the process with all that it started; return how it had ended, in words.

        Args:
            patience: seconds in which whoever ends by itself may say how.
        """
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is None:
            return "it was not running"
        if process.exitcode is None:
            process.join(timeout=patience)
        code = process.exitcode
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # Its group is its own once it has called setsid; it outlives the process itself.
            if code is not None or os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        if process.is_alive():
            process.kill()
        process.join(timeout=5.0)
        process.close()
        if code is None:
            return "it was killed"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _follow(parent: Any) -> None:
    """End this process as soon as its parent has ended, even in the middle of a call."""
    parent.join()
    os._exit(1)


def _serve(pipe: Connection, recipe: bytes) -> None:
    """Be the child: answer calls until the parent closes the pipe or is gone."""
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), name="turnwise-parent", daemon=True).start()
    function, budget = pickle.loads(recipe)
    pipe.send_bytes(b"")
    while True:
        try:
            values = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)  # not waiting for threads that the function has left behind
        pipe.send_bytes(pickle.dumps(perform(function, values, budget)))
