"""Screens of a report: drawn again by replaying the episode, and only where the replay shows the stored texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys.commands import one_sentence
from toys.report_runs import write_run

from turnwise.agents.agent import Agent
from turnwise.agents.files.trajectory_files import TrajectoryWriter
from turnwise.agents.rollouts.rollout import rollout
from turnwise.agents.samplers import Expert
from turnwise.agents.trajectory import Trajectory
from turnwise.envs import make
from turnwise.report.run_report.report_data import open_report

TOML = 'name = "phone"\n[env]\nid = "turnwise/Android-v0"\n[env.kwargs]\napps = ["Clock"]\n'


@pytest.fixture(scope="module")
def played() -> list[Trajectory]:
    """Two episodes of an expert on a phone, as text."""
    env = make("turnwise/Android-v0", apps=["Clock"])
    tasks = env.unwrapped.task_ids(2)  # type: ignore[attr-defined]
    env.close()
    groups = rollout(Agent(max_turns=15), Expert(), tasks, make=lambda: make("turnwise/Android-v0", apps=["Clock"]))
    return [one for group in groups for one in group.trajectories]


def run_of(folder: Path, played: Sequence[Trajectory]) -> Path:
    folder.mkdir()
    (folder / "run.toml").write_text(TOML)
    with TrajectoryWriter(folder / "trajectories" / "000001.jsonl.gz") as writer:
        for one in played:
            writer.write(one)
    return folder


def test_every_turn_has_its_screen(tmp_path: Path, played: list[Trajectory]) -> None:
    content, done = open_report(run_of(tmp_path / "run", played)).screens("", 1, 5)
    assert done == 2
    for place, trajectory in enumerate(played):
        found = content["groups"][str(place)]["0"]
        assert found["note"] == ""
        assert len(found["places"]) == len(trajectory.turns) + 1
        changed = [a.observation != b.observation for a, b in zip(trajectory.turns, trajectory.turns[1:], strict=False)]
        assert any(changed)
        assert len(set(found["places"])) > 1
    assert all(image.startswith("data:image/png;base64,") for image in content["images"])
    assert len(set(content["images"])) == len(content["images"])


def test_screens_end_where_the_replay_differs(tmp_path: Path, played: list[Trajectory]) -> None:
    first = played[0]
    turns = list(first.turns)
    turns[1] = replace(turns[1], observation="0 button that was never there")
    content, _ = open_report(run_of(tmp_path / "run", [replace(first, turns=tuple(turns))])).screens("", 1, 1)
    found = content["groups"]["0"]["0"]
    assert len(found["places"]) == 1
    assert "From turn 2 on" in found["note"]


def test_a_number_of_screens(tmp_path: Path, played: list[Trajectory]) -> None:
    content, done = open_report(run_of(tmp_path / "run", played)).screens("", 1, 1)
    assert done == 1
    assert list(content["groups"]) == ["0"]


def test_environments_without_screens_say_so(tmp_path: Path, turnwise: Any) -> None:
    run = write_run(tmp_path / "text", iterations=1)
    one_sentence(turnwise("report", run, "--output", tmp_path / "x.html", "--screens", "2"), "has no pictures")
    one_sentence(turnwise("report", run, "--live", "--screens", "2"), "--live")


def test_touches_are_where_the_actions_were(tmp_path: Path, played: list[Trajectory]) -> None:
    content, _ = open_report(run_of(tmp_path / "run", played)).screens("", 1, 2)
    touched = 0
    for place, trajectory in enumerate(played):
        touches = content["groups"][str(place)]["0"]["touches"]
        assert len(touches) == len(trajectory.turns)
        for turn, points in zip(trajectory.turns, touches, strict=True):
            assert len(points) == (
                str(turn.action).startswith(("tap", "type ")) or 2 * str(turn.action).startswith("sc")
            )
            assert all(0 <= share < 1 for point in points for share in point)
            touched += len(points)
    assert touched > 2
