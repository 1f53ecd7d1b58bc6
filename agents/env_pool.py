"""Places for environments: a `EnvWorker` makes, resets and steps one, and turns whatever goes wrong into `EnvFailure`.

Without a deadline the environment is called inline on the event loop: nothing is faster, and the order of calls is
fixed. With a deadline it lives on a thread of its own, so that a slow one delays nobody; one that overruns is left
behind (a thread cannot be killed) and a new one is made for the next episode. An `EnvPool` keeps
workers between rollouts.

Left out on purpose: processes. `turnwise.envs.Isolated` is an environment that runs in one, for those that must be
killed; it fits in here like any other.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from turnwise.agents.errors import AgentError
from turnwise.agents.trajectory import Extra, check_extras
from turnwise.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied
from turnwise.envs.info import ADMISSIBLE, SCORE, STATE, TASK_TYPE, VALID, WON

EXTRAS = "extras"

Make = Callable[[], "gymnasium.Env[Any, Any]"]

PATIENCE = 10.0
"""How many deadlines the construction of an environment may take: it loads what later calls only use."""


class EnvFailure(Exception):
    """The environment failed: the text says at what, and how."""


class NoPlan(EnvFailure):
    """The environment is alive and knows no way to success from here; whoever asked may play on without a plan."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an environment said to a reset or an action, checked; None where it does not say."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    admissible: tuple[str, ...] | None
    state: str
    valid: bool | None
    won: bool | None
    score: float | None
    task_type: str | None
    extras: Mapping[str, Extra] = field(default_factory=dict)
    """Columns of the turn just played; after a reset, defaults for all turns of the episode."""


class EnvWorker:
    """One environment, made when it is needed and made anew after a failure."""

    def __init__(self, make: Make, deadline: float | None = None, alive: set[int] | None = None) -> None:
        """Keep how to make it.

        Args:
            make: makes the environment.
            deadline: seconds for each reset and each step; None: no limit.
            alive: ids of the environments that other workers hold, to be shared among them.

        """
        self._alive = set() if alive is None else alive
        self._make = make
        self._deadline = deadline
        self._env: gymnasium.Env[Any, Any] | None = None
        self._thread: _Thread | None = None
        self.failures = 0

    async def reset(self, task: str, seed: int) -> Answer:
        """Return the first answer of an episode of the task.

        Raises:
            EnvFailure: construction or reset failed, overran, or returned something else than text.

        """
        if self._env is None:
            self._env = await self._call("the construction", PATIENCE, self._make)
            # two episodes in one environment would play each other's moves, and nothing would fail
            if id(self._env) in self._alive:
                self._env = None
                raise AgentError(
                    "make() returned an environment that is in use: it has to make a new one at every call, or the "
                    "rollout needs concurrency=1"
                )
            self._alive.add(id(self._env))
        result = await self._call("reset()", 1.0, self._env.reset, seed=seed, options={"task": task})
        try:
            observation, info = result
            return _answer(observation, 0.0, False, False, info)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise EnvFailure(f"reset() returned what is no (observation, info): {error}") from error

    async def step(self, action: str) -> Answer:
        """Return the environment's answer to an action.

        Raises:
            EnvFailure: the step failed, overran, or returned something else than Gymnasium's five values.

        """
        assert self._env is not None, "step() before reset()"
        result = await self._call("step()", 1.0, self._env.step, action)
        try:
            observation, reward, terminated, truncated, info = result
            return _answer(observation, float(reward), bool(terminated), bool(truncated), info)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise EnvFailure(f"step() returned what are not Gymnasium's five values: {error}") from error

    def planner(self) -> Callable[[], list[str]] | None:
        """Return a function that asks the environment for its plan, or None when it has none."""
        try:
            plan = self._env.get_wrapper_attr("plan") if self._env is not None else None
        except AttributeError:
            return None
        if plan is None:
            return None

        def ask() -> list[str]:
            try:
                # on the environment's own thread, where it has one: it may belong to it
                return list(plan() if self._thread is None else self._thread.call(plan).result(self._deadline))
            except Exception as error:
                says_so = isinstance(error, EnvError) and not isinstance(error, DeadlineExceeded | EnvironmentDied)
                kind = NoPlan if says_so else EnvFailure
                raise kind(f"{type(error).__name__} in plan(): {error}") from error

        return ask

    def discard(self) -> None:
        """Close the environment after a failure: the next reset makes a new one."""
        self.failures += 1
        self.close()

    def close(self) -> None:
        """Close the environment; one that hangs is left to its thread, which closes it if it ever comes back."""
        env, thread = self._env, self._thread
        self._env = self._thread = None
        self._alive.discard(id(env))
        if thread is not None:
            thread.finish(env)
        elif env is not None:
            # it is thrown away: what its close() has to complain about changes nothing
            with suppress(Exception):
                env.close()

    async def _call(self, what: str, patience: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            if self._deadline is None:
                return function(*args, **kwargs)
            if self._thread is None:
                self._thread = _Thread()
            future = asyncio.wrap_future(self._thread.call(function, *args, **kwargs))
            done, _ = await asyncio.wait([future], timeout=patience * self._deadline)
            if done:
                return future.result()
            future.cancel()
        except (Exception, SystemExit) as error:
            raise EnvFailure(f"{type(error).__name__} in {what}: {error}") from error
        raise EnvFailure(f"{what} took longer than {patience * self._deadline:g} seconds")


class EnvPool:
    """Seats that outlive a rollout, so that environments are not made anew in every iteration of a training."""

    def __init__(self, make: Make, deadline: float | None = None) -> None:
        """Keep how to make environments; ``deadline`` in seconds for each reset and each step, None: no limit."""
        self._make = make
        self._deadline = deadline
        self._free: list[EnvWorker] = []
        self._alive: set[int] = set()

    def take(self) -> EnvWorker:
        """Return a free worker, or a new one."""
        return self._free.pop() if self._free else EnvWorker(self._make, self._deadline, self._alive)

    def give_back(self, worker: EnvWorker) -> None:
        """Take a worker back for the next user."""
        self._free.append(worker)

    def close(self) -> None:
        """Close every environment that nobody holds."""
        while self._free:
            self._free.pop().close()

    def __enter__(self) -> EnvPool:
        """Return the pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the environments."""
        self.close()


class _Thread:
    """One daemon thread that makes calls in order: an environment always sees the same thread."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._env: gymnasium.Env[Any, Any] | None = None
        self._finished = False
        # a daemon: a call that never returns must not keep the interpreter from leaving
        threading.Thread(target=self._run, name="turnwise-environment", daemon=True).start()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a call."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return future

    def finish(self, env: gymnasium.Env[Any, Any] | None) -> None:
        """Close the environment and end, after the call that may still be running."""
        self._env = env
        self._finished = True
        self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, function = item
            result, error = _caught(function)
            # nobody may wait any more: the call overran, or the event loop is gone
            with suppress(InvalidStateError, RuntimeError):
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)
            if self._finished and isinstance(result, gymnasium.Env):
                self._env = result  # its construction overran
        if self._env is not None:
            with suppress(Exception):
                self._env.close()


def _caught(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except Exception as error:
        # a future cannot carry this one
        return None, RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
    except BaseException as error:  # SystemExit and its like: they must not end the thread without a word
        return None, RuntimeError(f"{type(error).__name__}: {error}")


def _answer(observation: Any, reward: float, terminated: bool, truncated: bool, info: Mapping[str, Any]) -> Answer:
    text = observation["text"] if isinstance(observation, Mapping) else observation
    if not isinstance(text, str):
        raise TypeError(f"the observation is of type {type(text).__name__}, text was wanted")
    if not math.isfinite(reward):
        raise ValueError(f"the reward is {reward}")
    read = info.get
    listed, valid, won, score, kind = (read(key) for key in (ADMISSIBLE, VALID, WON, SCORE, TASK_TYPE))
    if score is not None and not math.isfinite(score):
        raise ValueError(f"the score is {score}")
    return Answer(
        observation=text,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        admissible=None if listed is None else _texts(listed),
        # an environment without state keys is taken by its words
        state=str(read(STATE, text)),
        valid=None if valid is None else bool(valid),
        won=None if won is None else bool(won),
        score=None if score is None else float(score),
        task_type=None if kind is None else str(kind),
        extras=check_extras(read(EXTRAS)),
    )


def _texts(listed: Iterable[str]) -> tuple[str, ...]:
    actions = tuple(listed)
    for action in actions:
        if not isinstance(action, str):
            raise TypeError(f"an admissible action is of type {type(action).__name__}, text was wanted")
    return actions
