"""Runs that train a LoRA adapter: what is stored, what goes on, what the reference is, what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import toys.corridor
from safetensors.torch import load_file
from toys.training_helpers import play, random_advantages

from turncredit.ablation.plan import plan
from turncredit.agents.errors import ModelError
from turncredit.agents.models.lora_folders import adapter_tensors, attach, base_of, fingerprint
from turncredit.agents.models.model_folder import load_model, load_tokenizer, model_config
from turncredit.agents.models.weights import is_adapter
from turncredit.training import ConfigError, Run, train
from turncredit.training.batch.batch import pack
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.policy import build_policy, save_policy
from turncredit.training.objectives import Objective

torch.set_num_threads(1)
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
TEXTS = ["You are in a corridor of 4 rooms, in room 1. go left, go right, wait", "go right\ngo left"] * 3


def save_base(folder, *, seed=0):
    model, tokenizer = build_policy(TEXTS, vocab=280, hidden=32, layers=1, heads=1, context=400, seed=seed)
    save_policy(model, tokenizer, folder)
    return folder


def make_run(folder, base, *overrides):
    table = {
        "threads": 1,
        "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
        "agent": {"max_turns": 6, "max_tokens": 8},
        "policy": {"model": str(base), "context": 400, "lora": {"rank": 4, "alpha": 8}},
        "imitation": {"episodes": 6, "epochs": 2, "lr": 1e-2, "batch_tokens": 300},
        "objective": {"kl": 0.05},
        "train": {"iterations": 2, "groups": 2, "group_size": 3, "lr": 1e-2},
        "checkpoints": {"every": 1},
        "evaluation": {"episodes": 0},
    }
    return Run.parse(table, [f'output="{folder}"', *overrides])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, base):
    folder = tmp_path_factory.mktemp("lora") / "run"
    train(make_run(folder, base))
    return folder


def adapter(folder, step):
    return load_file(folder / f"checkpoints/{step:06d}/adapter_model.safetensors")


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_checkpoints_hold_the_adapter_and_final_the_whole_model(finished, base):
    checkpoint = finished / "checkpoints/000002"
    assert is_adapter(checkpoint)
    assert not list(checkpoint.glob("model*"))
    assert base_of(checkpoint).name == str(base)
    before, after = adapter(finished, 1), adapter(finished, 2)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    own = attach(load_model(base), checkpoint)(IDS).logits
    for folder in (
        finished / "final",
        checkpoint,
    ):  # merged when the run ended, and when a checkpoint is loaded
        torch.testing.assert_close(load_model(folder)(IDS).logits, own, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(load_model(base)(IDS).logits, own, atol=1e-3)
    assert len(load_tokenizer(checkpoint)) == model_config(checkpoint)["vocab_size"]


def test_the_parameters_of_the_adapter_are_counted_apart(finished, base):
    (event,) = (event for event in lines(finished) if event["phase"] == "model")
    size = sum(tensor.numel() for tensor in adapter(finished, 2).values())
    assert event["trained"] == size
    assert event["parameters"] == size + load_model(base).num_parameters()


def test_the_divergence_is_from_the_policy_after_the_warm_start(finished):
    told = [event for event in lines(finished) if event["phase"] == "train"]
    assert told[0]["kl"] < told[1]["kl"]
    assert told[0]["gap_max"] < 1e-3
    assert is_adapter(finished / "reference/000000")


def test_a_resumed_run_ends_with_the_same_adapter(finished, base, tmp_path):
    folder = tmp_path / "run"
    train(make_run(folder, base, "train.iterations=1"))
    train(make_run(folder, base), resume=True)
    one, other = adapter(finished, 2), adapter(folder, 2)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_adapter_of_another_base_is_refused(finished, base, tmp_path):
    other = save_base(tmp_path / "other", seed=1)
    with pytest.raises(
        ModelError, match=r"belongs to another base model: it was trained on .* with fingerprint \w{16}"
    ):
        attach(load_model(other), finished / "checkpoints/000002")
    moved = tmp_path / "run"
    shutil.copytree(finished, moved)
    (moved / "run.toml").write_text((moved / "run.toml").read_text().replace(str(base), str(other)))
    with pytest.raises(ModelError, match="belongs to another base model"):
        train(make_run(moved, other, "train.iterations=3"), resume=True)


def test_a_fingerprint_tells_weights_apart_but_not_dtypes(base, tmp_path):
    model = load_model(base)
    wanted = fingerprint(model)
    assert fingerprint(load_model(base, dtype="bfloat16")) == wanted
    assert fingerprint(load_model(save_base(tmp_path, seed=1))) != wanted
    assert fingerprint(add_adapter(model, LoraOptions())) == wanted


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_weight_is_left_in_its_file(finished, base, dtype):
    models = [
        load_model(base, dtype=dtype),
        load_model(finished / "final", dtype=dtype),
        load_model(finished / "checkpoints/000002", dtype=dtype),
        attach(load_model(base, dtype=dtype), finished / "checkpoints/000002", trainable=True),
    ]
    files = Path("/proc/self/maps").read_text().splitlines()  # of other tests in this process, too
    assert [line for line in files if str(base) in line or str(finished) in line] == []
    assert len(models) == 4  # while all of them are alive


@pytest.mark.parametrize("trained", [False, True])
def test_policy_and_reference_share_the_base(base, trained):
    rng = np.random.default_rng(0)
    groups = play(rng)
    batch = pack(groups, random_advantages(rng, groups))
    model = add_adapter(load_model(base), LoraOptions(rank=2))
    plain = Learner(load_model(base), None).score(batch)
    learner = Learner(model, None, lr=1e-2)
    if trained:  # an adapter that is not neutral, as after imitation
        learner.update(batch, Objective(), UpdatePlan())
    wanted = learner.score(batch)
    assert np.array_equal(plain.logprobs, wanted.logprobs) != trained
    learner.set_reference_adapter(adapter_tensors(learner.model))
    before = [id(parameter) for parameter in learner.model.parameters()]
    learner.update(batch, Objective(), UpdatePlan())
    found = learner.score_reference(batch)
    assert np.array_equal(found.logprobs, wanted.logprobs)
    assert not np.array_equal(learner.score(batch).logprobs, wanted.logprobs)
    assert [id(parameter) for parameter in learner.model.parameters()] == before
    assert {parameter.requires_grad for parameter in learner.model.parameters()} == {True, False}


def test_bfloat16_holds_the_base_in_bfloat16(base, tmp_path):
    train(make_run(tmp_path, base, 'policy.dtype="bfloat16"', "train.iterations=1", "imitation.episodes=0"))
    assert {tensor.dtype for tensor in adapter(tmp_path, 1).values()} == {torch.float32}
    assert load_file(tmp_path / "final/model.safetensors")["model.norm.weight"].dtype == torch.bfloat16
    assert lines(tmp_path)[-2]["gap"] < 0.05


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("policy.lora={rnk=4}", r"unknown key 'rnk' in policy\.lora; did you mean 'rank'\?"),
        ("policy.lora={rank=0}", r"policy\.lora\.rank: .* greater than or equal to 1, got 0"),
        ('policy.lora={targets=["q_prj"]}', r"policy\.lora\.targets: the model has no matrix 'q_prj'; did you mean"),
        ('policy.model=""', r"policy\.lora needs policy\.model"),
    ],
)
def test_wrong_options_are_refused(base, tmp_path, override, words):
    with pytest.raises(ConfigError, match=words):
        train(make_run(tmp_path, base, override))


def test_no_adapter_is_put_on_an_adapter(finished, tmp_path):
    with pytest.raises(ConfigError, match=r"policy\.lora needs a whole model: use the folder final/"):
        train(make_run(tmp_path, finished / "checkpoints/000002"))


def test_the_arms_of_an_ablation_start_from_the_merged_warm_start(base, tmp_path):
    run = make_run(tmp_path / "run", base, "evaluation.episodes=2", "train.iterations=1")
    found = plan(run, ["credit=grpo,gigpo"], tmp_path / "all")
    final, events = tmp_path / "all/warm-start/seed-0/final", []
    train(found.warm_start(0), on_event=lambda event: events.append((event["phase"], final.is_dir())))
    assert ("evaluation", True) in events  # the evaluation is what a finished run is known by
    for arm in found.arms:
        assert train(found.run(arm, 0)).finished
