"""The time limit of an ablation: a run ends between two iterations, and is evaluated as it is then."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import toys.corridor

import turncredit.ablation.process_worker as worker
from turncredit.training import Run
from turncredit.training.run_folder.metrics import read_events

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


def trained_until(run: Run, monkeypatch: pytest.MonkeyPatch, phase: str, iteration: int) -> list[dict[str, object]]:
    """Train with a time limit that is reached at an event; return all that the worker sent."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: clock.now))
    told = []

    def send(event: dict[str, object]) -> None:
        told.append(event)
        if event["phase"] == phase and event["iteration"] == iteration:
            clock.now = 100.0

    worker._train(run.model_dump(exclude_unset=True), send, 50.0)
    return told


def test_a_run_whose_time_is_up_is_evaluated_with_the_iterations_it_has(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = trained_until(run, monkeypatch, "train", 2)
    events = read_events(run.folder / "metrics.jsonl")
    assert told[-1] == {"phase": "ended", "finished": True}
    assert [event["iteration"] for event in events if event["phase"] == "train"] == [1, 2]
    assert Run.load(run.folder / "run.toml").train.iterations == 2
    assert len(json.loads((run.folder / "after.json").read_text(encoding="utf-8"))["rows"]) == 4


def test_a_run_without_an_iteration_is_left_for_the_next_call(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told = trained_until(run, monkeypatch, "evaluation", 0)
    assert told[-1] == {"phase": "ended", "finished": False}
    assert not (run.folder / "after.json").exists()
    worker._train(run.model_dump(exclude_unset=True), told.append, None)
    assert told[-1] == {"phase": "ended", "finished": True}
    assert Run.load(run.folder / "run.toml").train.iterations == 5


def test_a_run_within_its_time_is_not_shortened(run: Run) -> None:
    told: list[dict[str, object]] = []
    worker._train(run.model_dump(exclude_unset=True), told.append, 1e6)
    assert told[-1] == {"phase": "ended", "finished": True}
    assert Run.load(run.folder / "run.toml").train.iterations == 5
