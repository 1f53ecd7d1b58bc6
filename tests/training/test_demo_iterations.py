"""Two iterations with the demo's settings and `gigpo`, as they were recorded: every sampled id, every weight.

The record changes only when the arithmetic changes on purpose. It was made on processors of AMD, with and without
AVX-512; matrix products on those of Intel round differently. Weights are compared bit for bit where the version of
torch is the recorded one.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from toys.warm_processes import WarmPopen

from turncredit.agents.files.trajectory_files import read_trajectories

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((Path(__file__).parent / "demo_iterations.json").read_text(encoding="utf-8"))
CPU = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").is_file() else ""
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
    """What the record holds of a run."""
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    trained = [event for event in events if event["phase"] == "train"]
    return {
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
@pytest.mark.skipif(not torch.cpu._is_avx2_supported(), reason="recorded with the vector instructions AVX2")
@pytest.mark.skipif("AuthenticAMD" not in CPU, reason="recorded on a processor of AMD")
def test_iterations_are_as_recorded(tmp_path: Path) -> None:
    """In a process of its own, since the vector instructions are chosen once."""
    changes = [
        "credit.method=gigpo",
        "processes=1",
        "train.concurrency=64",
        "train.iterations=2",
        "checkpoints.every=1",
        "checkpoints.keep=9",
        "evaluation.episodes=0",
    ]
    script = "from turncredit.training import Run, train; import sys; train(Run.load(sys.argv[1], sys.argv[2:]))"
    arguments = [str(ROOT / "examples/demo.toml"), *changes, f"output={tmp_path}/run"]
    process = WarmPopen([sys.executable, "-c", script, *arguments], stderr=subprocess.PIPE, text=True)
    _, said = process.communicate(timeout=1800)
    assert process.returncode == 0, said
    found = recorded(tmp_path / "run")
    same_torch = found["torch"] == RECORD["torch"]
    for mine, theirs in zip(found["iterations"], RECORD["iterations"], strict=True):
        assert mine["played"] == theirs["played"]
        assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=0 if same_torch else 1e-3)
        if same_torch:
            assert mine["weights"] == theirs["weights"]
