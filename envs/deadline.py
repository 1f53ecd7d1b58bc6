"""A deadline for the calls to an environment in this process.

For environments that must be killed when they hang, use `turncredit.envs.Isolated`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import gymnasium

from turncredit.envs.branch import OPTIONAL_METHODS, find_method
from turncredit.envs.errors import DeadlineExceeded
from turncredit.envs.info import Environment, ResetOptions, ResetResult, StepResult
from turncredit.processes.deadlines import DeadlinePassed, WorkerThread, wait
from turncredit.tools.visible_text import shortened

__all__ = ["Deadline"]

T = TypeVar("T")


class Deadline(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Limit the wall-clock time of every call to the environment.

    All calls run on one thread. A late call cannot be stopped, so the environment counts as dead afterwards: every
    further call raises, and close() does not touch it, since the late call may still run.
    """

    def __init__(self, env: Environment, seconds: float) -> None:
        """Wrap `env`.

        Args:
            env: the environment.
            seconds: deadline for each reset, step, plan and close, > 0.

        Raises:
            ValueError: `seconds` is not above 0.
        """
        if not seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds!r}")
        super().__init__(env)
        self.seconds = float(seconds)
        self._worker: WorkerThread | None = None
        self._late: str | None = None
        self._closed = False

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> ResetResult:
        """Start an episode.

        Raises:
            DeadlineExceeded: this call, or one before it, took too long.
        """
        return self._timed("reset()", partial(self.env.reset, seed=seed, options=options))

    def step(self, action: object) -> StepResult:
        """Take an action.

        Raises:
            DeadlineExceeded: this call, or one before it, took too long.
        """
        return self._timed(f"step({_short(action)})", partial(self.env.step, action))

    def close(self) -> None:
        """Close the environment, unless a late call may still run in it, and end the thread."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._late is None:
                self._timed("close()", self.env.close)
        finally:
            if self._worker is not None:
                self._worker.stop()

    def __getattr__(self, name: str) -> Any:
        """Return an optional method of the environment, under the same deadline."""
        if name not in OPTIONAL_METHODS or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        method = find_method(self.env, name)

        def timed(*args: object, **kwargs: Any) -> object:
            return self._timed(f"{name}()", partial(method, *args, **kwargs))

        return timed

    def _timed(self, subject: str, call: Callable[[], T]) -> T:
        """Run a call on the thread and wait for it until the deadline."""
        if self._late is not None:
            raise DeadlineExceeded(f"the environment is dead since {self._late}; make a new one")
        if self._worker is None:
            self._worker = WorkerThread("turncredit-deadline")
        future = self._worker.submit(call)
        try:
            return wait(future, self.seconds)
        except DeadlinePassed as error:
            self._late = f"{subject} {error}"
            raise DeadlineExceeded(self._late) from None
        except BaseException:
            if not future.done():  # Ctrl-C while waiting: the call still runs in the environment
                self._late = f"{subject} was interrupted"
            raise


def _short(action: Any, longest: int = 60) -> str:
    return shortened(repr(action), longest, keep=longest - 3)
