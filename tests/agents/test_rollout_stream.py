"""Streams of groups: when a group may begin and when it is complete, replacements, and what was played before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import count, islice
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.corridor import Corridor

from turncredit.agents import stream
from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, RequestFailed
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.rollouts.rollout_stream import REPLACED, GroupSpec, GroupStream
from turncredit.agents.trajectory import Group
from turncredit.engines.base import Completion, Request
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import Random


def collected(tasks: Any, sampler: Any = None, **options: Any) -> list[Group]:
    async def collect() -> list[Group]:
        made = options.pop("make", Corridor)
        return [group async for group in stream(Agent(), sampler or Random(), tasks, make=made, **options)]

    return asyncio.run(collect())


def ids(groups: list[Group]) -> list[list[str]]:
    return [[one.id for one in group.trajectories] for group in groups]


@settings(max_examples=30)
@given(
    tasks=st.lists(st.sampled_from(Corridor().task_ids()), max_size=6),
    size=st.integers(1, 4),
    concurrency=st.integers(1, 9),
    seed=st.integers(0, 3),
)
def test_a_stream_has_the_groups_of_a_rollout(tasks: list[str], size: int, concurrency: int, seed: int) -> None:
    options: dict[str, Any] = {"size": size, "concurrency": concurrency, "seed": seed}
    played = rollout(Agent(), Random(), tasks, make=Corridor, **options)
    streamed = collected(tasks, **options)
    assert sorted(ids(streamed)) == sorted(ids(played))
    turns = {one.id: one.turns for group in played for one in group.trajectories}
    assert all(one.turns == turns[one.id] for group in streamed for one in group.trajectories)


class Held(Expert):
    """An expert that answers in one task only after a task of another kind is over."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()

    async def sample(self, request: Request) -> Completion:
        if request.episode.startswith("open-5"):
            await self.over.wait()
        return await super().sample(request)

    def forget(self, episode: str) -> None:
        super().forget(episode)
        if episode.startswith("open-3"):
            self.over.set()


def test_groups_come_as_they_are_complete_and_a_rollout_orders_them() -> None:
    tasks = ["open-5-1", "open-3-1"]
    assert [group.task for group in collected(tasks, Held(), size=2)] == ["open-3-1", "open-5-1"]
    assert [group.task for group in rollout(Agent(), Held(), tasks, make=Corridor, size=2)] == tasks


def test_tasks_may_be_without_end() -> None:
    async def first(number: int) -> list[Group]:
        endless = (f"open-3-{1 + k % 2}" for k in count())
        async with aclosing(stream(Agent(), Random(), endless, make=Corridor, size=2, concurrency=3)) as groups:
            return [await anext(groups) for _ in range(number)]

    groups = asyncio.run(first(7))
    assert all(len(group.trajectories) == 2 for group in groups)
    assert len({name for names in ids(groups) for name in names}) == 14  # a repeated task has other members


def test_a_group_begins_when_its_source_lets_it() -> None:
    """A source that allows one group beyond those that were taken; nothing is played before."""
    begun: list[int] = []
    taken = 0
    room = asyncio.Condition()

    async def source() -> AsyncIterator[str]:
        for number in range(6):
            async with room:
                await room.wait_for(lambda number=number: number <= taken)  # type: ignore[misc]
            begun.append(number)
            yield "open-3-1"

    async def run() -> None:
        nonlocal taken
        groups = stream(Agent(), Random(), source(), make=Corridor, size=3, concurrency=8)
        async for _ in groups:
            for _ in range(50):  # whatever may begin, begins
                await asyncio.sleep(0)
            assert len(begun) == taken + 1
            async with room:
                taken += 1
                room.notify_all()

    asyncio.run(run())
    assert begun == list(range(6))


class Flaky(Corridor):
    """A corridor whose environment fails at the first step of its first episodes."""

    failures = 0

    def step(self, action: str) -> Any:
        if type(self).failures:
            type(self).failures -= 1
            raise RuntimeError("lost")
        return super().step(action)


@pytest.mark.parametrize(
    ("failures", "replacements", "replaced"), [(1, 1, 1), (2, 1, 1), (2, 2, 2), (1, 0, 0), (0, 2, 0)]
)
def test_a_group_that_lost_a_member_is_repaired_up_to_a_limit(failures: int, replacements: int, replaced: int) -> None:
    Flaky.failures = failures
    report = RolloutReport()
    (group,) = rollout(
        Agent(), Expert(), ["open-3-1"], make=Flaky, size=3, concurrency=1, replacements=replacements, report=report
    )
    assert len(group.trajectories) == 3 + replaced
    assert len(group.finished) == 3 - failures + replaced
    assert (report.repaired, report.errors, report.episodes) == (replaced, failures, 3 + replaced)
    names = [one.id for one in group.trajectories]
    assert len(set(names)) == len(names)
    assert sum(f"#{REPLACED}" in name or f"#{2 * REPLACED}" in name for name in names) == replaced


def test_a_request_that_failed_is_not_repaired() -> None:
    """Another episode would ask the same engine."""

    class Fails(Random):
        async def sample(self, request: Request) -> Completion:
            raise RequestFailed("refused")

    (group,) = rollout(Agent(), Fails(), ["open-3-1"], make=Corridor, size=2, replacements=5)
    assert len(group.trajectories) == 2


def test_a_task_in_quarantine_is_not_repaired_for_ever() -> None:
    Flaky.failures = 10**9
    report = RolloutReport()
    (group,) = rollout(Agent(), Expert(), ["open-3-1"], make=Flaky, size=2, replacements=100, report=report)
    assert group.finished == ()
    assert report.quarantined == ["open-3-1"]
    assert report.episodes < 10


@given(played=st.sets(st.integers(0, 3)))
def test_members_that_were_played_before_are_kept_and_not_played_again(played: set[int]) -> None:
    (whole,) = rollout(Agent(), Random(), ["open-4-1"], make=Corridor, size=4, seed=2)
    kept = tuple(one for number, one in enumerate(whole.trajectories) if number in played)
    finished: list[str] = []

    async def run() -> list[Group]:
        async def source() -> AsyncIterator[GroupSpec]:
            yield GroupSpec("open-4-1", 2, 4, played=kept)

        groups = GroupStream(Agent(), Random(), source(), {"on_finish": lambda one: finished.append(one.id)})
        return [group async for _, group in groups.play(Corridor)]

    (group,) = asyncio.run(run())
    assert [(one.id, one.turns) for one in group.trajectories] == [(one.id, one.turns) for one in whole.trajectories]
    assert sorted(finished) == [f"open-4-1#{k}@2" for k in range(4) if k not in played]


def test_a_stream_that_is_closed_early_closes_its_environments() -> None:
    made: list[gymnasium.Env[Any, Any]] = []

    class Closes(Corridor):
        closed = False

        def close(self) -> None:
            self.closed = True

    def make() -> Closes:
        made.append(Closes())
        return made[-1]  # type: ignore[return-value]

    async def run() -> None:
        async with aclosing(stream(Agent(), Random(), (f"open-3-{1 + k % 2}" for k in count()), make=make)) as groups:
            await anext(groups)

    asyncio.run(run())
    assert made
    assert all(env.closed for env in made)  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{"size": 0}, {"concurrency": 0}, {"replacements": -1}])
def test_numbers_out_of_range_are_named(options: dict[str, int]) -> None:
    (name,) = options
    with pytest.raises(AgentError, match=f"{name} must be >= "):
        collected(islice(count(), 0), **options)
