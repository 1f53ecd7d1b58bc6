"""`turnwise demo`: what it trains and says, and folders that are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Call, one_sentence


def test_a_demo_trains_evaluates_draws_and_says_where(turnwise: Call, run_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "demo"
    words = ("demo", "--config", run_file, "--method", "grpo", "--seed", 1, "--output", folder)
    said = turnwise(*words)
    assert said.code == 0, said.err
    for part in ("warm start", "trained", "all tasks", "McNemar", "success while training", "play --policy"):
        assert part in said.out
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert 'method = "grpo"' in (folder / "run.toml").read_text()
    one_sentence(turnwise(*words), "already holds a run")


def test_a_demo_without_evaluation_is_refused(turnwise: Call, run_file: Path, tmp_path: Path) -> None:
    one_sentence(
        turnwise("demo", "--config", run_file, "--output", tmp_path / "x", "evaluation.episodes=0"),
        "evaluation.episodes",
    )


def test_demo_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.cli.demo import choose_folder

    monkeypatch.chdir(tmp_path)
    first = Path("runs/demo-gigpo-0")
    assert choose_folder(None, "gigpo", 0) == (first, False)
    first.mkdir(parents=True)
    (first / "run.toml").touch()
    assert choose_folder(None, "gigpo", 0) == (first, True)
    (first / "after.json").touch()
    assert choose_folder(None, "gigpo", 0) == (Path("runs/demo-gigpo-0-2"), False)
    assert choose_folder(first, "gigpo", 0) == (first, False)


def test_a_second_run_in_the_same_folder_is_refused(turnwise: Call, trained: Path) -> None:
    import fcntl

    with (trained / ".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        one_sentence(turnwise("train", trained, "--resume"), "another process")
