"""`turncredit audit`: table, JSON, exit codes and the first offending turn."""

import json
import shutil
from dataclasses import replace

import pytest
from toys.commands import one_sentence

from turncredit.agents.files.trajectory_files import TrajectoryWriter, read_trajectories

pytest.importorskip("torch")


@pytest.fixture
def corrupted(trained, tmp_path):
    """Return a copy of the trained run with another text at turn 1 of the third trajectory, and that one's id."""
    folder = shutil.copytree(trained, tmp_path / "run")
    (file,) = (folder / "trajectories").glob("000002*")
    stored = list(read_trajectories(file))
    turns = [replace(turn, text="sing loudly") if number == 1 else turn for number, turn in enumerate(stored[2].turns)]
    stored[2] = replace(stored[2], turns=tuple(turns))
    with TrajectoryWriter(file) as writer:
        for one in stored:
            writer.write(one)
    return folder, stored[2].id


def test_a_run_in_order_passes(trained, turncredit):
    said = turncredit("audit", trained)
    assert said.code == 0, said.out
    assert "no problem was found" in said.out
    assert "12 episodes" in said.out
    assert "|sampled - recomputed|" in said.out
    assert "failed" not in said.out


def test_a_corrupted_run_fails_with_its_first_offending_turn(corrupted, turncredit):
    folder, name = corrupted
    said = turncredit("audit", folder, "--no-scores")
    assert said.code == 1
    assert "texts" in said.out
    assert f"iteration 2, trajectory {name}, turn 1: the ids decode to" in said.out
    assert "'sing loudly'" in said.out
    assert "no problem was found" not in said.out
    assert turncredit("audit", folder, "--no-scores", "--iteration", "1").code == 0


def test_json_holds_every_check(corrupted, trained, turncredit):
    folder, name = corrupted
    said = turncredit("audit", folder, "--json", "--no-scores")
    report = json.loads(said.out)
    assert (said.code, report["passed"]) == (1, False)
    (texts,) = (one for one in report["checks"] if one["name"] == "texts")
    assert texts["state"] == "failed"
    assert texts["problems"] == 1
    assert texts["examples"][0] | {"text": ""} == {"iteration": 2, "trajectory": name, "turn": 1, "text": ""}
    clean = json.loads(turncredit("audit", trained, "--json").out)
    assert clean["passed"]
    assert [one["name"] for one in clean["checks"]] == [one["name"] for one in report["checks"]]
    (gaps,) = (one for one in clean["checks"] if one["name"] == "log-probabilities")
    assert gaps["details"]["by_version"].keys() == {"1"}


def test_what_cannot_be_checked_is_said(corrupted, turncredit):
    folder, _ = corrupted
    shutil.rmtree(folder / "trajectories")
    said = turncredit("audit", folder)
    assert said.code == 0
    assert "are not stored: iterations 1 to 2" in said.out


def test_wrong_arguments_are_explained(trained, tmp_path, turncredit):
    one_sentence(turncredit("audit", tmp_path / "nowhere"), "does not exist", "run folder")
    one_sentence(turncredit("audit", tmp_path), "has no run.toml")
    one_sentence(turncredit("audit", trained, "--dtype", "float8"), "unknown dtype")
    one_sentence(turncredit("audit", trained, "--iteration", "9"), "no trajectories of iteration 9; it has 1 to 2")
    one_sentence(turncredit("audit", trained, "--checkpoint", tmp_path), "holds no checkpoint")
    one_sentence(turncredit("audit", trained, "--device", "cuda:7"), "cuda")
