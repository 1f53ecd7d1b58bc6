"""Runs with a policy that sees: it learns what only the picture says, and the audit computes the same from the disk."""

from __future__ import annotations

import copy
import json
import shutil

import pytest
import torch
import toys.colours
from toys.vision import FAMILIES

from turncredit.agents.errors import AgentError
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.models.model_folder import load_model, load_tokenizer
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.vision.image_reader import reader_of
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.config.section_tables import VisionSection
from turncredit.training.errors import ConfigError, TrainingError
from turncredit.training.learner.lora import LoraOptions, add_adapter, freeze_vision
from turncredit.training.learner.memory import MemoryNeeds, bytes_per_image_token, estimate
from turncredit.training.learner.policy import save_policy
from turncredit.training.learner.vision_policy import check_vision

torch.set_num_threads(1)
TABLE = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"id": f"toys.colours:{toys.colours.ID}"},
    "agent": {"max_turns": 3, "max_tokens": 6, "keep_images": 1},
    "policy": {
        "new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1, "vision": {"size": [24, 36], "hidden": 16}},
        "context": 200,
    },
    "imitation": {"episodes": 8, "epochs": 30, "lr": 5e-3, "batch_tokens": 300},
    "train": {"iterations": 2, "groups": 2, "group_size": 3, "lr": 1e-3},
    "checkpoints": {"every": 1, "keep": 9},
    "evaluation": {"episodes": 8, "env": {"pictures": 16}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("colours") / "run"
    train(Run.parse(TABLE | {"output": str(folder)}))
    return folder


def success(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["success"] for row in rows if row["phase"] == "evaluation"]


def test_it_learns_what_only_the_picture_says(folder):
    assert max(success(folder)) >= 0.75  # a policy that does not see wins a quarter


def test_each_image_is_stored_once(folder):
    keys = {
        image.key
        for path in sorted((folder / "trajectories").glob("*.jsonl"))
        for trajectory in read_trajectories(path)
        for turn in trajectory.turns
        for image in turn.images
    }
    assert {path.stem for path in (folder / "images").rglob("*.png")} >= keys
    assert len(list((folder / "images").rglob("*.png"))) <= 16


def test_the_audit_computes_the_log_probabilities_from_stored_images(folder):
    report = audit(folder)
    assert report.passed, [str(problem) for check in report.checks for problem in check.problems]
    checked = next(check for check in report.checks if check.name == "log-probabilities")
    assert checked.checked > 0
    assert checked.details["max"] < 1e-4


def test_the_audit_finds_a_missing_image(folder, tmp_path):
    copied = tmp_path / "run"
    shutil.copytree(folder, copied)
    next((copied / "images").rglob("*.png")).unlink()
    with pytest.raises((AgentError, TrainingError), match="could not be read"):
        audit(copied)


def test_a_checkpoint_sees_as_the_run_did(folder):
    checkpoint = sorted((folder / "checkpoints").glob("0*"))[-1]
    tokenizer = load_tokenizer(checkpoint)
    assert reader_of(tokenizer) is not None
    sampler = TransformersSampler(load_model(checkpoint), tokenizer)
    assert sampler.images
    assert sampler.uncached_reason is None


def test_a_broken_image_is_an_error_of_its_episode(folder):
    checkpoint = sorted((folder / "checkpoints").glob("0*"))[-1]
    sampler = TransformersSampler(load_model(checkpoint), load_tokenizer(checkpoint))
    from turncredit.agents.agent import Agent

    agent = Agent(max_turns=3, max_tokens=6, keep_images=1)
    groups = rollout(agent, sampler, ["0", "1"], make=lambda: toys.colours.Colours(broken=True))
    for group in groups:
        (episode,) = group.trajectories
        assert episode.stop == "error"
        assert "uint8" in str(episode.error)
        assert len(episode.turns) == 1


def test_a_policy_that_answers_with_the_token_of_an_image_loses(folder, monkeypatch):
    checkpoint = sorted((folder / "checkpoints").glob("0*"))[-1]
    sampler = TransformersSampler(load_model(checkpoint), load_tokenizer(checkpoint))
    from turncredit.agents.agent import Agent
    from turncredit.training.run_folder.metrics import play_metrics

    token = reader_of(sampler.tokenizer).token
    says = "turncredit.engines.transformers.sampler.sample_tokens"
    monkeypatch.setattr(says, lambda logits, *_, **__: ([token] * len(logits), [-0.5] * len(logits)))
    groups = rollout(Agent(max_turns=3, max_tokens=6), sampler, ["0", "1"], make=toys.colours.Colours)
    for group in groups:
        (episode,) = group.trajectories
        assert (episode.stop, episode.won, episode.turns) == ("answer", False, ())
        assert episode.error == "turn 0: the model answered with the token that stands for an image"
    metrics = play_metrics(groups)
    assert (metrics["episodes"], metrics["errors"], metrics["success"]) == (2, 0, 0.0)


def test_a_policy_that_reads_text_only_is_refused_with_a_remedy(tmp_path):
    blind = copy.deepcopy(TABLE) | {"output": str(tmp_path / "run")}
    del blind["policy"]["new"]["vision"]
    with pytest.raises(TrainingError, match=r"policy\.new\.vision"):
        train(Run.parse(blind))


def test_a_context_without_room_for_the_images_is_refused_before_the_run(tmp_path):
    table = copy.deepcopy(TABLE) | {"output": str(tmp_path / "run")}
    table["agent"] |= {"keep_images": 9}
    table["policy"] |= {"context": 60}
    with pytest.raises(ConfigError, match="9 images"):
        train(Run.parse(table))


def test_sizes_that_are_no_patches_are_refused():
    with pytest.raises(ConfigError, match="multiples of patch = 12"):
        check_vision(VisionSection(size=(25, 36)))


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_image_encoder_can_be_frozen(name):
    model, _ = FAMILIES[name]()
    freeze_vision(model)
    frozen = {key.split(".")[1] for key, weight in model.named_parameters() if not weight.requires_grad}
    assert frozen in ({"vision_tower"}, {"vision_model"}, {"visual"})
    assert any(weight.requires_grad for weight in model.parameters())


def test_a_text_model_has_nothing_to_freeze(folder):
    from toys.training_helpers import tiny_llama

    with pytest.raises(ConfigError, match="no image encoder"):
        freeze_vision(tiny_llama())


@pytest.mark.parametrize("beside", [False, True])
def test_an_adapter_leaves_the_image_encoder_alone_unless_told(beside):
    model, _ = FAMILIES["llava"]()
    adapted = add_adapter(model, LoraOptions.of({"rank": 2}), beside_text=beside)
    names = [name for name, weight in adapted.named_parameters() if weight.requires_grad]
    assert names
    assert any("vision_tower" in name for name in names) == beside


def test_families_come_back_from_their_folder(tmp_path):
    model, tokenizer = FAMILIES["llava"]()
    save_policy(model, tokenizer, tmp_path)
    other, reader = load_model(tmp_path), reader_of(load_tokenizer(tmp_path))
    assert type(other) is type(model)
    image = toys.colours.Colours()
    image.reset(options={"task": "0"})
    from toys.vision import screen

    assert reader is not None
    assert reader.text(screen(1)) == reader_of(tokenizer).text(screen(1))
    assert torch.equal(reader.features(screen(1), other), reader_of(tokenizer).features(screen(1), model))


@pytest.mark.parametrize("name", ["own", "qwen3", "llava"])
def test_the_memory_of_images_is_counted(name):
    model, tokenizer = FAMILIES[name]()
    each = bytes_per_image_token(model, tokenizer, (84, 60))
    assert each > 4 * model.config.get_text_config().hidden_size
    with_images, without = (
        estimate(model.config, MemoryNeeds(tokens=512, length=256, image_token_bytes=size)) for size in (each, 0.0)
    )
    assert with_images.images == pytest.approx(512 * each, abs=1)
    assert with_images.total - without.total == with_images.images
    model.requires_grad_(False)
    assert bytes_per_image_token(model, tokenizer, (84, 60)) == 0
