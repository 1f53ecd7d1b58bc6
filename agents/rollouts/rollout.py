"""Rollouts: many episodes of an agent and a sampler at once, collected from their stream.

An exception of the sampler that is not about one request ends the rollout; `EngineFailed` carries what was finished.

With the same seed, no deadline and a deterministic sampler, a rollout on the same machine gives the same trajectories
bit for bit, except for ``seconds``. If answers depend on the requests that they are computed with, as those of models
in batches do, this needs environments in this process, or answers of their processes in order (`EnvPool`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Unpack

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EngineFailed, Interrupted
from turncredit.agents.rollouts.env_pool import EnvPool, MakeEnv
from turncredit.agents.rollouts.episode import play
from turncredit.agents.rollouts.forks import Fork, Snapshots
from turncredit.agents.rollouts.rollout_options import RolloutOptions, RolloutReport, with_defaults
from turncredit.agents.rollouts.rollout_stream import GroupNumbers, GroupSpec, GroupStream, group_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.base import Samples
from turncredit.engines.wrappers import as_sampler
from turncredit.processes.child_process import ProcessDied
from turncredit.processes.forks import ForkedProcess, ForkPipe

__all__ = ["Fork", "RolloutOptions", "RolloutReport", "Snapshots", "arollout", "play", "rollout"]


def rollout(
    agent: Agent,
    sampler: Samples,
    tasks: Sequence[str | Fork | GroupSpec],
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
        tasks: ids of task instances, or forks of trajectories; see `turncredit.agents.rollouts.rollout_stream.stream`
            for seeds and members. A `GroupSpec` has its own size and seed.
        make: makes an environment; or an `EnvPool`, which keeps its environments for the next call.
        size: episodes of each task (G).
        seed: seed of the environments and, through the ids of the episodes, of the sampling.
        options: see `RolloutOptions`.

    Returns:
        The groups. A group is smaller than ``size`` if its task was quarantined after three errors in a row.

    Raises:
        Interrupted: Ctrl-C; it carries the groups with the finished episodes.
        EngineFailed: the engine or server is gone; it carries the groups with the finished episodes.
        AgentError: called inside a running event loop, or with values out of range.
    """
    _refuse_running_loop()
    played = _Rollout(agent, sampler, tasks, size, seed, options)
    try:
        played.play(make)
    except KeyboardInterrupt:
        raise Interrupted(played.groups()) from None
    except EngineFailed as failure:
        failure.groups = played.groups()
        raise
    return played.groups()


async def arollout(
    agent: Agent,
    sampler: Samples,
    tasks: Sequence[str | Fork | GroupSpec],
    *,
    make: MakeEnv | EnvPool,
    size: int = 1,
    seed: int = 0,
    **options: Unpack[RolloutOptions],
) -> list[Group]:
    """Return what `rollout` returns, for callers inside a running event loop; the arguments are the same.

    If it is cancelled, ``on_finish`` has received every finished trajectory.
    """
    if options.get("processes", 1) > 1:
        raise AgentError("several processes need rollout(), since an event loop cannot be forked")
    played = _Rollout(agent, sampler, tasks, size, seed, options)
    await played.play_here(make)
    return played.groups()


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AgentError("rollout() was called inside a running event loop; use `await arollout(...)` there")


class _Rollout:
    """The trajectories of a list of tasks, complete or not."""

    def __init__(
        self,
        agent: Agent,
        sampler: Samples,
        tasks: Sequence[str | Fork | GroupSpec],
        size: int,
        seed: int,
        options: RolloutOptions,
    ) -> None:
        numbers = GroupNumbers(size, seed)
        self._agent, self._sampler, self._options = agent, as_sampler(sampler), with_defaults(options)
        self._report = self._options["report"] or RolloutReport()
        self._specs = [numbers.next(task) for task in tasks]
        self._members: dict[int, list[Trajectory]] = {spec.number: [*spec.played] for spec in self._specs}

    def groups(self) -> list[Group]:
        """Return the finished trajectories in the order of tasks and members."""
        return [group_of(spec, self._members[spec.number]) for spec in self._specs]

    def play(self, make: MakeEnv | EnvPool) -> None:
        """Play all groups, in as many processes as the settings ask for."""
        count = max(1, min(self._options["processes"], len(self._specs)))
        limit = -(-self._options["concurrency"] // count)
        own, *others = (self._specs[share::count] for share in range(count))
        with ExitStack() as stack:  # forks end with it
            work = [partial(self._play_apart, make, share, limit) for share in others]
            forks = [stack.enter_context(ForkedProcess(job)) for job in work]

            def finished(trajectory: Trajectory) -> None:
                self._tell(trajectory)
                for fork in forks:
                    self._receive(fork.arrived())

            changes: RolloutOptions = {"on_finish": finished, "report": self._report, "concurrency": limit}
            try:
                asyncio.run(self._stream(make, own, changes))
                for fork in forks:
                    self._receive(fork.messages())
                    self._join(*fork.result())
            except ProcessDied as error:
                raise AgentError(f"one of the {count} processes of a rollout ended: {error}") from error

    async def play_here(self, make: MakeEnv | EnvPool) -> None:
        """Play all groups in this process."""
        await self._stream(make, self._specs, {"report": self._report})

    def _play_apart(
        self,
        make: MakeEnv | EnvPool,
        share: list[GroupSpec],
        concurrency: int,
        pipe: ForkPipe,
    ) -> tuple[RolloutReport, object]:
        """Play some groups in a fork of this process, and send their trajectories; return counts and notes."""
        report = RolloutReport()
        changes: RolloutOptions = {"on_finish": None, "report": report, "concurrency": concurrency}

        def keep(spec: GroupSpec, member: Trajectory) -> None:
            pipe.send((spec.number, member, self._sampler.notes_of(member.id)))

        asyncio.run(self._stream(make, share, changes, keep))
        return report, self._sampler.notes()

    def _join(self, report: RolloutReport, notes: object) -> None:
        self._report.include(report)
        self._sampler.add_notes(notes)

    async def _stream(
        self,
        make: MakeEnv | EnvPool,
        share: list[GroupSpec],
        changes: RolloutOptions,
        keep: Callable[[GroupSpec, Trajectory], None] | None = None,
    ) -> None:
        stream = GroupStream(
            self._agent, self._sampler, _listed(share), {**self._options, **changes}, keep or self._keep
        )
        await stream.play_members(make)

    def _keep(self, spec: GroupSpec, trajectory: Trajectory) -> None:
        self._members[spec.number].append(trajectory)

    def _receive(self, messages: Iterable[tuple[int, Trajectory, object]]) -> None:
        for number, trajectory, notes in messages:
            if notes is not None:
                self._sampler.add_notes(notes)  # before the trajectory is told, which they are about
            self._members[number].append(trajectory)
            self._tell(trajectory)

    def _tell(self, trajectory: Trajectory) -> None:
        on_finish = self._options["on_finish"]
        if on_finish is not None:
            on_finish(trajectory)


async def _listed(specs: Iterable[GroupSpec]) -> AsyncIterator[GroupSpec]:
    for spec in specs:
        yield spec
