"""Bad input at the command line: one sentence, exit code 2, and nothing lost that was finished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import one_sentence

Call = Any
ENV = "toys/Corridor-v0"
HOUSE = "turnwise/Household-v0"


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


# ---- games ----


@pytest.mark.parametrize("words", [("eval", "random", HOUSE), ("play", HOUSE), ("check", HOUSE)])
def test_missing_torn_and_absent_games(turnwise: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    games = tmp_path / "games"
    one_sentence(turnwise(*words, f"games={games}"), "no such file or folder")
    games.mkdir()
    one_sentence(turnwise(*words, f"games={games}"), "no games in", "game.tw-pddl")
    assert turnwise("data", "generate", games, "--count", "2", "--level", "tiny").code == 0
    file = sorted(games.rglob("game.tw-pddl"))[0]
    file.write_bytes(file.read_bytes()[:500])
    one_sentence(turnwise(*words, f"games={games}"), f"{file}, line 1", "damaged file")
    one_sentence(turnwise("data", "pack", games, tmp_path / "out.jsonl"), f"{file}, line 1", "damaged file")
    assert not (tmp_path / "out.jsonl").exists()


# ---- panels and results ----


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"tasks": 3}, "is not a panel: tasks"),
        ({"tasks": "abc"}, "is not a panel: tasks"),
        ({"tasks": [1, 2]}, "is not a panel: tasks.0"),
        ({"seed": "x"}, "is not a panel: seed"),
        ({"kwargs": [1]}, "is not a panel: kwargs"),
        ({"kwargs": {"lenghts": [3]}}, "did you mean 'lengths'"),
        ({"env": 3}, "is not a panel: env"),
        ({"env": "toys/Coridor-v0"}, "did you mean 'toys/Corridor-v0'"),
        ({"tasks": ["nothing"]}, "every episode failed; the first error: UnknownTask"),
        ({"seed": -1}, "greater or equal to zero"),
    ],
)
def test_panels_that_cannot_be_played(turnwise: Call, tmp_path: Path, change: dict[str, Any], part: str) -> None:
    panel = {"env": ENV, "kwargs": {}, "seed": 0, "tasks": ["open-3-1"], **change}
    (tmp_path / "panel.json").write_text(json.dumps({"version": 1, "panel": panel}))
    one_sentence(turnwise("eval", "random", "--panel", tmp_path / "panel.json"), part)


@pytest.mark.parametrize(
    ("key", "value"), [("won", "x"), ("score", None), ("turns", 1.5), ("task", [1]), ("stop", 3), ("unparsable", "x")]
)
def test_results_with_values_of_another_kind(turnwise: Call, tmp_path: Path, key: str, value: object) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    assert turnwise("eval", "random", ENV, "--episodes", 2, "--output", good).code == 0
    content = json.loads(good.read_text())
    content["rows"][1][key] = value
    bad.write_text(json.dumps(content))
    one_sentence(turnwise("compare", good, bad), f"{bad} is not an evaluation result: rows.1.{key}")


# ---- runs ----


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "seed=" + "9" * 5000, "\xff"], ids=["deep", "digits", "latin"])
def test_files_without_end_are_no_toml(turnwise: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "run.toml").write_text(text, encoding="latin-1")
    one_sentence(turnwise("train", tmp_path / "run.toml"), "is not a TOML file")


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("seed=" + "9" * 5000, "seed must be "),
        ("seed=" + "[" * 100_000, "seed must be "),
        ('output="a\\u0000b"', "output: "),
        ("train.lr=1e300", "train.lr must be <= 1"),
        ("objective.kl=nan", "objective.kl must be finite"),
        ("agent.max_tokens=500", "policy.context is 400, but the first prompt of a task has"),
    ],
)
def test_values_that_no_run_can_have(turnwise: Call, run_file: Path, tmp_path: Path, override: str, part: str) -> None:
    folder = () if override.startswith("output") else ("--output", tmp_path / "run")
    one_sentence(turnwise("train", run_file, override, "train.steps=1", *folder), part)


def test_a_checkpoint_with_the_tokenizer_of_another_is_refused(turnwise: Call, run_file: Path, copy: Path) -> None:
    from turnwise.training.policy import build_tokenizer

    checkpoint = max((copy / "checkpoints").iterdir())
    build_tokenizer(["other words"], vocab=270).save_pretrained(checkpoint)
    one_sentence(turnwise("eval", checkpoint, ENV), "is damaged: tokenizer")
    text = run_file.read_text().replace("vocab = 300\nhidden = 48\nlayers = 1\nheads = 2\n", f'path = "{checkpoint}"\n')
    (copy / "next.toml").write_text(text)
    one_sentence(turnwise("train", copy / "next.toml", "--output", copy / "next"), "is damaged: tokenizer")


def test_a_checkpoint_of_another_version_is_refused(turnwise: Call, copy: Path) -> None:
    from turnwise.training.checkpoint import MANIFEST, manifest

    checkpoint = max((copy / "checkpoints").iterdir())
    state = json.loads((checkpoint / "state.json").read_text())
    unknown = {key: value for key, value in state.items() if key != "tasks"}
    for changed, part in (({**state, "version": 99}, "(99)"), (unknown, "it lacks tasks")):
        (checkpoint / "state.json").write_text(json.dumps(changed))
        (checkpoint / MANIFEST).write_text(json.dumps(manifest(checkpoint)))
        one_sentence(turnwise("train", copy, "--resume", "train.steps=3"), "another version of turnwise", part)


def test_a_run_of_another_device_is_evaluated_on_the_cpu(turnwise: Call, copy: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the run's device")
    text = (copy / "run.toml").read_text()
    (copy / "run.toml").write_text(text.replace('device = "cpu"', 'device = "cuda"'))
    assert 'device = "cuda"' in (copy / "run.toml").read_text()
    said = turnwise("eval", copy, "--episodes", "1")
    assert said.code == 0, said.err


def test_a_context_that_is_outgrown_is_said(turnwise: Call, trained: Path) -> None:
    said = turnwise("eval", trained, "agent.max_tokens=330", "--episodes", "2")
    assert said.code == 0, said.err
    assert "ended as: tokens 2" in said.out
