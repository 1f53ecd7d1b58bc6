"""Forks of stored episodes, played many at a time.

Episodes are retraced one after another as environments become free, which gives the snapshots that their forks begin
from; where an environment cannot be saved, each fork replays. Forks of one history begin together, so that an engine
computes their common prompt once. On a CPU several processes share the episodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EnvFailure
from turncredit.agents.rollouts.env_pool import EnvPool, MakeEnv
from turncredit.agents.rollouts.forks import Snapshots
from turncredit.agents.rollouts.retracing import retrace
from turncredit.agents.rollouts.rollout_stream import GroupSpec, GroupStream, member_number
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Sampler
from turncredit.processes.child_process import ProcessDied
from turncredit.processes.forks import ForkedProcess, ForkPipe
from turncredit.training.truth.fork_records import ForkRecord
from turncredit.training.truth.histories import History

__all__ = ["ForkJob", "ForkPlayer"]


@dataclass(frozen=True, slots=True)
class ForkJob:
    """Forks to be played from one history."""

    history: History
    first: int
    """Number of the first of them."""
    size: int


@dataclass(slots=True)
class ForkPlayer:
    """Plays forks of stored episodes.

    Attributes:
        agent: that played the episodes.
        sampler: the policy whose values are asked for.
        make: makes an environment like that of the episodes, or keeps them.
        fresh: whether the environment gets other random numbers in each fork.
        concurrency: episodes at once, in all processes together.
        processes: as in `turncredit.agents.rollouts.rollout_options.RolloutOptions`.
        deadline: seconds for each reset and step.
        problems: what kept episodes from being forked, and forks from ending, with how often it happened.
    """

    agent: Agent
    sampler: Sampler
    make: MakeEnv | EnvPool
    fresh: bool = False
    concurrency: int = 64
    processes: int = 1
    deadline: float | None = None
    problems: dict[str, int] = field(default_factory=dict)

    def play(self, jobs: Sequence[ForkJob], on_record: Callable[[ForkRecord], None]) -> None:
        """Play some forks.

        Args:
            jobs: those of one episode lie together.
            on_record: called with each fork as it ends.

        Raises:
            KeyboardInterrupt: Ctrl-C; the forks that had ended were recorded.
            AgentError: a process ended, or the sampler failed for good.
        """
        shares = _shares(jobs, self.processes)
        if not shares:
            return
        limit = -(-self.concurrency // len(shares))
        with ExitStack() as stack:
            others = [stack.enter_context(ForkedProcess(partial(self._apart, share, limit))) for share in shares[1:]]

            def receive(record: ForkRecord) -> None:
                on_record(record)
                for process in others:
                    for message in process.arrived():
                        on_record(message)

            try:
                asyncio.run(self._play(shares[0], limit, receive))
                for process in others:
                    for message in process.messages():
                        on_record(message)
                    self._note(process.result())
            except ProcessDied as error:
                raise AgentError(f"one of the {len(shares)} processes that play forks ended: {error}") from error

    def close(self) -> None:
        """Close the environments, if it was given a pool of them."""
        if isinstance(self.make, EnvPool):
            self.make.close()

    def _apart(self, share: Sequence[ForkJob], limit: int, pipe: ForkPipe) -> dict[str, int]:
        """Play a share in a fork of this process, and return its problems."""
        self.problems = {}
        asyncio.run(self._play(share, limit, pipe.send))
        return self.problems

    async def _play(self, jobs: Sequence[ForkJob], limit: int, on_record: Callable[[ForkRecord], None]) -> None:
        histories = dict(enumerate(jobs))

        def keep(spec: GroupSpec, trajectory: Trajectory) -> None:
            if not trajectory.finished:
                self._note({str(trajectory.error): 1})
                return
            history = histories[spec.number].history
            on_record(ForkRecord.of(history.key, member_number(trajectory.id), history.turn, trajectory))

        pool = self.make if isinstance(self.make, EnvPool) else EnvPool(self.make, self.deadline)
        try:
            stream = GroupStream(self.agent, self.sampler, self._specs(jobs, pool), {"concurrency": limit}, keep)
            await stream.play_members(pool)
        finally:
            if pool is not self.make:
                pool.close()

    async def _specs(self, jobs: Sequence[ForkJob], pool: EnvPool) -> AsyncIterator[GroupSpec]:
        """Yield the groups of forks, episode by episode."""
        for trajectory, numbered in _by_trajectory(enumerate(jobs)):
            snapshots = await self._retrace(trajectory, pool)
            if snapshots is None:
                continue
            for number, job in numbered:
                fork = job.history.fork(fresh=self.fresh)
                fork = replace(fork, snapshot=snapshots.find(fork))
                yield GroupSpec(trajectory.task, trajectory.seed, job.size, number, job.first, fork=fork)

    async def _retrace(self, trajectory: Trajectory, pool: EnvPool) -> Snapshots | None:
        worker = pool.take()
        try:
            return await retrace(self.agent, self.sampler, worker, trajectory)
        except EnvFailure as failure:
            self._note({str(failure): 1})
            return None
        finally:
            pool.give_back(worker)

    def _note(self, problems: dict[str, int]) -> None:
        for problem, times in problems.items():
            self.problems[problem] = self.problems.get(problem, 0) + times


def _by_trajectory(jobs: Iterable[tuple[int, ForkJob]]) -> Iterator[tuple[Trajectory, list[tuple[int, ForkJob]]]]:
    for _, numbered in groupby(jobs, key=lambda pair: pair[1].history.trajectory.id):
        members = list(numbered)
        yield members[0][1].history.trajectory, members


def _shares(jobs: Sequence[ForkJob], processes: int) -> list[list[ForkJob]]:
    """Return the jobs of each process: whole episodes, so that each is retraced once."""
    episodes = [[job for _, job in numbered] for _, numbered in _by_trajectory(enumerate(jobs))]
    shares = [[job for episode in episodes[part::processes] for job in episode] for part in range(processes)]
    return [share for share in shares if share]
