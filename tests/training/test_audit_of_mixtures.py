"""The audit of a run of several environments, whose parts are asked and read each in its own way."""

import shutil
from dataclasses import replace

import pytest
import torch
import toys.corridor

from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.audit.checks import AuditedRun
from turncredit.training.audit.scoring import merged_tokens

torch.set_num_threads(1)
OWN = {"max_turns": 3, "max_tokens": 5, "prompt": "conversation", "template": "react", "parser": "think-action"}
TABLE = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {
        "mix": [
            {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3]}},
            {"id": "turncredit/Household-v0", "kwargs": {"level": "tiny"}, "agent": OWN},
        ]
    },
    "agent": {"max_turns": 4, "max_tokens": 8, "prompt": {"name": "window", "history": 1}},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 3000},
    "imitation": {"episodes": 6, "epochs": 1, "batch_tokens": 600, "won_only": False},
    "train": {"iterations": 1, "groups": 4, "group_size": 2, "distinct_tasks": 12, "lr": 1e-3},
    "credit": {"method": "reinforce_pp"},
    "checkpoints": {"every": 1, "keep": 3},
    "evaluation": {"episodes": 0},
}


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture") / "run"
    train(Run.parse(TABLE, [f'output="{folder}"']))
    return folder


def problems(report):
    return {one.name: [str(problem) for problem in one.problems] for one in report.checks if one.count}


def test_every_part_is_checked_against_its_own_agent(mixture, monkeypatch):
    report = audit(mixture)
    assert report.passed, problems(report)
    tasks = {one.task.partition("/")[0] for one in read_trajectories(mixture / "trajectories/000001.jsonl")}
    assert tasks == {"corridor", "household"}
    assert next(one for one in report.checks if one.name == "log-probabilities").checked == report.counts["tokens"]
    monkeypatch.setattr(AuditedRun, "of_task", lambda audited, _: audited)  # the whole agent is another one
    assert {"prompts", "endings"} <= problems(audit(mixture)).keys()


@pytest.mark.parametrize("part", ["corridor", "household"])
def test_a_wrong_prompt_of_a_part_is_found(mixture, tmp_path, part):
    folder = shutil.copytree(mixture, tmp_path / "run")
    file = folder / "trajectories/000001.jsonl"
    stored = list(read_trajectories(file))
    at = next(n for n, one in enumerate(stored) if one.task.startswith(part) and len(one.turns) > 1)
    turns = list(stored[at].turns)
    turns[1] = replace(turns[1], prompt=(*turns[1].prompt[:-2], 270, turns[1].prompt[-1]))
    stored[at] = replace(stored[at], turns=tuple(turns))
    file.unlink()
    with TrajectoryWriter(file) as writer:
        for one in stored:
            writer.write(one)
    report = audit(folder)
    found = next(one for one in report.checks if one.name == "prompts")
    assert found.count == 1
    assert (found.problems[0].location.trajectory, found.problems[0].location.turn) == (stored[at].id, 1)


def test_chunks_are_counted_as_they_are_packed(mixture):
    from turncredit.agents.trajectory import Group
    from turncredit.training.batch.batch import pack

    stored = list(read_trajectories(mixture / "trajectories/000001.jsonl"))
    for one in stored:
        assert merged_tokens(one) == pack([Group(one.task, (one,))]).size, one.id
