"""The time limit of an ablation: a run ends between two iterations, and is evaluated as it is then."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import toys.corridor

import turnwise.ablation.process_worker as worker
from turnwise.training import Run
from turnwise.training.run_folder.metrics import read_events

pytest.importorskip("torch")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Five iterations in a corridor."""
    toys.corridor.register()
    return Run.parse(
        {
            "threads": 1,
            "output": str(tmp_path / "run"),
            "env": {"id": toys.corridor.ID, "kwargs": {"lengths": [3, 4]}},
            "agent": {"max_turns": 6, "max_tokens": 8},
            "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
            "imitation": {"episodes": 4, "epochs": 1},
            "train": {"iterations": 5, "groups": 2, "group_size": 3},
            "evaluation": {"episodes": 4},
        }
    )


@pytest.mark.parametrize("iterations", [0, 2])
def test_a_run_whose_time_is_up_is_evaluated_with_the_iterations_it_has(
    run: Run, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: clock.now))
    told = []

    def send(event: dict[str, object]) -> None:
        told.append(event)
        last = "evaluation" if iterations == 0 else "train"
        if event["phase"] == last and event["iteration"] == iterations:
            clock.now = 100.0

    worker._train(run.model_dump(exclude_unset=True), send, 50.0)
    events = read_events(run.folder / "metrics.jsonl")
    assert told[-1] == {"phase": "ended", "finished": True}
    assert [event["iteration"] for event in events if event["phase"] == "train"] == list(range(1, iterations + 1))
    assert Run.load(run.folder / "run.toml").train.iterations == iterations
    assert len(json.loads((run.folder / "after.json").read_text(encoding="utf-8"))["rows"]) == 4


def test_a_run_within_its_time_is_not_shortened(run: Run) -> None:
    told: list[dict[str, object]] = []
    worker._train(run.model_dump(exclude_unset=True), told.append, 1e6)
    assert told[-1] == {"phase": "ended", "finished": True}
    assert Run.load(run.folder / "run.toml").train.iterations == 5
