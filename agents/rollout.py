"""Rollouts: many episodes of an agent and a sampler at once, collected from their stream.

An exception of the sampler that is not about one request ends the rollout; `EngineFailed` carries what was finished.

With the same seed, no deadline and a deterministic sampler, a rollout gives the same trajectories bit for bit, except
for ``seconds``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from turnwise.agents.agent import Agent
from turnwise.agents.env_pool import EnvPool, MakeEnv
from turnwise.agents.episode import play, sampling_seed
from turnwise.agents.errors import AgentError, EngineFailed, Interrupted
from turnwise.agents.rollout_options import RolloutOptions, RolloutReport, RolloutSettings
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.stream import GroupStream, number_groups
from turnwise.agents.trajectory import Group

__all__ = ["RolloutOptions", "RolloutReport", "arollout", "play", "rollout", "sampling_seed"]


def rollout(
    agent: Agent,
    sampler: Sampler,
    tasks: Sequence[str],
    *,
    make: MakeEnv | EnvPool,
    size: int = 1,
    seed: int = 0,
    **options: Unpack[RolloutOptions],
) -> list[Group]:
    """Return one group for every task, in the order of the tasks.

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        tasks: ids of task instances; see `turnwise.agents.stream.stream` for seeds and members.
        make: makes an environment; or an `EnvPool`, which keeps its environments for the next call.
        size: episodes of each task (G).
        seed: of the environments and, through the ids of the episodes, of the sampling.
        options: see `RolloutOptions`.

    Returns:
        The groups. A group is smaller than ``size`` if its task was quarantined after three errors in a row.

    Raises:
        Interrupted: Ctrl-C; it carries the groups with the finished episodes.
        EngineFailed: the engine or server is gone; it carries the groups with the finished episodes.
        AgentError: called inside a running event loop, or with values out of range.
    """
    _refuse_running_loop()
    collection = _Collection(agent, sampler, tasks, size, seed, RolloutSettings(**options))
    try:
        asyncio.run(collection.run(make))
    except KeyboardInterrupt:
        raise Interrupted(collection.groups()) from None
    except EngineFailed as failure:
        failure.groups = collection.groups()
        raise
    return collection.groups()


async def arollout(
    agent: Agent,
    sampler: Sampler,
    tasks: Sequence[str],
    *,
    make: MakeEnv | EnvPool,
    size: int = 1,
    seed: int = 0,
    **options: Unpack[RolloutOptions],
) -> list[Group]:
    """Return what `rollout` returns, for callers inside a running event loop; the arguments are the same.

    If it is cancelled, ``on_finish`` has received every finished trajectory.
    """
    collection = _Collection(agent, sampler, tasks, size, seed, RolloutSettings(**options))
    await collection.run(make)
    return collection.groups()


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AgentError("rollout() was called inside a running event loop; use `await arollout(...)` there")


class _Collection:
    """The groups of a stream over a list of tasks, complete or not."""

    def __init__(
        self, agent: Agent, sampler: Sampler, tasks: Sequence[str], size: int, seed: int, settings: RolloutSettings
    ) -> None:
        if size < 1:
            raise AgentError(f"size must be >= 1, got {size}")
        self._tasks = list(tasks)
        self._complete: dict[int, Group] = {}
        self._stream = GroupStream(agent, sampler, number_groups(self._tasks, size, seed), settings)

    async def run(self, make: MakeEnv | EnvPool) -> None:
        async for spec, group in self._stream.play(make):
            self._complete[spec.number] = group

    def groups(self) -> list[Group]:
        """Return the finished trajectories in the order of tasks and members."""
        found = {spec.number: group for spec, group in self._stream.in_play} | self._complete
        return [found.get(number, Group(task, ())) for number, task in enumerate(self._tasks)]
