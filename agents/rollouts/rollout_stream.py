"""Rollouts as a stream: groups of episodes, each as soon as it is complete.

    async for group in stream(agent, sampler, tasks, make=make, size=8):
        ...

Every episode is a coroutine that awaits its completions and steps its environment, so only active episodes are sampled
and stepped, and none waits for the slowest. Tasks are drawn when an environment is free, so they may come without end,
and from an asynchronous iterator that decides when the next group may begin.

A failing environment ends its own episode as ``error`` (kept with its turns, and counted) and no other, and so does a
request that the sampler could not answer (`RequestFailed`). Any other exception of the *sampler* ends the stream, since
no episode could continue.

Where several environments share a process, one that ends it takes the others with it. Their episodes are begun again as
if nothing had been played. A task that ended a process, or may have, is played in a process of its own, one episode at
a time, until one ends well.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Unpack

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.rollouts.env_pool import EnvPool, EnvWorker, MakeEnv
from turncredit.agents.rollouts.episode import Episode, EpisodeSpec
from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.rollouts.group_rounds import (
    REPLACED,
    GroupRounds,
    GroupSpec,
    is_replacement,
    member_number,
    original_id,
    replacement_of,
)
from turncredit.agents.rollouts.rollout_options import RolloutOptions, RolloutReport, Teachers, with_defaults
from turncredit.agents.trajectory import Group, Trajectory, member_order
from turncredit.engines.base import Sampler, Samples
from turncredit.engines.wrappers import as_sampler
from turncredit.processes import tracing

__all__ = [
    "REPLACED",
    "GroupNumbers",
    "GroupSpec",
    "GroupStream",
    "group_of",
    "is_replacement",
    "member_number",
    "number_groups",
    "stream",
]

QUARANTINE_ERRORS = 3
"""Consecutive errors after which a task is not played again."""

MAX_LOSSES = 16
"""Maximum number of times that an episode is begun again because another one ended its process; after that it counts as
failed."""

SUSPICIOUS = 2
"""Processes that ended during a call of the same episode, after which it is played alone."""


async def stream(
    agent: Agent,
    sampler: Samples,
    tasks: Iterable[str | Fork] | AsyncIterable[str | Fork],
    *,
    make: MakeEnv | EnvPool,
    size: int = 1,
    seed: int = 0,
    **options: Unpack[RolloutOptions],
) -> AsyncIterator[Group]:
    """Yield one group for every task, in the order in which they are completed.

    The members of a group start in the same state (same task and environment seed) and differ in their sampling seed,
    which is a hash of (task, member, seed). A task that is given twice yields two groups with different sampling seeds.

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        tasks: ids of task instances, or forks; they may be without end. An asynchronous iterator is asked for the next
            one when an environment is free, and may make it wait.
        make: makes an environment; or an `EnvPool`, which keeps its environments for the next call.
        size: episodes of each task (G).
        seed: seed of the environments and, through the hash, of the sampling.
        options: see `RolloutOptions`.

    Yields:
        Groups. A group is smaller than ``size`` if its task was quarantined after three errors in a row.

    Raises:
        EngineFailed: the engine or server is gone.
        AgentError: values out of range.
    """
    groups = GroupStream(agent, as_sampler(sampler), number_groups(tasks, size, seed), options)
    async with aclosing(groups.play(make)) as complete:
        async for _, group in complete:
            yield group


async def number_groups(
    tasks: Iterable[str | Fork] | AsyncIterable[str | Fork], size: int, seed: int
) -> AsyncIterator[GroupSpec]:
    """Yield the groups of a sequence of tasks.

    Raises:
        AgentError: the size is below 1.
    """
    numbers = GroupNumbers(size, seed)
    if isinstance(tasks, AsyncIterable):
        async for task in tasks:
            yield numbers.next(task)
    else:
        for task in tasks:
            yield numbers.next(task)


class GroupNumbers:
    """Numbers groups and their members."""

    def __init__(self, size: int, seed: int) -> None:
        """Begin with group 0.

        Raises:
            AgentError: the size is below 1.
        """
        if size < 1:
            raise AgentError(f"size must be >= 1, got {size}")
        self._size, self._seed = size, seed
        self._members: Counter[str] = Counter()
        self._number = 0

    def next(self, task: str | Fork | GroupSpec) -> GroupSpec:
        """Return the next group; if its task or fork was given before, its members have other numbers.

        A fork has the environment's seed of its parent. A group that is described already keeps all but its number.
        """
        if isinstance(task, GroupSpec):
            self._number += 1
            return replace(task, number=self._number - 1)
        if isinstance(task, Fork):
            origin, parent = task.origin, task.trajectory
            first = self._members[origin]
            spec = GroupSpec(parent.task, parent.seed, self._size, self._number, first, fork=task)
        else:
            origin = task
            spec = GroupSpec(task, self._seed, self._size, self._number, self._members[task])
        self._members[origin] += self._size
        self._number += 1
        return spec


@dataclass(slots=True)
class _OpenGroup:
    """A group that is being played."""

    spec: GroupSpec
    rounds: GroupRounds
    left: int = 0
    """Episodes of the round that are not over."""
    members: dict[str, Trajectory] = field(default_factory=dict)
    """Finished episodes, by their ids."""
    replacements: int = 0

    @classmethod
    def begin(cls, spec: GroupSpec) -> _OpenGroup:
        """Return a group before its first round."""
        return cls(spec, GroupRounds(spec))

    def next_round(self) -> list[EpisodeSpec]:
        """Return what has to be played of the rounds that follow; none if the group is complete.

        Members that were played before the group was begun are taken over where their turn comes.
        """
        before = {original_id(member.id) for member in self.spec.played}
        while episodes := self.rounds.next(self.members.values()):
            asked = {episode.name for episode in episodes}
            self.members |= {member.id: member for member in self.spec.played if original_id(member.id) in asked}
            if left := [episode for episode in episodes if episode.name not in before]:
                self.left = len(left)
                return left
        return []


class _Losses:
    """Episodes that were lost with a process, and those that have to be played alone."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._suspected: Counter[str] = Counter()
        self._harmful: set[str] = set()

    def note(self, episode: Episode) -> None:
        """Learn from an episode that has ended."""
        spec = episode.spec
        if episode.ended_host:
            self._harmful.add(spec.task)
        elif episode.lost is None:
            self._harmful.discard(spec.task)
            self._times.pop(spec.name, None)
            self._suspected.pop(spec.name, None)
        else:
            self._times[spec.name] += 1
            self._suspected[spec.name] += episode.lost.suspect

    def may_begin_again(self, episode: Episode) -> bool:
        """Return whether an episode was lost, and not too often."""
        return episode.lost is not None and self._times[episode.spec.name] <= MAX_LOSSES

    def needs_own_process(self, spec: EpisodeSpec) -> bool:
        """Return whether an episode may end the process in which it is played."""
        return spec.task in self._harmful or self._suspected[spec.name] >= SUSPICIOUS


class GroupStream:
    """Plays groups: episodes that wait, groups in play, and tasks that fail.

    Args:
        agent: prompts, parser, limits.
        sampler: the model.
        groups: what to play; asked for the next group when an environment is free and no episode waits.
        options: options of the rollout.
        on_member: called with every trajectory as it finishes, and with its group.
    """

    def __init__(
        self,
        agent: Agent,
        sampler: Sampler,
        groups: AsyncIterator[GroupSpec],
        options: RolloutOptions,
        on_member: Callable[[GroupSpec, Trajectory], None] = lambda _, __: None,
    ) -> None:
        self.agent, self.sampler, self.options = agent, sampler, with_defaults(options)
        self.report = self.options["report"] or RolloutReport()
        self._groups, self._on_member = groups, on_member
        self._open: dict[int, _OpenGroup] = {}
        self._waiting: deque[EpisodeSpec] = deque()
        self._harmful: deque[EpisodeSpec] = deque()  # wait as well, to be played alone
        self._alone = False  # whether one of these is in play
        self._losses = _Losses()
        self._workers = 0
        self._failed_in_a_row: Counter[str] = Counter()
        self._drawing = asyncio.Lock()
        self._complete: asyncio.Queue[_OpenGroup | None] = asyncio.Queue()
        self.playing = 0
        """Number of episodes in play."""
        self._parent = tracing.current()  # also of episodes that other iterations ask for

    async def play(self, make: MakeEnv | EnvPool) -> AsyncGenerator[tuple[GroupSpec, Group]]:
        """Yield every group when it is complete; a stream is played once."""
        async with aclosing(self._play(make)) as complete:
            async for group in complete:
                yield group.spec, group_of(group.spec, group.members.values())

    async def play_members(self, make: MakeEnv | EnvPool) -> None:
        """Play all groups for a caller that receives their members through `on_member`, and makes the groups of them.

        An interruption, or another process that plays a part of the groups, leaves it with incomplete ones.
        """
        async with aclosing(self._play(make)) as complete:
            async for _ in complete:
                pass

    async def _play(self, make: MakeEnv | EnvPool) -> AsyncGenerator[_OpenGroup]:
        deadline = self.options["deadline"]
        if isinstance(make, EnvPool) and deadline is not None:
            raise AgentError("an EnvPool has its own deadline; set it there and not in the rollout")
        pool = make if isinstance(make, EnvPool) else EnvPool(make, deadline)
        start = time.perf_counter()
        self._workers = min(self.options["concurrency"], pool.capacity)
        workers = [asyncio.create_task(self._work(pool)) for _ in range(self._workers)]
        everything = asyncio.gather(*workers)
        # The end of the queue also when a worker fails: the loop below ends, and `await everything` raises its error.
        everything.add_done_callback(lambda _: self._complete.put_nowait(None))
        try:
            while (group := await self._complete.get()) is not None:
                del self._open[group.spec.number]
                yield group
            await everything
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            if everything.done() and not everything.cancelled():
                everything.exception()  # it was raised above, or the stream was closed early
            self.report.seconds += time.perf_counter() - start
            if pool is not make:
                pool.close()

    def end_quarantine(self) -> None:
        """Play tasks again that were given up after errors."""
        self._failed_in_a_row.clear()

    async def _work(self, pool: EnvPool) -> None:
        """Play one episode after another in one environment."""
        spec = await self._next()
        if spec is None:
            self._workers -= 1
            return
        worker = pool.take()
        try:
            while spec is not None:
                # The suspect gets a process of its own before it takes the others of this one along once more.
                if self._losses.needs_own_process(spec):
                    await self._play_alone(pool, spec)
                else:
                    await self._play_in(worker, pool, spec)
                # The capacity falls when a process dies under its load. A worker then leaves, unless nobody else
                # plays: those that do take what waits.
                if self._workers > pool.capacity and self.playing:
                    worker.close()
                    break
                await asyncio.sleep(0)  # lets Ctrl-C through even if the sampler never waits
                spec = await self._next()
            self._workers -= 1
        except BaseException:
            worker.close()  # it may be in the middle of a call
            raise
        finally:
            pool.give_back(worker)

    async def _play_in(self, worker: EnvWorker, pool: EnvPool, spec: EpisodeSpec) -> None:
        """Play an episode in the environment of a worker."""
        agent, sampler = self._player(spec)
        episode = Episode(agent, sampler, worker, spec, self.options["snapshots"])
        failures, seconds = worker.failures, worker.seconds
        self.playing += 1
        try:
            trajectory = await episode.play(self._parent)
            if spec.teacher:
                trajectory = self._teachers(spec).told(trajectory, self.agent, self.sampler)
        finally:
            self.playing -= 1
            self.report.restarts += worker.failures - failures
            self.report.environment_seconds += worker.seconds - seconds
            self.report.replaced += pool.take_replaced()
        self._finish(episode, trajectory)

    def _player(self, spec: EpisodeSpec) -> tuple[Agent, Sampler]:
        """Return who plays an episode: the policy, or a teacher."""
        return self._teachers(spec).player(spec.teacher) if spec.teacher else (self.agent, self.sampler)

    def _teachers(self, spec: EpisodeSpec) -> Teachers:
        """Return the teachers.

        Raises:
            AgentError: there are none.
        """
        teachers = self.options["teachers"]
        if teachers is None:
            raise AgentError(f"an episode is to be played by {spec.teacher}, and the rollout has no teachers")
        return teachers

    async def _play_alone(self, pool: EnvPool, spec: EpisodeSpec) -> None:
        """Play an episode in a process that nothing else shares."""
        worker, self._alone = pool.take_alone(), True
        try:
            await self._play_in(worker, pool, spec)
        finally:
            self._alone = False
            worker.close()

    async def _next(self) -> EpisodeSpec | None:
        """Return the next episode, of the next group if none waits; None if there is none."""
        while True:
            while (spec := self._waiting_one()) is not None:
                if self._failed_in_a_row[spec.task] < QUARANTINE_ERRORS:
                    return spec
                self.report.skipped += 1
                self._settle(self._open[spec.position[0]])
            # One worker at a time draws: an asynchronous generator cannot be asked twice at once, and a group has
            # several members. Those that waited for the lock look first whether it left some for them.
            async with self._drawing:
                if self._waiting or (self._harmful and not self._alone):
                    continue
                group = await anext(self._groups, None)
                if group is None:
                    return None
                self._begin(group)

    def _waiting_one(self) -> EpisodeSpec | None:
        """Return an episode that waits; of those that have to be played alone, one at a time."""
        if self._harmful and not self._alone:
            return self._harmful.popleft()
        while self._waiting:
            spec = self._waiting.popleft()
            if not self._alone or not self._losses.needs_own_process(spec):
                return spec
            self._harmful.append(spec)
        return None

    def _begin(self, spec: GroupSpec) -> None:
        """Let the episodes of a group wait for environments."""
        self._open[spec.number] = group = _OpenGroup.begin(spec)
        self._go_on(group)

    def _go_on(self, group: _OpenGroup) -> None:
        """Let the next round of a group wait for environments; without one, the group is complete."""
        episodes = group.next_round()
        self._waiting.extend(episodes)
        if not episodes:
            self._complete.put_nowait(group)

    def _finish(self, episode: Episode, trajectory: Trajectory) -> None:
        """Keep a finished episode; replace it if its environment failed and the group may still be repaired."""
        spec = episode.spec
        group = self._open[spec.position[0]]
        self._losses.note(episode)
        if self._losses.may_begin_again(episode):
            # Nothing of it is told or counted, as if it had not been played: its neighbours' fault must leave no trace
            # in groups and statistics. It goes first, so that open groups complete before new ones begin.
            self.report.lost += 1
            self._waiting.appendleft(spec)
            return
        group.members[trajectory.id] = trajectory
        self.report.count(trajectory)
        if trajectory.stop != "error":
            self._failed_in_a_row[spec.task] = 0
        elif episode.env_failed and episode.lost is None:
            self._failed_in_a_row[spec.task] += 1
            if self._failed_in_a_row[spec.task] == QUARANTINE_ERRORS:
                self.report.quarantined.append(spec.task)
        on_finish = self.options["on_finish"]
        if on_finish is not None:
            on_finish(trajectory)
        self._on_member(group.spec, trajectory)
        # A request that failed is not repaired: another episode would ask the same engine. A task in quarantine is not
        # either, or a group would be repaired for ever.
        failed = trajectory.stop == "error" and episode.env_failed
        if (
            failed
            and group.replacements < self.options["replacements"]
            and self._failed_in_a_row[spec.task] < QUARANTINE_ERRORS
        ):
            group.replacements += 1
            self.report.repaired += 1
            self._waiting.appendleft(replacement_of(spec))
        else:
            self._settle(group)

    def _settle(self, group: _OpenGroup) -> None:
        """Count an episode that is over or not played; with the last of a round, the group grows or is complete."""
        group.left -= 1
        if not group.left:
            self._go_on(group)


def group_of(spec: GroupSpec, members: Iterable[Trajectory]) -> Group:
    """Return the group of its finished members, complete or not, in the order of their numbers."""
    return Group(spec.task, tuple(sorted(members, key=member_order)))
