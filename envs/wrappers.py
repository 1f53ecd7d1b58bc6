"""Bounds around an environment: turns, seconds, a process of its own.

    EndGuard    the end is the end: told apart, and nothing after it
    TurnLimit   at most so many turns
    Deadline    at most so many seconds a call, in a thread: costs microseconds, cannot stop what hangs
    Isolated    in a child process: costs a start, and kills what hangs or survives what crashes

Left out on purpose: restarting. A dead environment stays dead, and whoever plays decides whether a fresh one is made,
since the episode is lost either way and has to be counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, SupportsFloat, TypeVar

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from turnwise.envs.errors import DeadlineExceeded, NotReset, StepAfterEnd
from turnwise.envs.isolated import Isolated

__all__ = ["Deadline", "EndGuard", "Isolated", "TurnLimit"]

T = TypeVar("T")
Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
_OPTIONAL: Final = ("task_ids", "plan", "snapshot", "restore")


class EndGuard(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Raise on a step after the end, and let a win on the last allowed turn be a win.

    Gymnasium's own limit answers further steps, and calls an episode both terminated and truncated when the end of the
    task falls on the last turn. Learners bootstrap after a truncation, and a finished task has nothing to come.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap `env`."""
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._state = "new"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; one that could not be started leaves none."""
        self._state = "new"
        result = self.env.reset(seed=seed, options=options)
        self._state = "open"
        return result

    def step(self, action: Any) -> Step:
        """Return what the environment answers, never both terminated and truncated.

        Raises:
            NotReset: no episode has been started.
            StepAfterEnd: the episode has ended.
        """
        if self._state != "open":
            raise StepAfterEnd if self._state == "over" else NotReset
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            self._state = "over"
            truncated = truncated and not terminated
        return observation, reward, terminated, truncated, info


class TurnLimit(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Cut an episode after `max_turns` turns: `truncated`, unless the task ended on that very turn."""

    def __init__(self, env: gymnasium.Env[Any, Any], max_turns: int) -> None:
        """Wrap `env`.

        Args:
            env: the environment.
            max_turns: turns after which an episode is cut, at least 1.

        Raises:
            ValueError: no episode has fewer than one turn.
        """
        if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1:
            raise ValueError(f"max_turns must be a whole number of 1 or more, got {max_turns!r}")
        RecordConstructorArgs.__init__(self, max_turns=max_turns)
        gymnasium.Wrapper.__init__(self, env)
        self.max_turns = max_turns
        self._left: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with all its turns."""
        self._left = None
        result = self.env.reset(seed=seed, options=options)
        self._left = self.max_turns
        return result

    def step(self, action: Any) -> Step:
        """Return what the environment answers; on the last turn, cut.

        Raises:
            NotReset: no episode has been started.
            StepAfterEnd: the episode has ended.
        """
        if not self._left:
            raise NotReset if self._left is None else StepAfterEnd
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._left = 0 if terminated or truncated else self._left - 1
        truncated = not terminated and self._left == 0
        return observation, reward, terminated, truncated, info


class Deadline(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Give every call to the environment at most so many seconds.

    Calls run one after the other in one thread of their own. A call that is late cannot be stopped, so the environment
    counts as dead from then on: every further call raises, and close() leaves it alone, since the late call may still
    be inside it. Use `Isolated` where what hangs has to be killed.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seconds: float) -> None:
        """Wrap `env`.

        Args:
            env: the environment.
            seconds: most wall-clock seconds a reset, step, plan or close may take, above 0.

        Raises:
            ValueError: no call takes so little time.
        """
        if not seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds!r}")
        super().__init__(env)
        self.seconds = float(seconds)
        self._calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[bool, Any]]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._late: str | None = None
        self._closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            DeadlineExceeded: it took too long, or a call before it did.
        """
        return self._timed("reset()", lambda: self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> Step:
        """Take an action.

        Raises:
            DeadlineExceeded: it took too long, or a call before it did.
        """
        return self._timed(f"step({_short(action)})", lambda: self.env.step(action))

    def close(self) -> None:
        """Close the environment, unless a late call may still be inside it, and let the thread go."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._late is None:
                self._timed("close()", self.env.close)
        finally:
            self._calls.put(None)

    def __getattr__(self, name: str) -> Any:
        """Offer the optional methods that the environment has, under the same deadline."""
        if name not in _OPTIONAL or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        from turnwise.envs.branch import offered

        method = offered(self.env, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            return self._timed(f"{name}()", lambda: method(*args, **kwargs))

        return timed

    def _timed(self, what: str, call: Callable[[], T]) -> T:
        """Run `call` in the thread and wait for it as long as the deadline allows."""
        if self._late is not None:
            raise DeadlineExceeded(f"the environment is dead since {self._late}; make a new one")
        if self._thread is None:
            # A daemon, so that a call that never returns does not keep the program from ending.
            self._thread = threading.Thread(target=_serve, args=(self._calls,), name="turnwise-deadline", daemon=True)
            self._thread.start()
        answer: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._calls.put((call, answer))
        try:
            fine, value = answer.get(timeout=self.seconds)
        except BaseException as error:
            # Empty: late. Anything else (Ctrl-C) leaves the call inside the environment just as well.
            late = f"{what} took longer than {self.seconds:g} s"
            self._late = late if isinstance(error, Empty) else f"{what} was interrupted"
            self._calls.put(None)
            if isinstance(error, Empty):
                raise DeadlineExceeded(late) from None
            raise
        if fine:
            return value  # type: ignore[no-any-return]
        raise value


def _serve(calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[bool, Any]]] | None]) -> None:
    """Run calls until None comes; whatever they raise is the answer."""
    while (item := calls.get()) is not None:
        call, answer = item
        try:
            answer.put((True, call()))
        except BaseException as error:
            answer.put((False, error))
        del item, call, answer


def _short(action: Any, longest: int = 60) -> str:
    """Return an action for a message, cut where it is long."""
    text = repr(action)
    return text if len(text) <= longest else text[: longest - 3] + "..."
