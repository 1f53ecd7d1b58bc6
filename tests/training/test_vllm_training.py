"""Training with vLLM as the engine: iterations in step, whose new weights reach it, and ahead of the learner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import toys.colours
import toys.corridor

pytest.importorskip("torch")

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.preflight.effects import effective_toml

VISION = {"size": [24, 24], "patch": 12, "hidden": 16, "layers": 1}
TABLE = {
    "threads": 1,
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 1, "lr": 5e-3, "batch_tokens": 600},
    "sampler": {"engine": "vllm", "kv_cache_gib": 0.125},
    "train": {"iterations": 2, "groups": 2, "group_size": 3, "optimizer_steps": 2, "lr": 0.01},
    "evaluation": {"episodes": 0},
}


@pytest.mark.vllm
def test_two_iterations_sample_from_the_learners_weights(tmp_path: Path) -> None:
    assert train(Run.parse(TABLE, [f'output="{tmp_path / "run"}"'])).finished
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    trained = [line for line in lines if line["phase"] == "train"]
    assert len(trained) == 2
    for line in trained:
        assert 0 <= line["gap_max"] < 1e-3  # before the first optimizer step, against what the engine reported
        assert 0 <= line["probe_gap"] < 1e-4  # after the load
        assert line["load_seconds"] > 0
        assert line["grad_norm"] > 0


@pytest.mark.vllm
def test_two_ranks_train_by_turns_with_an_engine_of_two_copies(tmp_path: Path) -> None:
    """As on a machine with two GPUs, both of which learner and engine use."""
    words = [f'output="{tmp_path / "run"}"', "sampler.options.data_parallel_size=2"]
    (tmp_path / "run.toml").write_text(effective_toml(Run.parse(TABLE, words)), encoding="utf-8")
    command = ["-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    result = subprocess.run(
        [sys.executable, *command, "-m", "turncredit.cli.main", "train", str(tmp_path / "run.toml")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    trained = [line for line in lines if line["phase"] == "train"]
    assert len(trained) == 2
    for line in trained:
        assert 0 <= line["gap_max"] < 1e-3
        assert 0 <= line["probe_gap"] < 1e-4
        assert line["grad_norm"] > 0


@pytest.mark.vllm
def test_answers_go_on_under_new_weights_and_every_token_knows_its_own(tmp_path: Path) -> None:
    words = [
        "train.staleness.spare_groups=3",
        "train.iterations=10",
        "train.lr=0.02",
        "checkpoints.every=1",
        "checkpoints.keep=12",
    ]
    more = ["imitation.epochs=0", "agent.max_tokens=48", "train.concurrency=3", f'output="{tmp_path / "run"}"']
    assert train(Run.parse(TABLE, [*words, *more])).finished
    within = 0
    for path in sorted((tmp_path / "run/trajectories").glob("*.jsonl.gz")):
        for one in read_trajectories(path):
            versions = [version for turn in one.turns for version in turn.versions]
            assert versions == sorted(versions)
            within += sum(bool(turn.switches) for turn in one.turns)
    assert within  # answers were interrupted
    report = audit(tmp_path / "run")
    assert report.passed, report
    gaps = next(one for one in report.checks if one.name == "log-probabilities")
    assert gaps.checked == report.counts["tokens"]
    assert gaps.details["max"] < 1e-3


@pytest.mark.vllm
def test_branches_begin_inside_answers(tmp_path: Path) -> None:
    words = ['sampling.groups=[{name="treerl", unit="tokens"}]', 'credit.method="tree_grpo"', "train.group_size=6"]
    more = ["checkpoints.every=1", "checkpoints.keep=9", f'output="{tmp_path / "run"}"']
    assert train(Run.parse(TABLE, [*words, *more])).finished
    inside = 0
    for path in sorted((tmp_path / "run/trajectories").glob("*.jsonl.gz")):
        members = {member.id: member for member in read_trajectories(path)}
        for member in members.values():
            if tokens := member.fork_tokens:
                assert member.fork_of is not None
                assert member.fork_turn is not None
                mine, before = (one.turns[member.fork_turn] for one in (member, members[member.fork_of]))
                for name in ("response", "logprobs", "versions"):
                    assert getattr(mine, name)[:tokens] == getattr(before, name)[:tokens]
                assert mine.prompt == before.prompt
                inside += 1
    assert inside
    report = audit(tmp_path / "run")
    assert report.passed, report
    gaps = next(one for one in report.checks if one.name == "log-probabilities")
    assert gaps.checked == report.counts["tokens"]
    assert gaps.details["max"] < 1e-3


@pytest.mark.vllm
def test_a_policy_that_sees_trains_and_is_resumed(tmp_path: Path) -> None:
    """A new small policy on pictures of colours, whose engine gets image encoder and decoder anew."""
    table = TABLE | {
        "env": {"id": f"toys.colours:{toys.colours.ID}"},
        "agent": {"max_turns": 3, "max_tokens": 6, "keep_images": 1},
        "policy": {"new": TABLE["policy"]["new"] | {"vocab": 300, "vision": VISION}, "context": 400},
        "imitation": {"episodes": 4, "epochs": 1, "lr": 1e-3, "batch_tokens": 600},
        "checkpoints": {"every": 1, "keep": 9},
        "output": str(tmp_path / "run"),
    }
    assert train(Run.parse(table, ["train.iterations=1"])).finished
    assert train(Run.parse(table), resume=True).finished
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    trained = [line for line in lines if line["phase"] == "train"]
    assert [line["iteration"] for line in trained] == [1, 2]
    for line in trained:
        assert 0 <= line["gap_max"] < 1e-3
        assert 0 <= line["probe_gap"] < 1e-4
        assert line["grad_norm"] > 0
    assert list((tmp_path / "run/images").rglob("*.png"))
