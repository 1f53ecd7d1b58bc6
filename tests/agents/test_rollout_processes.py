"""Rollouts in several processes: the same groups and counts as in one, and what happens when a process ends."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EngineFailed, Interrupted
from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import RolloutReport, arollout, rollout
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.base import Completion, Request
from turncredit.engines.scripted import Random

TASKS = ["open-3-1", "open-4-2", "open-5-0", "open-3-1", "open-4-0"]  # one of them twice
PARENT = os.getpid()


def timeless(groups: list[Group]) -> list[Group]:
    return [
        Group(group.task, tuple(dataclasses.replace(found, seconds=0.0) for found in group.trajectories))
        for group in groups
    ]


class Ends(Random):
    """A random player that ends one of the processes, or fails in it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    async def sample(self, request: Request) -> Completion:
        if os.getpid() != PARENT and request.turn == 2:
            if self.how == "fails":
                raise EngineFailed("the engine is gone")
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().sample(request)


class Notes(Random):
    """A random player that notes which turns it answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: set[tuple[str, int]] = set()

    async def sample(self, request: Request) -> Completion:
        self.answered.add((request.episode, request.turn))
        return await super().sample(request)

    def notes(self) -> set[tuple[str, int]]:
        return self.answered

    def add_notes(self, notes: set[tuple[str, int]]) -> None:
        self.answered |= notes


@pytest.mark.parametrize("processes", [2, 3, 9])
def test_groups_and_counts_are_those_of_one_process(processes: int, tmp_path: Path) -> None:
    reports = RolloutReport(), RolloutReport()
    alone = rollout(Agent(), Random(), TASKS, make=Corridor, size=3, report=reports[0])
    with TrajectoryWriter(tmp_path / "t.jsonl") as writer, EnvPool(Corridor) as pool:
        for _ in range(2):  # the pool's environments are still there
            together = rollout(
                Agent(), Random(), TASKS, make=pool, size=3, processes=processes, on_finish=writer.write,
                report=reports[1],
            )  # fmt: skip
    assert timeless(together) == timeless(alone)
    stored = [found.id for found in read_trajectories(tmp_path / "t.jsonl")]
    assert sorted(stored) == sorted(2 * [found.id for group in alone for found in group.trajectories])
    one, two = (dataclasses.asdict(report) for report in reports)
    assert {key: 2 * value for key, value in one.items() if type(value) is int} == {
        key: value for key, value in two.items() if type(value) is int
    }


def test_the_sampler_keeps_the_notes_of_all_processes() -> None:
    sampler = Notes()
    groups = rollout(Agent(), sampler, TASKS, make=Corridor, size=2, processes=2)
    played = [found for group in groups for found in group.trajectories]
    assert sampler.answered == {(found.id, turn) for found in played for turn in range(len(found.turns))}


class NotesAtOnce(Notes):
    """Tells at once what it noted about an episode, and the rest never."""

    def notes(self) -> None:
        return None

    def notes_of(self, episode: str) -> set[tuple[str, int]]:
        return {note for note in self.answered if note[0] == episode}

    def add_notes(self, notes: set[tuple[str, int]] | None) -> None:
        self.answered |= notes or set()


def test_notes_about_an_episode_are_there_when_it_is_told() -> None:
    sampler, told = NotesAtOnce(), []

    def finish(trajectory: Trajectory) -> None:
        told.append(trajectory.id)
        assert {(trajectory.id, turn) for turn in range(len(trajectory.turns))} <= sampler.answered

    rollout(Agent(), sampler, TASKS, make=Corridor, size=2, processes=2, on_finish=finish)
    assert len(told) == 2 * len(TASKS)


def test_a_process_that_is_killed_ends_the_rollout_with_a_sentence() -> None:
    with pytest.raises(AgentError, match="one of the 2 processes of a rollout ended: killed by SIGKILL"):
        rollout(Agent(), Ends("killed"), TASKS, make=Corridor, size=2, processes=2)


def test_an_engine_that_fails_in_one_process_fails_as_a_whole() -> None:
    with pytest.raises(EngineFailed, match="the engine is gone") as caught:
        rollout(Agent(), Ends("fails"), TASKS, make=Corridor, size=2, processes=2)
    assert caught.value.groups is not None
    assert len(caught.value.groups) == len(TASKS)
    assert len(caught.value.groups[0].trajectories) == 2  # played in this process


def test_ctrl_c_keeps_what_was_finished_in_all_processes() -> None:
    found: list[Trajectory] = []

    def finish(trajectory: Trajectory) -> None:
        found.append(trajectory)
        if len(found) == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        rollout(Agent(), Random(), ["open-3-1"] * 3000, make=Corridor, concurrency=2, processes=2, on_finish=finish)
    kept = [one for group in caught.value.groups for one in group.trajectories]
    assert 20 <= len(kept) < 3000
    assert sorted(one.id for one in kept) == sorted(one.id for one in found)


def test_a_running_event_loop_cannot_be_forked() -> None:
    async def inside() -> Any:
        return await arollout(Agent(), Random(), TASKS, make=Corridor, processes=2)

    with pytest.raises(AgentError, match="several processes need rollout"):
        asyncio.run(inside())
