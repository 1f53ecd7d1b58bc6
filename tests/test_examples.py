"""Every example runs: as it stands it is read without a word, and made small it trains from beginning to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnwise.cli.main import app

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.toml"))
SMALL = (
    "threads=1",
    "agent.max_turns=3",
    "policy.hidden=32",
    "policy.layers=1",
    "policy.heads=1",
    "imitation.episodes=4",
    "imitation.epochs=1",
    "imitation.won_only=false",  # three turns do not succeed
    "train.steps=1",
    "train.tasks=2",
    "train.group=2",
    "evaluation.episodes=3",
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_is(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60
    assert lines[0].startswith("# ")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_trains(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    if "ALFWORLD_DATA" in path.read_text(encoding="utf-8"):
        monkeypatch.setenv("ALFWORLD_DATA", str(request.getfixturevalue("data_dir") / "alfworld"))
    done = CliRunner().invoke(app, ["train", str(path), *SMALL, "--output", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "finished 1 iteration:" in done.output
    after = json.loads((tmp_path / "run" / "after.json").read_text(encoding="utf-8"))
    assert len(after["rows"]) == 3
    assert not any(row["error"] for row in after["rows"])
    assert len({row["task"] for row in after["rows"]}) == 3


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"alfworld", "demo"}
