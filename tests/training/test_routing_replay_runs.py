"""Runs that replay the experts of tiny mixtures: what is stored, what the audit says, what is refused."""

import json

import numpy as np
import pytest
import torch
import toys.corridor
from toys.mixtures import mixture

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.training import ConfigError, Run, train
from turncredit.training.audit import audit
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_policy, save_policy

torch.set_num_threads(1)
TEXTS = ["You are in a corridor of 4 rooms, in room 1. go left, go right, wait", "go right\ngo left"] * 3


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return the folder of a mixture of a family; each is made once."""
    made = {}

    def make(name):
        if name not in made:
            _, tokenizer = build_policy(TEXTS, vocab=280, hidden=32, layers=1, heads=1, context=400, seed=0)
            model = mixture(name, dtype=torch.float32, vocab=len(tokenizer), context=400, scale=0.1)
            made[name] = tmp_path_factory.mktemp("base")
            save_policy(model, tokenizer, made[name])
        return made[name]

    return make


def make_run(folder, model, *overrides):
    table = {
        "threads": 1,
        "trajectory_format": ".jsonl",
        "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
        "agent": {"max_turns": 4, "max_tokens": 6},
        "policy": {"model": str(model), "context": 400},
        "imitation": {"episodes": 4, "epochs": 1, "lr": 1e-2, "batch_tokens": 300},
        "train": {"iterations": 2, "groups": 2, "group_size": 3, "lr": 1e-2, "routing_replay": True},
        "checkpoints": {"every": 1, "keep": 9},
        "evaluation": {"episodes": 0},
    }
    return Run.parse(table, [f'output="{folder}"', *overrides])


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def turns_of(folder):
    return [
        turn
        for path in sorted((folder / "trajectories").glob("*.jsonl"))
        for member in read_trajectories(path)
        for turn in member.turns
    ]


RUNS = {
    "Qwen 3 MoE": [],
    "Mixtral": ['agent.prompt={name="window",history=2}', "train.micro_batch.share_prefixes=true"],
    "GPT-OSS": ['objective.old_logprobs="recomputed"', "objective.kl=0.05", "train.iterations=1"],
    "DeepSeek V3": ["train.staleness=1", 'sampler.dtype="bfloat16"', "sampler.gap_limit=0.0"],
    "Mixtral with an adapter": ["policy.lora={rank=2,alpha=4}", "train.micro_batch.packing=true", "train.iterations=1"],
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_replays_the_experts_of_its_engine(base, tmp_path, kind, monkeypatch):
    updated, update = [], Learner.update

    def spied(learner, batch, objective, plan):
        updated.append(batch)
        return update(learner, batch, objective, plan)

    monkeypatch.setattr(Learner, "update", spied)
    train(make_run(tmp_path / "run", base(kind.partition(" with")[0]), *RUNS[kind]))
    assert updated
    for batch in updated:
        assert [len(experts) for experts in batch.experts] == (batch.lengths - 1).tolist()
    turns = turns_of(tmp_path / "run")
    assert turns
    for turn in turns:
        layers = 1 if kind == "DeepSeek V3" else 2
        assert turn.experts.array().shape == (len(turn.prompt) + len(turn.response) - 1, layers, 2)
        assert turn.experts.array().dtype == np.uint8
    report = audit(tmp_path / "run")
    assert report.passed, [str(problem) for one in report.checks for problem in one.problems]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (['sampler={engine="openai",url="http://127.0.0.1:1/v1",options={tokens=true}}'], "'openai' does not record"),
        (['policy.kernels="liger"'], 'policy.kernels = "liger" computes layers in which experts cannot be prescribed'),
    ],
)
def test_what_cannot_replay_is_refused_before_the_warm_start(base, tmp_path, overrides, message):
    with pytest.raises(ConfigError, match=f"train.routing_replay: .*{message}"):
        train(make_run(tmp_path / "run", base("Mixtral"), *overrides))
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_dense_policy_is_refused_before_the_warm_start(tmp_path):
    save_policy(*build_policy(TEXTS, vocab=280, hidden=32, layers=1, heads=1, context=400, seed=0), tmp_path / "dense")
    with pytest.raises(ConfigError, match=r"^train.routing_replay is not available: .* it has no router of experts$"):
        train(make_run(tmp_path / "run", tmp_path / "dense"))
    assert not list((tmp_path / "run").glob("checkpoints/*"))
