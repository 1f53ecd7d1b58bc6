"""Episodes that loggers show: which ones, with what credit, and that the packages have them."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from toys.training_helpers import trajectory, turn

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages
from turncredit.training.run_folder.loggers import Logger, open_loggers
from turncredit.training.run_folder.sample_episodes import LONGEST, SampleEpisode, sample_episodes


def episode(number: int, won: bool) -> Trajectory:
    turns = [turn([1], [2], reward=0.0), turn([1, 2, 3], [4], reward=float(won))]
    return trajectory(turns, name=f"t#{number}@0", won=won)


def sampled(outcomes: list[bool], count: int) -> list[SampleEpisode]:
    group = Group("t", tuple(episode(number, won) for number, won in enumerate(outcomes)))
    steps = steps_of([group])
    return sample_episodes([group], Advantages.of(steps, np.arange(len(steps), dtype=np.float64)), count)


def test_won_and_lost_episodes_take_turns() -> None:
    assert [one.trajectory.id for one in sampled([False, False, True, False, True], 3)] == ["t#2@0", "t#0@0", "t#4@0"]
    assert [one.trajectory.id for one in sampled([False, False], 5)] == ["t#0@0", "t#1@0"]
    assert sampled([True], 0) == []
    failed = replace(episode(0, False), stop="error")
    assert sample_episodes([Group("t", (failed,))], Advantages.of(steps_of([]), np.zeros(0)), 2) == []


def test_each_turn_has_its_advantage() -> None:
    first, second = sampled([False, True], 2)
    assert (first.trajectory.id, first.advantages, second.advantages) == ("t#1@0", (2.0, 3.0), (0.0, 1.0))
    assert first.text.splitlines()[:3] == ["o", "[1] t", "(reward 0, advantage +2.000)"]
    assert first.facts["reward"] == 1.0
    long = replace(first, trajectory=replace(first.trajectory, final_observation="x" * (LONGEST + 1)))
    assert long.text.endswith("x ... (4,001 characters)")
    assert len(str(long.messages[-1]["content"])) < LONGEST + 50


class Recorder:
    """A logger that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def log(self, values: object, iteration: int) -> None:
        pass

    def show(self, samples: list[SampleEpisode], iteration: int) -> None:
        if iteration == 9:
            raise ConnectionError("no route to host")
        self.shown.append(iteration)

    def close(self) -> None:
        pass


def test_a_resumed_run_shows_no_iteration_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setitem(open_loggers.__globals__["LOGGERS"], "wandb", lambda run: recorder)
    samples = sampled([True], 1)
    open_loggers(["wandb"], tmp_path, name="run", config={})
    (logger,) = open_loggers(["wandb"], tmp_path, name="run", config={}, sent=frozenset({("train/loss", 1)}))
    for iteration in (1, 2):
        logger.show(samples, iteration)
    assert recorder.shown == [2]
    with pytest.warns(UserWarning, match="the logger wandb failed and is switched off.*no route to host"):
        logger.show(samples, 9)
    logger.show(samples, 10)
    assert recorder.shown == [2]


def shown(name: str, folder: Path) -> None:
    """Numbers and episodes of two iterations, sent to a logger."""
    logger: Logger
    (logger,) = open_loggers([name], folder, name="run", config={})
    for iteration in (1, 2):
        logger.log({"train/loss": 0.5}, iteration)
        logger.show(sampled([True, False], 2), iteration)
    logger.close()


def test_wandb_offline_has_a_table_of_each_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    shown("wandb", tmp_path)
    tables = sorted((tmp_path / "wandb").rglob("episodes_*.table.json"))
    assert len(tables) == 2
    table = json.loads(tables[1].read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [(row["iteration"], row["id"], row["won"]) for row in rows] == [(2, "t#0@0", True), (2, "t#1@0", False)]
    assert "(reward 1, advantage +1.000)" in rows[0]["conversation"]


def test_trackio_has_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trackio = pytest.importorskip("trackio")
    from trackio import sqlite_storage

    for module in (trackio, sqlite_storage):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")
    shown("trackio", tmp_path)
    with sqlite3.connect(tmp_path / "trackio" / "turncredit.db") as database:
        cursor = database.execute("select * from traces order by step, key")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    assert [(row["step"], row["key"]) for row in rows] == [
        (1, "episodes/0"),
        (1, "episodes/1"),
        (2, "episodes/0"),
        (2, "episodes/1"),
    ]
    messages = json.loads(rows[0]["messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert json.loads(rows[0]["metadata"])["advantages"] == [0.0, 1.0]


def test_tensorboard_has_texts(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (first, second) = events.Tensors("episodes/0/text_summary")
    assert (first.step, second.step) == (1, 2)
    assert "advantage +1.000" in first.tensor_proto.string_val[0].decode()
