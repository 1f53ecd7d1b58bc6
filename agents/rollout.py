"""Rollouts: many episodes of an agent and a sampler at once.

Every episode is a coroutine that awaits its completions and steps its environment, so only active episodes are sampled
and stepped, and none waits for the slowest. A failing environment ends its own episode as ``error`` (kept with its
turns, and counted) and no other, and so does a request that the sampler could not answer (`RequestFailed`). Any other
exception of the *sampler* ends the rollout, since no episode could continue; `EngineFailed` carries what was finished.

With the same seed, no deadline and a deterministic sampler, a rollout gives the same trajectories bit for bit, except
for ``seconds``.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from turnwise.agents.agent import Agent
from turnwise.agents.env_pool import EnvPool, MakeEnv
from turnwise.agents.episode import Episode, EpisodeSpec, play, sampling_seed
from turnwise.agents.errors import AgentError, EngineFailed, Interrupted
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.trajectory import Group, Trajectory

__all__ = ["RolloutOptions", "RolloutReport", "arollout", "play", "rollout", "sampling_seed"]

QUARANTINE_ERRORS = 3
"""Consecutive errors after which a task is not played again."""


@dataclass(slots=True)
class RolloutReport:
    """Counts of a rollout."""

    episodes: int = 0
    turns: int = 0
    unparsable: int = 0
    inadmissible: int = 0
    errors: int = 0
    restarts: int = 0
    """Environments that were closed after a failure."""
    replaced: int = 0
    """Processes of environments that died, or were replaced after a failure or because they had grown."""
    skipped: int = 0
    """Episodes that were not played because their task was in quarantine."""
    prompt_tokens: int = 0
    response_tokens: int = 0
    """Tokens as sampled, or as a server counted them."""
    seconds: float = 0.0
    quarantined: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """How often each failure message occurred."""

    def count(self, trajectory: Trajectory) -> None:
        """Add a finished episode."""
        self.episodes += 1
        self.turns += len(trajectory.turns)
        self.unparsable += trajectory.unparsable
        self.inadmissible += trajectory.inadmissible
        self.prompt_tokens += trajectory.prompt_tokens
        self.response_tokens += trajectory.response_tokens
        if trajectory.stop == "error":
            self.errors += 1
            self.reasons[str(trajectory.error)] += 1

    def sentence(self) -> str:
        """Return the report in one line, with the most frequent failure."""
        text = f"{self.episodes} episodes, {self.turns} turns in {self.seconds:.1f} s"
        if self.errors:
            reason, times = self.reasons.most_common(1)[0]
            text += f"; {self.errors} errors ({times} x {reason}), {self.restarts} environments restarted"
        if self.replaced:
            text += f"; {self.replaced} processes of environments replaced"
        if self.quarantined:
            text += f"; in quarantine: {', '.join(self.quarantined)} ({self.skipped} episodes not played)"
        return text


class RolloutOptions(TypedDict, total=False):
    """Options of a rollout."""

    concurrency: int
    """Most environments, and so most episodes, at once; 64 by default."""
    deadline: float | None
    """Seconds for each reset and step; environments then run on threads. None (the default): no limit, no threads."""
    on_finish: Callable[[Trajectory], None] | None
    """Called with every trajectory as it finishes, for example to store it."""
    report: RolloutReport | None
    """Receives the counts."""


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

    The members of a group start in the same state (same task and environment seed) and differ in their sampling seed,
    which is a hash of (task, member, seed). A task that is given twice yields two groups with different sampling seeds.

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        tasks: ids of task instances.
        make: makes an environment; or an `EnvPool`, which keeps its environments for the next call.
        size: episodes of each task (G).
        seed: of the environments and, through the hash, of the sampling.
        options: see `RolloutOptions`.

    Returns:
        The groups. A group is smaller than ``size`` if its task was quarantined after three errors in a row.

    Raises:
        Interrupted: Ctrl-C; it carries the groups with the finished episodes.
        EngineFailed: the engine or server is gone; it carries the groups with the finished episodes.
        AgentError: called inside a running event loop, or with values out of range.
    """
    _refuse_running_loop()
    state = _Rollout(agent, sampler, tasks, size, seed, _RolloutSettings(**options))
    try:
        asyncio.run(state.run(make))
    except KeyboardInterrupt:
        raise Interrupted(state.groups()) from None
    except EngineFailed as failure:
        failure.groups = state.groups()
        raise
    return state.groups()


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
    state = _Rollout(agent, sampler, tasks, size, seed, _RolloutSettings(**options))
    await state.run(make)
    return state.groups()


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AgentError("rollout() was called inside a running event loop; use `await arollout(...)` there")


@dataclass(frozen=True, slots=True)
class _RolloutSettings:
    """The options with their defaults."""

    concurrency: int = 64
    deadline: float | None = None
    on_finish: Callable[[Trajectory], None] | None = None
    report: RolloutReport | None = None


class _Rollout:
    """The state of one rollout: episodes to play, finished trajectories, and tasks that fail."""

    def __init__(
        self,
        agent: Agent,
        sampler: Sampler,
        tasks: Sequence[str],
        size: int,
        seed: int,
        settings: _RolloutSettings,
    ) -> None:
        if size < 1:
            raise AgentError(f"size must be >= 1, got {size}")
        self.agent, self.sampler, self.tasks = agent, sampler, list(tasks)
        self.settings, self.report = settings, settings.report or RolloutReport()
        self.done: list[dict[int, Trajectory]] = [{} for _ in self.tasks]
        self.failed_in_a_row: Counter[str] = Counter()
        self.queue: deque[EpisodeSpec] = deque()
        members: Counter[str] = Counter()
        for index, task in enumerate(self.tasks):
            for member in range(size):
                name = f"{task}#{members[task]}@{seed}"
                members[task] += 1
                self.queue.append(EpisodeSpec(task, seed, name, sampling_seed(name), (index, member)))

    async def run(self, make: MakeEnv | EnvPool) -> None:
        """Play all episodes with at most ``concurrency`` environments."""
        concurrency, deadline = self.settings.concurrency, self.settings.deadline
        if concurrency < 1:
            raise AgentError(f"concurrency must be >= 1, got {concurrency}")
        if isinstance(make, EnvPool) and deadline is not None:
            raise AgentError("an EnvPool has its own deadline; set it there and not in the rollout")
        pool = make if isinstance(make, EnvPool) else EnvPool(make, deadline)
        start = time.perf_counter()
        replaced = pool.replaced
        workers = [asyncio.create_task(self._work(pool)) for _ in range(min(concurrency, len(self.queue)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.report.seconds += time.perf_counter() - start
            self.report.replaced += pool.replaced - replaced
            if pool is not make:
                pool.close()

    def groups(self) -> list[Group]:
        """Return the finished trajectories in the order of tasks and members."""
        return [
            Group(task, tuple(found[member] for member in sorted(found)))
            for task, found in zip(self.tasks, self.done, strict=True)
        ]

    async def _work(self, pool: EnvPool) -> None:
        worker = pool.take()
        before = worker.failures
        try:
            while self.queue:
                spec = self.queue.popleft()
                if self.failed_in_a_row[spec.task] >= QUARANTINE_ERRORS:
                    self.report.skipped += 1
                    continue
                episode = Episode(self.agent, self.sampler, worker, spec)
                self._finish(spec, await episode.play(), episode.env_failed)
                await asyncio.sleep(0)  # lets Ctrl-C through even if the sampler never waits
        except BaseException:
            worker.close()  # it may be in the middle of a call
            raise
        finally:
            self.report.restarts += worker.failures - before
            pool.give_back(worker)

    def _finish(self, spec: EpisodeSpec, trajectory: Trajectory, env_failed: bool) -> None:
        index, member = spec.position
        self.done[index][member] = trajectory
        self.report.count(trajectory)
        if trajectory.stop != "error":
            self.failed_in_a_row[spec.task] = 0
        elif env_failed:
            self.failed_in_a_row[spec.task] += 1
            if self.failed_in_a_row[spec.task] == QUARANTINE_ERRORS:
                self.report.quarantined.append(spec.task)
        if self.settings.on_finish is not None:
            self.settings.on_finish(trajectory)
