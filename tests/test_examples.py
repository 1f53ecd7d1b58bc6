"""Every example runs: as it stands it is read without a word, and made small it trains from beginning to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toys.chromium import need_chromium
from toys.tokens import CHATML
from typer.testing import CliRunner

from turncredit.cli.main import app

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.toml"))
SIZES = ("policy.new.hidden=32", "policy.new.layers=1", "policy.new.heads=1")
ELSEWHERE = (  # an example with a pretrained model, on a CPU and with a tiny model
    "agent.max_tokens=16",
    "policy.context=8192",
    "policy.device=cpu",
    "policy.dtype=float32",
    "sampler.engine=transformers",
    "sampler.kv_cache_gib=0.0",
    "sampler.options={}",
    "imitation.demonstrator=expert",
)
SMALL = (
    "threads=1",
    "agent.max_turns=3",
    "imitation.episodes=2",
    "imitation.epochs=1",
    "imitation.won_only=false",  # three turns do not succeed
    "train.iterations=1",
    "train.groups=2",
    "train.group_size=2",
    "evaluation.episodes=3",
)


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a chat template, which takes the place of a pretrained one."""
    from turncredit.training.learner.policy import build_policy, save_policy

    model, tokenizer = build_policy(
        ["go to the sink and clean a mug", "<|im_start|>"], hidden=32, layers=1, context=8192
    )
    tokenizer.chat_template = CHATML
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_policy(model, tokenizer, folder)
    return folder


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_is(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 72
    assert lines[0].startswith("# ")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.waits] if "MiniWoB" in path.read_text("utf-8") else [])
        for path in EXAMPLES
    ],
    ids=lambda path: path.stem,
)
def test_an_example_trains(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    text, more = path.read_text(encoding="utf-8"), [*SIZES]
    if "MiniWoB" in text:
        need_chromium(miniwob=True)
    if "ALFWORLD_DATA" in text:
        monkeypatch.setenv("ALFWORLD_DATA", str(request.getfixturevalue("data_dir") / "alfworld"))
    if "items_shuffle_1000" in text:
        shop = request.getfixturevalue("data_dir") / "webshop"
        more += [f"env.kwargs.products={shop / 'items_shuffle_1000.reconstructed.json'}"]
        more += [f"env.kwargs.attributes={shop / 'items_ins_v2_1000.json'}"]
    if "\nmodel = " in text and "\nobservation = " in text:  # the tiny model does not see
        more += ["env.kwargs={apps=['Settings']}"]
    if "\nmodel = " in text:
        more = [*more[len(SIZES) :], *ELSEWHERE, f"policy.model={request.getfixturevalue('chat_model')}"]
    done = CliRunner().invoke(app, ["train", str(path), *SMALL, *more, "--output", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "finished 1 iteration:" in done.output
    after = json.loads((tmp_path / "run" / "after.json").read_text(encoding="utf-8"))
    assert len(after["rows"]) == 3
    assert not any(row["error"] for row in after["rows"])
    assert len({row["task"] for row in after["rows"]}) == 3


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"alfworld", "demo"}
