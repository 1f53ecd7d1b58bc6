"""Whole runs with vLLM on one GPU, beside the learner: all weights, adapters, experts that are replayed, images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toys.colours
import toys.corridor

torch = pytest.importorskip("torch")

from turncredit.agents.files.trajectory_files import read_trajectories  # noqa: E402
from turncredit.training import Run, train  # noqa: E402
from turncredit.training.audit import audit  # noqa: E402
from turncredit.training.learner.policy import build_tokenizer, save_policy  # noqa: E402

pytestmark = [pytest.mark.vllm, pytest.mark.gpu]

CORRIDOR = f"toys.corridor:{toys.corridor.ID}"
TEXTS = ["You are in a corridor of 4 rooms, in room 1. go left, go right, wait", "go right\ngo left"] * 3
TABLE: dict[str, Any] = {
    "env": {"id": CORRIDOR, "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"context": 400, "device": "cuda", "dtype": "bfloat16"},
    "imitation": {"episodes": 10, "epochs": 1, "lr": 1e-3, "batch_tokens": 600},
    "sampler": {"engine": "vllm", "kv_cache_gib": 0.5, "options": {"sleep": True, "enforce_eager": True}},
    "train": {"iterations": 2, "groups": 2, "group_size": 3, "optimizer_steps": 2, "lr": 1e-3},
    "checkpoints": {"every": 1, "keep": 9},
    "evaluation": {"episodes": 0},
}
BOUND = 0.15
"""Nats that engine and learner may differ by: both round to bfloat16, in different kernels."""


def write_model(folder: Path, experts: bool = False) -> Path:
    """Write a random Qwen 3 whose sizes the kernels of vLLM take, with or without experts."""
    import transformers

    tokenizer = build_tokenizer(TEXTS, vocab=280)
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 256,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 400,
        "eos_token_id": tokenizer.eos_token_id,
    }
    torch.manual_seed(0)
    if experts:
        config = transformers.Qwen3MoeConfig(
            **sizes, moe_intermediate_size=128, num_experts=16, num_experts_per_tok=4, norm_topk_prob=True
        )
    else:
        config = transformers.Qwen3Config(**sizes)
    model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    save_policy(model.to(torch.bfloat16), tokenizer, folder)
    return folder


def trained(folder: Path, model: Path, *overrides: str, **sections: dict[str, Any]) -> list[dict[str, Any]]:
    """Train, check what every iteration says of engine and learner, and return the metrics."""
    policy = TABLE["policy"] | {"model": str(model)} | sections.pop("policy", {})
    assert train(Run.parse({**TABLE, **sections, "policy": policy}, [f'output="{folder}"', *overrides])).finished
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    iterations = [line for line in lines if line["phase"] == "train"]
    for line in iterations:
        assert 0 <= line["gap"] < BOUND / 5
        assert 0 <= line["gap_max"] < BOUND
        assert 0 <= line["probe_gap"] < BOUND
        assert line["grad_norm"] > 0
    return iterations


@pytest.mark.parametrize("way", ["all weights", "merged adapter", "adapter"])
def test_an_engine_that_slept_has_the_learners_weights(tmp_path: Path, way: str) -> None:
    lora = {} if way == "all weights" else {"lora": {"rank": 8, "alpha": 16}}
    words = ["sampler.options.enable_lora=true", "sampler.options.max_lora_rank=8"] if way == "adapter" else []
    assert len(trained(tmp_path / "run", write_model(tmp_path / "model"), *words, policy=lora)) == 2


def test_the_experts_of_the_engine_are_replayed(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", experts=True)
    assert len(trained(tmp_path / "run", model, "train.routing_replay=true")) == 2
    paths = sorted((tmp_path / "run/trajectories").glob("*.jsonl.gz"))
    turns = [turn for path in paths for member in read_trajectories(path) for turn in member.turns]
    assert turns
    for turn in turns:
        assert turn.experts is not None
        assert turn.experts.array().shape == (len(turn.prompt) + len(turn.response) - 1, 2, 4)
    report = audit(tmp_path / "run")
    assert report.passed, report


def test_a_policy_that_sees_trains(tmp_path: Path) -> None:
    from toys.vision import FAMILIES

    save_policy(*FAMILIES["idefics3"](), tmp_path / "model")
    iterations = trained(
        tmp_path / "run",
        tmp_path / "model",
        env={"id": f"toys.colours:{toys.colours.ID}"},
        agent={"max_turns": 3, "max_tokens": 6, "keep_images": 1},
        policy={"dtype": "float32"},
    )
    assert len(iterations) == 2
