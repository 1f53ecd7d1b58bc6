"""Loggers: the numbers arrive, a resumed run repeats nothing, and a logger that fails costs one warning."""

from __future__ import annotations

import json
import sqlite3
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import turncredit.training.run_folder.loggers as loggers_module
from turncredit.training import ConfigError, Run
from turncredit.training.errors import TrainingError
from turncredit.training.run_folder.loggers import LoggedRun, open_loggers
from turncredit.training.run_folder.metrics import MetricsWriter, event_numbers, read_events


def sessions(folder: Path, names: list[str]) -> None:
    """Iterations 1 to 3, then a resumption from iteration 1, and iterations 2 to 4."""
    for purge, size, iterations in ((None, None, (1, 2, 3)), (2, 0, (2, 3, 4))):
        path = folder / "metrics.jsonl"
        sent = {(name, event["iteration"]) for event in read_events(path) for name in event_numbers(event)}
        opened = open_loggers(names, folder, name="my run", config={"seed": 1}, purge=purge, sent=frozenset(sent))
        with MetricsWriter(path, size=size, loggers=opened) as writer:
            for iteration in iterations:
                writer.write({"phase": "train", "iteration": iteration, "loss": 0.5 * iteration, "text": "x"})
                writer.write({"phase": "imitation", "iteration": 0, "step": 7, "loss": 9.0})  # its axis is another
            writer.write({"phase": "evaluation", "iteration": iterations[-1], "success": 0.25, "broken": float("nan")})


def wandb_records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: a log of LevelDB (blocks of 32 KiB, parts of a record in order) after 7 bytes."""
    at, record = 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if at + 7 + length > len(data):
            return  # it is being written
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield record
            record = b""


def finished_records(path: Path) -> list[Any]:
    """The records of a .wandb file with its last one, which wandb's service may write a little after `finish`."""
    from wandb.proto import wandb_internal_pb2

    deadline = time.monotonic() + 30
    while True:
        records = []
        for data in wandb_records(path.read_bytes()):
            records.append(wandb_internal_pb2.Record())
            records[-1].ParseFromString(data)
        if any(record.HasField("exit") for record in records):
            return records
        assert time.monotonic() < deadline, f"{path} has no last record"
        time.sleep(0.05)


def test_wandb_offline_gets_every_number_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    sessions(tmp_path, ["wandb"])
    files = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    runs = set()
    for path in files:
        for record in finished_records(path):
            if record.HasField("run"):
                runs.add((record.run.run_id, record.run.display_name, record.run.project))
            for item in record.history.item:
                name = item.key or item.nested_key[0]
                if not name.startswith("_"):
                    found[name][record.history.step.num].append(json.loads(item.value_json))
    assert found == {
        "train/loss": {1: [0.5], 2: [1.0], 3: [1.5], 4: [2.0]},
        "evaluation/success": {3: [0.25], 4: [0.25]},
    }
    ((id, name, project),) = runs
    assert id == name
    assert name.startswith("my-run-")
    assert project == "turncredit"


@pytest.mark.parametrize(
    ("project", "variable", "expected"),
    [("", None, "turncredit"), ("", "theirs", "theirs"), ("ours", "theirs", "ours"), ("ours", None, "ours")],
)
def test_the_project_of_wandb(
    project: str, variable: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    projects: list[str] = []
    monkeypatch.setattr(wandb, "init", lambda **options: projects.append(options["project"]))
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    if variable is not None:
        monkeypatch.setenv("WANDB_PROJECT", variable)
    open_loggers(["wandb"], tmp_path, name="run", project=project, config={})
    assert projects == [expected]


def test_the_project_of_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trackio = pytest.importorskip("trackio")
    projects: list[str] = []
    monkeypatch.setattr(trackio, "init", lambda project, **options: projects.append(project))
    for project in ("", "ours"):
        open_loggers(["trackio"], tmp_path, name="run", project=project, config={})
    assert projects == ["turncredit", "ours"]


def test_trackio_gets_every_number_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("trackio")
    import trackio
    from trackio import sqlite_storage

    place = tmp_path / "trackio"
    for module in (trackio, sqlite_storage):
        monkeypatch.setattr(module, "TRACKIO_DIR", place)
    sessions(tmp_path, ["trackio"])
    assert capfd.readouterr().out == "", "standard output belongs to the commands"
    with sqlite3.connect(place / "turncredit.db") as database:
        rows = database.execute("select run_name, step, metrics from metrics order by id").fetchall()
    assert len({name for name, _, _ in rows}) == 1
    found = [(step, key, value) for _, step, text in rows for key, value in json.loads(text).items()]
    losses = [(step, value) for step, key, value in found if key == "train/loss"]
    assert losses == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0)]
    assert [(step, value) for step, key, value in found if key == "evaluation/success"] == [(3, 0.25), (4, 0.25)]


def test_tensorboard_gets_every_number_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seconds = iter(range(1000, 2000))  # the names of event files are whole seconds, and their order is that of time
    monkeypatch.setattr("tensorboard.summary.writer.event_file_writer.time.time", lambda: next(seconds))
    sessions(tmp_path, ["tensorboard", "tensorboard"])
    points = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("train/loss")
    assert [(point.step, point.value) for point in points] == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0)]


class Failing:
    """A logger whose connection breaks at some iteration."""

    def __init__(self, run: LoggedRun) -> None:
        self.seen: list[int] = []
        made.append(self)

    def log(self, values: dict[str, float], iteration: int) -> None:
        if iteration == 2:
            raise ConnectionError("no route to host")
        self.seen.append(iteration)

    def close(self) -> None:
        raise AssertionError("a logger that was switched off is not closed")


made: list[Failing] = []


def test_a_logger_that_fails_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loggers_module.LOGGERS, "wandb", Failing)
    opened = open_loggers(["wandb"], tmp_path, name="run", config={})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with MetricsWriter(tmp_path / "metrics.jsonl", loggers=opened) as writer:
            for iteration in range(5):
                writer.write({"phase": "train", "iteration": iteration, "loss": 0.5})
    (one,) = caught
    assert "the logger wandb failed and is switched off" in str(one.message)
    assert "ConnectionError: no route to host" in str(one.message)
    assert made[0].seen == [0, 1]
    assert len(read_events(tmp_path / "metrics.jsonl")) == 5


def test_a_logger_that_cannot_start_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: LoggedRun) -> Failing:
        raise RuntimeError("No API key configured.")

    monkeypatch.setitem(loggers_module.LOGGERS, "wandb", refuse)
    with pytest.warns(UserWarning, match="the logger wandb failed and is switched off.*No API key configured"):
        (logger,) = open_loggers(["wandb"], tmp_path, name="run", config={})
    logger.log({"train/loss": 1.0}, 1)
    logger.close()


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("wandb", "wandb", "log"), ("otel", "opentelemetry.sdk.resources", "otel")]
)
def test_a_logger_that_is_not_installed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    words = rf"the logger {name} needs {module}, which is not installed.*\[{extra}\]"
    with pytest.raises(TrainingError, match=words):
        open_loggers([name], tmp_path, name="run", config={})


def test_a_logger_that_a_resumed_run_adds_gets_what_the_others_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loggers_module.LOGGERS, "wandb", Failing)
    monkeypatch.setitem(loggers_module.LOGGERS, "trackio", Failing)
    made.clear()
    open_loggers(["wandb"], tmp_path, name="run", config={})
    both = open_loggers(["wandb", "trackio"], tmp_path, name="run", config={}, sent=frozenset({("train/loss", 1)}))
    for logger in both:
        logger.log({"train/loss": 0.5}, 1)
    assert [one.seen for one in made[1:]] == [[], [1]]


def test_the_old_key_names_the_new_one() -> None:
    with pytest.raises(ConfigError, match=r"the key 'tensorboard' is now loggers = \[\"tensorboard\"\]"):
        Run.parse({"tensorboard": True})
    with pytest.raises(ConfigError, match="loggers"):
        Run.parse({"loggers": ["tensorbord"]})
