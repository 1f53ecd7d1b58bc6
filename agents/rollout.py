"""Episodes: an agent, a sampler and environments played until the end, many at once.

Every episode is a coroutine of its own: it awaits its completion and steps its environment, so only live episodes are
sampled and stepped, and nobody waits for the slowest. What an environment does wrong ends its own episode as ``error``
(kept with its turns, counted), never those of its siblings; what the *sampler* raises ends the rollout, since no
episode could go on.

Repeated with the same seed, inline environments and a deterministic sampler, a rollout gives the same trajectories bit
for bit (but for ``seconds``). Left out on purpose: sharing work among machines.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from turnwise.agents.agent import Agent
from turnwise.agents.env_pool import EnvPool, Make
from turnwise.agents.episode import Episode, Job, play, sampling_seed
from turnwise.agents.errors import AgentError, Interrupted
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.trajectory import Group, Trajectory

__all__ = ["Options", "RolloutReport", "arollout", "play", "rollout", "sampling_seed"]

QUARANTINE = 3
"""Errors in a row after which a task is not played again."""


@dataclass(slots=True)
class RolloutReport:
    """What happened in a rollout, in numbers."""

    episodes: int = 0
    turns: int = 0
    unparsable: int = 0
    inadmissible: int = 0
    errors: int = 0
    restarts: int = 0
    """Environments that were closed after a failure, to be made anew."""
    skipped: int = 0
    """Episodes that were not played because their task was in quarantine."""
    prompt_tokens: int = 0
    response_tokens: int = 0
    seconds: float = 0.0
    quarantined: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Message of every failure -> how often."""

    def count(self, trajectory: Trajectory) -> None:
        """Add a finished episode."""
        self.episodes += 1
        self.turns += len(trajectory.turns)
        self.unparsable += trajectory.unparsable
        self.inadmissible += trajectory.inadmissible
        self.prompt_tokens += sum(len(turn.prompt) for turn in trajectory.turns)
        self.response_tokens += sum(len(turn.response) for turn in trajectory.turns)
        if trajectory.stop == "error":
            self.errors += 1
            self.reasons[str(trajectory.error)] += 1

    def sentence(self) -> str:
        """Return the report in one line, with the most frequent failure."""
        text = f"{self.episodes} episodes, {self.turns} turns in {self.seconds:.1f} s"
        if self.errors:
            reason, times = self.reasons.most_common(1)[0]
            text += f"; {self.errors} errors ({times} times: {reason}), {self.restarts} environments restarted"
        if self.quarantined:
            text += f"; in quarantine: {', '.join(self.quarantined)} ({self.skipped} episodes not played)"
        return text


class Options(TypedDict, total=False):
    """What a rollout may be told beside what it plays."""

    concurrency: int
    """Most environments alive, and so most episodes at once; 64 when not given."""
    deadline: float | None
    """Seconds for each reset and step; environments then run on threads. None (the default): inline, no limit."""
    on_finish: Callable[[Trajectory], None] | None
    """Called with every trajectory as it finishes: to store it, to show progress."""
    report: RolloutReport | None
    """Filled with counts."""


def rollout(
    agent: Agent,
    sampler: Sampler,
    tasks: Sequence[str],
    *,
    make: Make | EnvPool,
    size: int = 1,
    seed: int = 0,
    **options: Unpack[Options],
) -> list[Group]:
    """Return one group for every task, in the order of the tasks.

    The members of a group start in the same state (same task, same seed of the environment) and differ in their
    sampling seed, which is a hash of (task, member, seed). A task that comes twice makes two groups with different
    sampling seeds.

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        tasks: ids of task instances.
        make: makes an environment; or a `EnvPool`, which keeps its environments for the next call.
        size: episodes of each task (G).
        seed: of the environments and, by hash, of the sampling.
        options: `Options`: concurrency, deadline, on_finish, report.

    Returns:
        The groups. One is smaller than ``size`` where its task was put into quarantine (three errors in a row).

    Raises:
        Interrupted: Ctrl-C; it carries the groups with what was finished.
        AgentError: called inside a running event loop, or with values out of range.

    """
    _outside_of_a_loop()
    state = _Rollout(agent, sampler, tasks, size, seed, _Settings(**options))
    try:
        asyncio.run(state.run(make))
    except KeyboardInterrupt:
        raise Interrupted(state.groups()) from None
    return state.groups()


async def arollout(
    agent: Agent,
    sampler: Sampler,
    tasks: Sequence[str],
    *,
    make: Make | EnvPool,
    size: int = 1,
    seed: int = 0,
    **options: Unpack[Options],
) -> list[Group]:
    """Return what `rollout` returns, for callers that already run an event loop; the arguments are the same.

    When it is cancelled, every trajectory that was finished has been given to ``on_finish``.
    """
    state = _Rollout(agent, sampler, tasks, size, seed, _Settings(**options))
    await state.run(make)
    return state.groups()


def _outside_of_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AgentError("rollout() was called inside a running event loop; use `await arollout(...)` there")


@dataclass(frozen=True, slots=True)
class _Settings:
    """The options with their defaults."""

    concurrency: int = 64
    deadline: float | None = None
    on_finish: Callable[[Trajectory], None] | None = None
    report: RolloutReport | None = None


class _Rollout:
    """The state of one rollout: what is to be played, what was played, and which tasks failed."""

    def __init__(
        self,
        agent: Agent,
        sampler: Sampler,
        tasks: Sequence[str],
        size: int,
        seed: int,
        settings: _Settings,
    ) -> None:
        if size < 1:
            raise AgentError(f"size is {size}: 1 or more episodes of each task were wanted")
        self.agent, self.sampler, self.tasks = agent, sampler, list(tasks)
        self.settings, self.report = settings, settings.report or RolloutReport()
        self.done: list[dict[int, Trajectory]] = [{} for _ in self.tasks]
        self.failed_in_a_row: Counter[str] = Counter()
        self.jobs: deque[Job] = deque()
        members: Counter[str] = Counter()
        for index, task in enumerate(self.tasks):
            for member in range(size):
                name = f"{task}#{members[task]}@{seed}"
                members[task] += 1
                self.jobs.append(Job(task, seed, name, sampling_seed(name), (index, member)))

    async def run(self, make: Make | EnvPool) -> None:
        """Play all jobs with at most ``concurrency`` environments."""
        concurrency, deadline = self.settings.concurrency, self.settings.deadline
        if concurrency < 1:
            raise AgentError(f"concurrency is {concurrency}: 1 or more environments were wanted")
        if isinstance(make, EnvPool) and deadline is not None:
            raise AgentError("a EnvPool has its own deadline: give it to the EnvPool, not to the rollout")
        pool = make if isinstance(make, EnvPool) else EnvPool(make, deadline)
        start = time.perf_counter()
        workers = [asyncio.create_task(self._work(pool)) for _ in range(min(concurrency, len(self.jobs)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.report.seconds += time.perf_counter() - start
            if pool is not make:
                pool.close()

    def groups(self) -> list[Group]:
        """Return what is finished, in the order of the tasks and of the members."""
        return [
            Group(task, tuple(found[member] for member in sorted(found)))
            for task, found in zip(self.tasks, self.done, strict=True)
        ]

    async def _work(self, pool: EnvPool) -> None:
        worker = pool.take()
        before = worker.failures
        try:
            while self.jobs:
                job = self.jobs.popleft()
                if self.failed_in_a_row[job.task] >= QUARANTINE:
                    self.report.skipped += 1
                    continue
                self._finish(job, await Episode(self.agent, self.sampler, worker, job).play())
                await asyncio.sleep(0)  # a sampler that never waits must not shut out Ctrl-C
        except BaseException:
            worker.close()  # it may be in the middle of a call
            raise
        finally:
            self.report.restarts += worker.failures - before
            pool.give_back(worker)

    def _finish(self, job: Job, trajectory: Trajectory) -> None:
        index, member = job.place
        self.done[index][member] = trajectory
        self.report.count(trajectory)
        if trajectory.stop != "error":
            self.failed_in_a_row[job.task] = 0
        else:
            self.failed_in_a_row[job.task] += 1
            if self.failed_in_a_row[job.task] == QUARANTINE:
                self.report.quarantined.append(job.task)
        if self.settings.on_finish is not None:
            self.settings.on_finish(trajectory)
