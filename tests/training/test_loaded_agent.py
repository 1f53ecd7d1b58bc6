"""A trained agent from its folder: it plays as its run says, and mistakes are sentences."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

import turncredit
from turncredit.agents import AgentError, rollout
from turncredit.agents.models.model_folder import load_model
from turncredit.evaluation.panels import make_panel
from turncredit.registry import UnknownName
from turncredit.training import CheckpointError, ConfigError, Run, train

RUN = {
    "name": "tiny",
    "threads": 1,
    "env": {"id": "turncredit/Household-v0", "kwargs": {"level": "tiny"}, "deadline": 30.0},
    "agent": {"max_turns": 4, "max_tokens": 8},
    "policy": {"new": {"vocab": 300, "hidden": 16, "layers": 1, "heads": 2}, "context": 500},
    "imitation": {"episodes": 2, "epochs": 1, "won_only": False},
    "train": {"iterations": 1, "groups": 1, "group_size": 2},
    "checkpoints": {"every": 1},
    "evaluation": {"episodes": 2, "temperature": 0.5},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one iteration, with two checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(Run.parse({**RUN, "output": str(folder)}))
    return folder


def test_a_run_folder_is_its_newest_checkpoint_with_the_agent_of_the_run(folder: Path) -> None:
    with turncredit.load_agent(folder) as player:
        assert player.folder == folder / "checkpoints/000001"
        assert (player.name, player.deadline, player.workers) == ("tiny", 30.0, 0)
        assert (player.agent.max_turns, player.agent.max_tokens, player.agent.temperature) == (4, 8, 0.5)
        assert player.sampler.context == 500
        tasks = make_panel("turncredit/Household-v0", {"level": "tiny"}, 2).tasks
        groups = rollout(player.agent, player.sampler, list(tasks), make=player.make)
    assert [len(group.trajectories) for group in groups] == [1, 1]
    assert all(trajectory.turns and trajectory.finished for group in groups for trajectory in group.trajectories)


def test_a_checkpoint_is_itself_and_options_replace_those_of_the_run(folder: Path) -> None:
    first = folder / "checkpoints/000000"
    with turncredit.load_agent(str(first), temperature=0.0, max_turns=2, dtype="float32", threads=1) as player:
        assert player.folder == first
        assert (player.agent.temperature, player.agent.max_turns, player.agent.max_tokens) == (0.0, 2, 8)
        (group,) = rollout(player.agent, player.sampler, ["train/tiny/000000"], make=player.make, size=2)
    sampled, other = group.trajectories
    assert [turn.response for turn in sampled.turns] == [turn.response for turn in other.turns]  # greedy
    model = load_model(first)
    assert model.config.max_position_embeddings >= 500


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "checkpoints/000001/model.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="an older checkpoint is used"), turncredit.load_agent(copy) as player:
        assert player.folder == copy / "checkpoints/000000"
    with pytest.raises(CheckpointError, match="is damaged"):
        turncredit.load_agent(copy / "checkpoints/000001")


def test_a_model_without_a_run_has_no_environment(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "checkpoints/000001", tmp_path / "a/b/model")
    with turncredit.load_agent(tmp_path / "a/b/model", max_turns=3) as player:
        assert (player.name, player.run, player.agent.max_turns) == ("model", None, 3)
        with pytest.raises(ConfigError, match="belongs to no run"):
            player.make()


def test_mistakes_are_sentences(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist; expected the folder of a run or checkpoint"):
        turncredit.load_agent(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        turncredit.load_agent(tmp_path)
    with pytest.raises(AgentError, match="max_turn"):
        turncredit.load_agent(folder, max_turn=3)
    with pytest.raises(UnknownName, match=r"unknown dtype 'float23'; did you mean 'float32'"):
        turncredit.load_agent(folder, dtype="float23")
    with pytest.raises(ConfigError, match=r"unknown policy\.device 'tpu'"):
        turncredit.load_agent(folder, device="tpu")


TRAIN_FURTHER = {key: value for key, value in RUN.items() if key != "imitation"} | {
    "train": {"iterations": 0},
    "evaluation": {"episodes": 0},
}


def start_from(model: Path, output: Path, *, resume: bool = False, **policy: object) -> Run:
    """Train nothing further from a model, and return the run as its folder holds it."""
    table = {**TRAIN_FURTHER, "policy": {"model": str(model), "context": 500, **policy}, "output": str(output)}
    train(Run.parse(table), resume=resume)
    return Run.load(output / "run.toml")


def test_a_run_begins_from_the_checkpoint_that_an_evaluation_of_the_folder_takes(folder: Path, tmp_path: Path) -> None:
    run = start_from(folder, tmp_path / "next")
    with turncredit.load_agent(folder) as player:
        assert Path(run.policy.model) == player.folder == folder / "checkpoints/000001"
    begun = load_model(tmp_path / "next/checkpoints/000000").state_dict()
    assert all((begun[name] == tensor).all() for name, tensor in load_model(player.folder).state_dict().items())
    assert start_from(folder / "checkpoints", tmp_path / "other").policy.model == run.policy.model


def test_a_resumed_run_keeps_the_checkpoint_that_it_began_with(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    begun = start_from(copy, tmp_path / "next").policy.model
    (copy / "checkpoints/000001").rename(copy / "checkpoints/000002")  # the other run went on
    assert start_from(copy, tmp_path / "next", resume=True).policy.model == begun


def test_what_a_run_folder_cannot_give_is_refused_with_what_it_holds(folder: Path, tmp_path: Path) -> None:
    refused = tmp_path / "refused"
    choices = rf"{folder} holds the checkpoints 000001, 000000 \(the warm start\), newest first"
    for missing in ("final", "checkpoints/000007"):
        with pytest.raises(ConfigError, match=rf"policy.model: {folder / missing} does not exist; {choices}: name"):
            start_from(folder / missing, refused)
        with pytest.raises(CheckpointError, match=choices):
            turncredit.load_agent(folder / missing)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for checkpoint in (copy / "checkpoints").iterdir():
        (checkpoint / "model.safetensors").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(ConfigError, match="no intact checkpoint; damaged: 000001, 000000"),
    ):
        start_from(copy, refused)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(ConfigError, match=rf"holds no checkpoint yet: .*turncredit train {copy} --resume"):
        start_from(copy, refused)
    assert not refused.exists()


def test_an_adapter_begins_beside_a_whole_model(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    adapted = tmp_path / "adapted"
    start_from(folder, adapted, lora={"rank": 2})
    assert (adapted / "final/config.json").is_file()
    with pytest.raises(ConfigError, match=rf"policy.lora needs a whole model: set policy.model={adapted / 'final'}"):
        start_from(adapted, tmp_path / "second", lora={"rank": 2})
    assert start_from(adapted, tmp_path / "merged").policy.model == str(adapted / "checkpoints/000000")
