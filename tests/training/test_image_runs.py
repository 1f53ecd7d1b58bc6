"""Runs of a policy that sees, on ways that images do not take in an ordinary run: killed and resumed, with old episodes
removed, in bfloat16, with forked processes, and on two ranks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toys.colours
from safetensors.numpy import load_file
from toys.warm_processes import WarmPopen

from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.trajectory import Trajectory
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.preflight.effects import effective_toml

torch.set_num_threads(1)
TESTS = Path(__file__).resolve().parents[1]
TABLE: dict[str, Any] = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"id": f"toys.colours:{toys.colours.ID}"},
    "agent": {"max_turns": 3, "max_tokens": 6, "keep_images": 1},
    "policy": {
        "new": {"vocab": 280, "hidden": 16, "layers": 1, "heads": 1, "vision": {"size": [24, 36], "hidden": 8}},
        "context": 200,
    },
    "imitation": {"episodes": 4, "epochs": 2, "lr": 5e-3, "batch_tokens": 300},
    "train": {"iterations": 4, "groups": 2, "group_size": 2, "lr": 1e-3},
    "checkpoints": {"every": 1, "keep": 9},
    "evaluation": {"episodes": 0},
}
OF_TIME = "second|left|load|idle|memory|hardware"


def run_of(folder: Path, **sections: Any) -> Run:
    table = deepcopy(TABLE) | {"output": str(folder)}
    for name, section in sections.items():
        table[name] = {**table[name], **section} if isinstance(section, dict) else section
    return Run.parse(table)


def episodes(folder: Path) -> dict[str, Trajectory]:
    """The stored episodes of a run by iteration and id."""
    files = sorted((folder / "trajectories").glob("*.jsonl"))
    return {f"{file.stem} {one.id}": one for file in files for one in read_trajectories(file)}


def images(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield key and pixels of every image that the stored episodes saw; each is decoded and compared with its name."""
    for episode in episodes(folder).values():
        for image in images_of(episode):
            yield image.key, image.image


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "images").rglob("*") if path.is_file()}


def weights(folder: Path, step: int) -> dict[str, Any]:
    return load_file(folder / f"checkpoints/{step:06d}/model.safetensors")


def metrics(folder: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in row.items() if not re.search(OF_TIME, k)} for row in rows if row["phase"] == "train"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in one process."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(run_of(folder))
    return folder


def same(folder: Path, whole: Path, steps: int, *, tolerance: float = 0.0) -> None:
    """Check that a run played the same episodes, with the same images, and ended with the same weights."""
    mine, others = episodes(folder), episodes(whole)
    assert mine.keys() == others.keys()
    for name, other in others.items():
        assert [turn.images for turn in mine[name].turns] == [turn.images for turn in other.turns], name
        assert [turn.response for turn in mine[name].turns] == [turn.response for turn in other.turns], name
    assert dict(images(folder)).keys() == dict(images(whole)).keys()
    for name, tensor in weights(whole, steps).items():
        np.testing.assert_allclose(weights(folder, steps)[name], tensor, rtol=0, atol=tolerance, err_msg=name)
    for row, other in zip(metrics(folder), metrics(whole), strict=True):
        for key, value in other.items():
            close = pytest.approx(value, rel=1e-3, abs=1e-4) if tolerance and isinstance(value, float) else value
            assert row[key] == close, key


CHILD = """
import sys, time
from turncredit.training import Run, train
left = 3
def tell(event):
    global left
    left -= (event.get("phase"), event.get("what")) == ("tick", "rollout")
    if left == 0:
        print("here", flush=True)
        time.sleep(600)  # to be killed now, and not some time later
train(Run.load(sys.argv[1]), on_event=tell)
"""


@pytest.mark.waits
def test_killed_and_resumed_it_ends_as_if_it_was_not(whole: Path, tmp_path: Path) -> None:
    folder, file = tmp_path / "run", tmp_path / "run.toml"
    file.write_text(effective_toml(run_of(folder)))
    child = WarmPopen(
        [sys.executable, "-c", CHILD, str(file)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert child.stdout is not None
    assert "here\n" in child.stdout
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert train(Run.load(file), resume=True).finished
    same(folder, whole, 4)
    assert not [name for name in files(folder) if name.endswith(".part")]


def test_half_an_image_that_a_killed_writer_left_is_nothing(whole: Path, tmp_path: Path) -> None:
    """The name of what is being written is not that of an image, and the next writer stores the image whole."""
    key, pixels = next(images(whole))
    store = ImageStore(tmp_path)
    path = tmp_path / key[:2] / f"{key}.png"
    path.parent.mkdir()
    path.with_name(f".{path.name}.1.part").write_bytes(b"\x89PNG")
    store.add([image for one in episodes(whole).values() for image in images_of(one) if image.key == key])
    assert np.array_equal(store.image(key).image, pixels)


def test_images_go_with_the_last_episode_that_saw_them(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    kept = {"checkpoints": {"every": 1, "keep": 1, "keep_trajectories": 1}, "env": {"kwargs": {"pictures": 64}}}
    train(run_of(folder, **kept, train={"iterations": 5}))
    names = sorted(path.stem for path in (folder / "trajectories").glob("*.jsonl"))
    assert "000005" in names
    assert len(names) < 5
    seen = {f"{key}.png" for key, _ in images(folder)}
    assert seen <= files(folder)
    played = 5 * 2 * 3  # iterations, groups, and at most three pictures in an episode
    assert len(files(folder)) < played
    train(run_of(folder, **kept, train={"iterations": 6}), resume=True)
    assert {f"{key}.png" for key, _ in images(folder)} <= files(folder)
    assert audit(folder).passed


def test_bfloat16_on_the_cpu(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(run_of(folder, policy={"dtype": "bfloat16"}, train={"iterations": 2}))
    assert [row["iteration"] for row in metrics(folder)] == [1, 2]
    report = audit(folder)
    assert report.passed, [str(problem) for check in report.checks for problem in check.problems]
    assert dict(images(folder))


@pytest.mark.waits
def test_two_processes_play_and_learn_as_one(whole: Path, tmp_path: Path) -> None:
    train(run_of(tmp_path / "run", processes=2))
    same(tmp_path / "run", whole, 4, tolerance=1e-4)
    assert audit(tmp_path / "run").passed


@pytest.mark.slow
def test_two_ranks_learn_as_one_process(whole: Path, tmp_path: Path) -> None:
    folder, file = tmp_path / "run", tmp_path / "run.toml"
    file.write_text(effective_toml(run_of(folder)))
    launcher = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    outcome = subprocess.run(
        [*launcher, "-m", "turncredit.cli.main", "train", str(file), "--trust"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout
    same(folder, whole, 4, tolerance=1e-4)
    assert audit(folder).passed


def test_a_mixture_of_environments_that_show_images(tmp_path: Path) -> None:
    table = deepcopy(TABLE) | {"output": str(tmp_path / "run")}
    parts = [{"id": TABLE["env"]["id"], "name": name, "kwargs": {"pictures": 4}} for name in ("left", "right")]
    table["env"] = {"mix": parts}
    assert train(Run.parse(table, ["train.iterations=1", "evaluation.episodes=4"])).finished
    tasks = {episode.task.partition("/")[0] for episode in episodes(tmp_path / "run").values()}
    assert tasks == {"left", "right"}
    assert {key for key, _ in images(tmp_path / "run")} == {Path(name).stem for name in files(tmp_path / "run")}
    report = audit(tmp_path / "run")
    assert report.passed, report
