"""Environment workers: each makes, resets and steps one environment, and turns any failure into `EnvFailure`.

Without a deadline the environment is called on the event loop, which is fastest and fixes the order of calls. With a
deadline it lives on a thread of its own, so that a slow environment delays no other. A thread cannot be killed: an
environment that overruns is abandoned and a new one is made for the next episode. Environments that need much CPU time,
or that may crash, live in other processes (`turncredit.agents.rollouts.env_processes`), and their calls are awaited. An
`EnvPool` keeps workers between rollouts.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import gymnasium

from turncredit.agents.content import Content, ImagePart, TextPart, read_observation
from turncredit.agents.errors import AgentError, EnvEndedHost, EnvFailure, EnvLost, NoPlan
from turncredit.agents.json_types import JsonObject
from turncredit.agents.reported_values import check_columns, check_number
from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.agents.trajectory import Extra, check_extras
from turncredit.envs.branch import find_method
from turncredit.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied, HostDied, NoExpert
from turncredit.envs.host import EnvHosts, LimitsLosses, RemoteEnv
from turncredit.envs.info import (
    ADMISSIBLE,
    EXTRAS,
    FREE,
    NO_FORKS,
    RESULTS,
    SCORE,
    STATE,
    TASK,
    TASK_TYPE,
    TOOLS,
    VALID,
    WON,
)
from turncredit.processes.deadlines import WorkerThread, wait
from turncredit.processes.failures import message_of

Environment: TypeAlias = gymnasium.Env[Any, Any]
"""Any environment; its observations and results are checked when they come."""

MakeEnv = Callable[[], Environment]

CONSTRUCTION_DEADLINES = 10.0
"""Deadlines that the construction of an environment may take, since it loads what later calls only use."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an environment returned from reset() or step(), checked; None where it says nothing."""

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
    free: tuple[str, ...] = ()
    """Forms of actions that cannot be listed."""
    images: tuple[ImagePart, ...] = ()
    extras: Mapping[str, Extra] = field(default_factory=dict)
    """Columns of the turn just played; after a reset, defaults for all turns of the episode."""
    tools: tuple[JsonObject, ...] = ()
    """After a reset: schemas of the functions that the model's server or chat template describes."""
    task: str = ""
    """Id of the task, where the environment tells."""
    results: tuple[str, ...] = ()
    """After a step: the result of each call in the action, where it was calls."""

    @property
    def content(self) -> Content:
        """The observation as parts."""
        return (TextPart(self.observation), *self.images)


class EnvWorker:
    """One environment, made when it is first needed and again after a failure."""

    def __init__(
        self,
        make: MakeEnv,
        deadline: float | None = None,
        in_use: set[int] | None = None,
        hosts: EnvHosts | None = None,
        *,
        deterministic: bool = False,
        alone: bool = False,
    ) -> None:
        """Keep how to make it.

        Args:
            make: makes the environment.
            deadline: seconds for each reset and each step; None: no limit.
            in_use: ids of the environments of all workers, shared among them.
            hosts: makes the environment elsewhere; None: in this process.
            deterministic: see `EnvPool`.
            alone: the environment has a process of its own, if hosts have such.
        """
        self._hosts, self._deterministic, self._alone = hosts, deterministic, alone
        self._in_use = set() if in_use is None else in_use
        self._make = make
        self._deadline = deadline
        self._env: Environment | None = None
        self._thread: WorkerThread | None = None
        self.failures = 0
        self.seconds = 0.0
        """That its environment took on the event loop; 0 where it lives elsewhere."""

    async def reset(self, task: str | None, seed: int | None) -> StepResult:
        """Return the first result of an episode of the task; None: one that the environment draws.

        Raises:
            EnvFailure: construction or reset failed, overran, or returned something invalid.
        """
        await self._prepare()
        options = None if task is None else {"task": task}
        return _start_of("reset()", await self._call("reset", seed=seed, options=options))

    async def restore(self, data: bytes) -> StepResult:
        """Return what the agent sees in a saved state, after putting the environment into it.

        Raises:
            EnvFailure: construction or restoring failed, overran, or returned something invalid.
        """
        await self._prepare()
        return _start_of("restore()", await self._call("restore", data))

    async def save(self) -> bytes | None:
        """Return the state of the environment; None if it, or a wrapper around it, cannot be saved.

        Raises:
            EnvFailure: saving overran, or ended its process.
        """
        if self._env is None or not self._env.has_wrapper_attr("snapshot"):
            return None
        try:
            return await self._call("snapshot")  # type: ignore[no-any-return]
        except EnvFailure as failure:
            cause = failure.__cause__
            if isinstance(cause, EnvError) and not isinstance(cause, DeadlineExceeded | EnvironmentDied):
                return None
            raise

    async def reseed(self, seed: int) -> None:
        """Give the episode other random numbers from here on.

        Raises:
            EnvFailure: the environment failed.
        """
        await self._call("reseed", seed)

    @property
    def no_forks(self) -> str:
        """Why no episode of the environment can begin in the middle of another; empty if it can."""
        return "" if self._env is None else str(self._env.metadata.get(NO_FORKS, ""))

    async def step(self, action: str) -> StepResult:
        """Return the result of an action.

        Raises:
            EnvFailure: the step failed, overran, or returned something invalid.
        """
        assert self._env is not None, "step() before reset()"
        result = await self._call("step", action)
        try:
            observation, reward, terminated, truncated, info = result
            return step_result(observation, float(reward), bool(terminated), bool(truncated), info)
        except Exception as error:
            form = "(observation, reward, terminated, truncated, info)"
            raise EnvFailure(f"step() must return {form}: {message_of(error)}") from error

    def planner(self) -> Callable[[], list[str]] | None:
        """Return a function that asks the environment for its plan, or None if it has none."""
        env = self._env
        if env is None:
            return None
        try:
            plan = _outcome("plan", lambda: env.get_wrapper_attr("plan"))
        except EnvFailure as failure:
            if isinstance(failure.__cause__, AttributeError):
                return None
            raise
        if plan is None:
            return None

        def ask() -> list[str]:
            try:
                # on the environment's own thread, if it has one: it may belong to that thread
                return list(plan() if self._thread is None else wait(self._thread.submit(plan), self._deadline))
            except NoExpert as error:
                raise AgentError(f"the expert cannot play here: {message_of(error)}") from error
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                no_plan = isinstance(error, EnvError) and not isinstance(error, DeadlineExceeded | EnvironmentDied)
                raise _failure("plan()", error, NoPlan if no_plan else EnvFailure) from error

        return ask

    def discard(self) -> None:
        """Close the environment after a failure; the next reset makes a new one."""
        self.failures += 1
        self.close()

    def close(self) -> None:
        """Close the environment, without waiting if it hangs or lives elsewhere."""
        env, thread, remote = self._env, self._thread, self._remote
        self._env = self._thread = None
        self._in_use.discard(id(env))
        if remote is not None:
            remote.connection.close()
        elif thread is not None:
            thread.stop(None if env is None else env.close)
        elif env is not None:
            _close(env)

    @property
    def _remote(self) -> RemoteEnv | None:
        """The environment, if it lives in another process."""
        return self._env if self._hosts is not None and isinstance(self._env, RemoteEnv) else None

    async def _prepare(self) -> None:
        """Make the environment if there is none, or if its host should be left."""
        if (remote := self._remote) is not None and remote.connection.retired:
            self.close()
        if self._env is not None:
            return
        self._env = await self._construct()
        # Two episodes in one environment would play each other's moves without any error.
        if id(self._env) in self._in_use:
            self._env = None
            raise AgentError(
                "make() returned an environment that is already in use; return a new one from every call, or set "
                "concurrency=1"
            )
        self._in_use.add(id(self._env))

    async def _construct(self) -> Environment:
        if self._hosts is None:
            return await self._run("the construction", CONSTRUCTION_DEADLINES, self._make)  # type: ignore[no-any-return]
        limit = None if self._deadline is None else CONSTRUCTION_DEADLINES * self._deadline
        alone = self._alone and isinstance(self._hosts, LimitsLosses)
        open_ = self._hosts.open_alone if alone else self._hosts.open  # type: ignore[attr-defined]
        opening = open_(self._make, self._deadline, limit)
        try:
            return await self._answer("the construction", opening)  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            opening.add_done_callback(_close_result)
            raise

    async def _call(self, method: str, *args: object, **kwargs: object) -> Any:
        """Return the result of a method of the environment."""
        if (remote := self._remote) is not None:
            return await self._answer(f"{method}()", remote.submit(method, *args, **kwargs))
        env = self._env
        assert env is not None
        function = getattr(env, method) if method in ("reset", "step") else find_method(env, method)
        return await self._run(f"{method}()", 1.0, function, *args, **kwargs)

    async def _run(
        self, name: str, deadlines: float, function: Callable[..., Any], *args: object, **kwargs: object
    ) -> Any:
        """Return the result of a call in this process."""
        if self._deadline is None:
            begun = time.perf_counter()
            try:
                return _outcome(name, lambda: function(*args, **kwargs))
            finally:
                self.seconds += time.perf_counter() - begun
        if self._thread is None:
            self._thread = WorkerThread("turncredit-environment")
        call = self._thread.submit(function, *args, **kwargs)
        ended = False
        try:
            ended = await _ended(call, deadlines * self._deadline)
        finally:  # also if this task was cancelled
            if not ended and function is self._make:
                call.add_done_callback(_close_result)
        if not ended:
            call.cancel()
            raise EnvFailure(f"{name} took longer than {deadlines * self._deadline:g} seconds")
        return _outcome(name, call.result)

    async def _answer(self, name: str, call: Future[Any]) -> Any:
        """Return the result of a call in another process."""
        if self._deterministic:
            await asyncio.sleep(0)  # other episodes send their calls first, so that processes work at the same time
        else:
            await _ended(call)
        return _outcome(name, call.result)


class EnvPool:
    """Workers that outlive a rollout, so that environments are not made again in every iteration of training."""

    def __init__(
        self,
        make: MakeEnv,
        deadline: float | None = None,
        *,
        workers: int = 0,
        hosts: EnvHosts | None = None,
        deterministic: bool = False,
    ) -> None:
        """Keep how to make environments.

        Args:
            make: makes an environment; has to be picklable if environments live elsewhere.
            deadline: seconds for each reset and each step; None: no limit.
            workers: processes in which the environments live; 0: in this one.
            hosts: makes the environments elsewhere, in place of `workers`; the pool closes it.
            deterministic: take the answers of other processes in the order of the calls, so that episodes meet the
                sampler in the same batches each time. The event loop, and with it a sampler in this process, then waits
                for every answer in its turn.
        """
        self._make, self._deterministic = make, deterministic
        self.deadline = deadline
        if hosts is None and workers != 0:
            hosts = EnvProcesses(workers, threads=deadline is not None)
        self.hosts = hosts
        self._replaced = 0
        self._free: list[EnvWorker] = []
        self._in_use: set[int] = set()

    def take_replaced(self) -> int:
        """Return the number of processes that were replaced since the last call."""
        before, self._replaced = self._replaced, 0 if self.hosts is None else self.hosts.replaced
        return self._replaced - before

    def take(self) -> EnvWorker:
        """Return a free worker, or a new one."""
        return self._free.pop() if self._free else self._worker()

    def take_alone(self) -> EnvWorker:
        """Return a worker for one episode whose environment has a process of its own; close it afterwards."""
        return self._worker(alone=True)

    @property
    def capacity(self) -> int:
        """How many episodes should be played at once, given how many the death of a process would end."""
        return self.hosts.capacity if isinstance(self.hosts, LimitsLosses) else sys.maxsize

    def _worker(self, alone: bool = False) -> EnvWorker:
        return EnvWorker(
            self._make, self.deadline, self._in_use, self.hosts, deterministic=self._deterministic, alone=alone
        )

    def give_back(self, worker: EnvWorker) -> None:
        """Take a worker back for the next user."""
        self._free.append(worker)

    def close(self) -> None:
        """Close the environments of all free workers, and end the processes in which they lived."""
        while self._free:
            self._free.pop().close()
        if self.hosts is not None:
            self.hosts.close()

    def __enter__(self) -> EnvPool:
        """Return the pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the environments."""
        self.close()


async def _ended(call: Future[object], seconds: float | None = None) -> bool:
    """Wait until a call has ended, however; return whether it has within some seconds.

    Its outcome stays where it is, since futures of an event loop refuse some exceptions, and nobody would be woken.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def wake() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell(_: Future[object]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(wake)

    call.add_done_callback(tell)
    if seconds is None:
        await ended
        return True
    return bool((await asyncio.wait([ended], timeout=seconds))[0])


def _outcome(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call of an environment returns; everything that it raises is an `EnvFailure`, except Ctrl-C."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # nothing is awaited here, so a CancelledError is the environment's own
        raise _failure(name, error) from error


def _failure(name: str, error: BaseException, kind: type[EnvFailure] = EnvFailure) -> EnvFailure:
    message = message_of(error)
    text = f"{type(error).__name__} in {name}" + (f": {message}" if message else "")
    if isinstance(error, HostDied):
        lost = EnvLost(text)
        lost.suspect = error.suspect
        return lost
    return EnvEndedHost(text) if isinstance(error, EnvironmentDied) and error.took_others else kind(text)


def _start_of(call: str, result: object) -> StepResult:
    """Return the first result of an episode, or of the rest of one."""
    try:
        observation, info = cast(tuple[object, JsonObject], result)
        return step_result(observation, 0.0, False, False, info)
    except Exception as error:  # what is read may be objects of the environment's own
        raise EnvFailure(f"{call} must return (observation, info): {message_of(error)}") from error


def _close(env: Environment) -> None:
    """Close an environment, and ignore what it raises."""
    with suppress(EnvFailure):
        _outcome("close()", env.close)


def _close_result(construction: Future[Any]) -> None:
    """Close an environment that nobody waits for any more."""
    with suppress(Exception):
        env = construction.result()
        env.connection.close() if isinstance(env, RemoteEnv) else _close(env)


def step_result(observation: object, reward: float, terminated: bool, truncated: bool, info: JsonObject) -> StepResult:
    """Return what an environment returned, checked.

    Raises:
        TypeError, ValueError: a value of the wrong type, or one that credit assignment would refuse.
    """
    text, images = read_observation(observation)
    if not isinstance(info, Mapping):
        raise TypeError(f"info must be a mapping, got {type(info).__name__}")
    check_number("the reward", reward)
    read = info.get
    listed, valid, won, score, kind = (read(key) for key in (ADMISSIBLE, VALID, WON, SCORE, TASK_TYPE))
    if score is not None:
        check_number("the score", score)
    return StepResult(
        observation=text,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        admissible=None if listed is None else _texts(listed),
        state=str(read(STATE, text)),  # without state keys, equal observations count as equal states
        valid=None if valid is None else bool(valid),
        won=None if won is None else bool(won),
        score=None if score is None else float(score),
        task_type=None if kind is None else str(kind),
        free=_texts(read(FREE) or ()),
        images=images,
        extras=check_columns(check_extras(read(EXTRAS))),
        tools=tuple(read(TOOLS) or ()),
        task=str(read(TASK, "")),
        results=_texts(read(RESULTS) or (), "a result"),
    )


def _texts(listed: Iterable[str], kind: str = "an action") -> tuple[str, ...]:
    actions = tuple(listed)
    for action in actions:
        if not isinstance(action, str):
            raise TypeError(f"{kind} in info must be a string, got {type(action).__name__}")
    return actions
