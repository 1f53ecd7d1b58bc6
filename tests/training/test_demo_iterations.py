"""The demo's first three iterations, as they were recorded: every sampled id, every weight.

The record changes only when the arithmetic changes on purpose. Sampled ids are compared everywhere; weights bit for bit
where the processor has the vector instructions of the machine that recorded them.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.agents.store import read_trajectories
from turnwise.training import train
from turnwise.training.config import Run

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((Path(__file__).parent / "demo_iterations.json").read_text(encoding="utf-8"))
FACTS = ("success", "turns", "tokens", "loss", "grad_norm", "entropy", "clip_fraction")


def digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def played(folder: Path, iteration: int) -> str:
    """The digest of everything that was prompted, sampled, done and earned in an iteration."""
    found = sorted(read_trajectories(folder / "trajectories" / f"{iteration:06d}.jsonl.gz"), key=lambda one: one.id)
    return digest(
        [
            json.dumps([one.id, list(turn.prompt), list(turn.response), turn.action, turn.state, turn.reward])
            for one in found
            for turn in one.turns
        ]
    )


def weights(folder: Path, iteration: int) -> str:
    return hashlib.sha256((folder / "checkpoints" / f"{iteration:06d}" / "model.safetensors").read_bytes()).hexdigest()


def recorded(folder: Path) -> dict[str, Any]:
    """What the record holds of a run of three iterations."""
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    trained = [event for event in events if event["phase"] == "train"]
    return {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.partition("+")[0],
        "iterations": [
            {
                "played": played(folder, number),
                "weights": weights(folder, number),
                "metrics": {key: event[key] for key in FACTS},
            }
            for number, event in enumerate(trained, start=1)
        ],
    }


@pytest.mark.slow
def test_the_demos_first_iterations_are_as_recorded(tmp_path: Path) -> None:
    changes = ["train.steps=3", "train.checkpoint_every=1", "train.keep=9", "evaluation.episodes=0"]
    train(Run.load(ROOT / "examples/demo.toml", [*changes, f"output={tmp_path}/run"]))
    found = recorded(tmp_path / "run")
    same_machine = all(found[key] == RECORD[key] for key in ("capability", "torch"))
    for mine, theirs in zip(found["iterations"], RECORD["iterations"], strict=True):
        assert mine["played"] == theirs["played"]
        assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=0 if same_machine else 1e-3)
        if same_machine:
            assert mine["weights"] == theirs["weights"]
