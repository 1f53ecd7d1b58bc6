"""Stages of a run: when they begin, what changes, and what a run that was stopped goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_training_loop import TABLE, assert_same_weights, lines, weights

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.config.stage_runs import Stages, run_in_stage
from turncredit.training.config.stages import StageSection
from turncredit.training.parts import prepare
from turncredit.training.preflight.effects import effective_toml
from turncredit.training.run_folder.checkpoint import Checkpoints


def stages_of(*until: dict[str, float]) -> Stages:
    return Stages([*(StageSection(until=one) for one in until), StageSection()])


def after(stages: Stages, successes: list[float]) -> list[int]:
    """The stage after each iteration."""
    numbers = []
    for step, success in enumerate(successes, start=1):
        stages.after(step, success)
        numbers.append(stages.number)
    return numbers


def test_a_stage_ends_at_an_iteration() -> None:
    assert after(stages_of({"iteration": 2}, {"iteration": 3}), [0.0] * 4) == [0, 1, 2, 2]


def test_a_stage_ends_where_the_mean_of_the_last_iterations_is_reached() -> None:
    """0.2, 0.9: mean 0.55; 0.9, 0.5: mean 0.7. What came before the stage does not count."""
    assert after(stages_of({"success": 0.7, "over": 2}), [0.2, 0.9, 0.5]) == [0, 0, 1]
    assert after(stages_of({"iteration": 1}, {"success": 0.7, "over": 2}), [0.9, 0.9, 0.9]) == [1, 1, 2]


def test_a_stage_ends_where_success_stalls() -> None:
    assert after(stages_of({"stalled": 2}), [0.1, 0.5, 0.4, 0.5]) == [0, 0, 0, 1]


def test_a_checkpoint_continues_the_count() -> None:
    whole, first = stages_of({"stalled": 3}), stages_of({"stalled": 3})
    after(whole, [0.5, 0.1, 0.1, 0.1])
    after(first, [0.5, 0.1])
    second = Stages(first.sections, **first.state())
    for step in (3, 4):
        second.after(step, 0.1)
    assert second.state() == whole.state() == {"number": 1, "began": 4, "success": []}


STAGES: list[dict[str, Any]] = [
    {"until": {"iteration": 2}},
    {
        "set": {"agent.max_tokens": 3, "train.group_size": 4, "objective.kl.coefficient": 0.1},
        "reset": ["reference", "optimizer"],
    },
]


def run_of(folder: Path, stages: list[dict[str, Any]] = STAGES) -> Run:
    words = [f'output="{folder}"', "evaluation.episodes=0", "train.iterations=4", "checkpoints.every=1"]
    return Run.parse({**TABLE, "stages": stages}, [*words, "checkpoints.keep=9"])


def test_settings_change_with_the_stage_and_a_stopped_run_ends_alike(tmp_path: Path) -> None:
    train(run_of(tmp_path / "whole"))
    events = [event for event in lines(tmp_path / "whole") if event["phase"] == "train"]
    assert [(event["stage"], event["episodes"]) for event in events] == [(0, 6), (0, 6), (1, 8), (1, 8)]
    longest = [
        max(len(turn.response) for one in read_trajectories(path) for turn in one.turns)
        for path in sorted((tmp_path / "whole/trajectories").glob("*.jsonl"))
    ]
    assert max(longest[:2]) > 3
    assert max(longest[2:]) == 3
    assert Checkpoints(tmp_path / "whole/reference").steps() == [2]
    assert not [check.problems for check in audit(tmp_path / "whole").checks if check.count]

    def stop(event: dict[str, Any]) -> None:
        if event["phase"] == "tick" and (event["what"], event["done"]) == ("checkpoint", 2):
            raise KeyboardInterrupt

    assert not train(run_of(tmp_path / "cut"), on_event=stop).finished
    assert train(Run.load(tmp_path / "cut/run.toml"), resume=True).finished
    assert_same_weights(weights(tmp_path / "whole", 4), weights(tmp_path / "cut", 4))


def test_a_file_with_stages_is_read_back(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    (tmp_path / "run.toml").write_text(effective_toml(run))
    assert Run.load(tmp_path / "run.toml").stages == run.stages
    assert run_in_stage(run, 0).agent.max_tokens == 8
    assert run_in_stage(run, 1).agent.max_tokens == 3


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"until": {"iteration": 2}, "set": {"policy.model": "x"}}, {}], "cannot change 'policy.model'"),
        ([{"until": {"iteration": 0.5}}, {}], "integers >= 1"),
        ([{"until": {"reward": 1}}, {}], "stalled"),
        ([{}, {}], "stage 1 of 2 needs `until`"),
        ([{"until": {"iteration": 2}}], "stage 1 of 1 lasts to the end"),
        ([{"until": {"iteration": 2}}, {"set": {"credit.method": "gipgo"}}], "gigpo"),
        ([{"until": {"iteration": 2}}, {"set": {"agent.max_tokans": 3}}], "max_tokens"),
    ],
)
def test_wrong_stages_are_refused_before_anything_is_played(
    tmp_path: Path, stages: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        prepare(run_of(tmp_path, stages))
