"""`turncredit bench openai:MODEL@URL` against a real server: tokens, price, refusals, and a server that goes away."""

from __future__ import annotations

from pathlib import Path

import pytest
from toys.benchmarks import SUITE
from toys.commands import Call, one_sentence
from toys.openai_server import NAME, Fault, ToyServer

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.engines.openai import failures as openai_failures
from turncredit.evaluation.benchmark_card import Card
from turncredit.training.learner.policy import build_policy

pytestmark = pytest.mark.waits

KEY = "sk-this-is-secret-4711"
REFUSAL = {"message": {"role": "assistant", "content": None, "refusal": "I cannot help."}, "finish_reason": "stop"}
SAID = "<think>So.</think><action>{}</action>"  # as a suite is asked whose panels say nothing about it
FIRST = list(map(SAID.format, ["take key", "go east", "unlock door", "go east"]))
SECOND = list(map(SAID.format, ["go east", "take key", "unlock door", "go east"]))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ToyServer:
    module, tokenizer = build_policy(["You see a door."] * 3, vocab=300, hidden=32, layers=1, heads=1, context=2048)
    tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    monkeypatch.setattr(openai_failures, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return ToyServer(module, tokenizer, context=2048, key=KEY)


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    suite = tmp_path / "tiny.toml"
    suite.write_text(SUITE, encoding="utf-8")
    prices = ["sampler.input_price=1000", "sampler.output_price=2000", "sampler.retries=1"]
    return [*prices, "--suite", suite, "--panel", "short", "--concurrency", 1, "--output", tmp_path / "out"]


def test_a_server_is_benchmarked(turncredit: Call, server: ToyServer, words: list[object], tmp_path: Path) -> None:
    server.script.extend([REFUSAL, *FIRST, *SECOND])
    with server.serve() as url:
        said = turncredit("bench", f"openai:{NAME}@{url}", *words)
    assert said.code == 0, said.err
    assert "1 of 9 answers were refused" in said.out
    (panel,) = Card.load(tmp_path / "out/card.json").panels
    assert panel.result is not None
    rows = panel.result.rows
    assert [(row.won, row.turns, row.refused) for row in rows] == [(True, 5, 1), (True, 4, 0)]
    assert rows[1].prompt_tokens > 4 * rows[1].response_tokens > 0
    for row in rows:
        assert row.cost == pytest.approx((1000 * row.prompt_tokens + 2000 * row.response_tokens) / 1e6)
    for file in (tmp_path / "out").iterdir():
        assert KEY not in file.read_text(errors="replace"), file


def test_a_request_that_fails_costs_one_attempt_and_a_server_that_is_gone_ends_it(
    turncredit: Call, server: ToyServer, words: list[object], tmp_path: Path
) -> None:
    server.faults.extend([Fault(400, '{"error": {"message": "no", "code": "bad"}}')])
    server.script.extend([*SECOND, *FIRST])  # the first task fails, and is played again after the second
    with server.serve() as url:
        name = f"openai:{NAME}@{url}"
        said = turncredit("bench", name, *words)
        assert said.code == 0, said.err
        (panel,) = Card.load(tmp_path / "out/card.json").panels
        assert panel.result is not None
        assert panel.result.summary().success.k == 2
        assert panel.reason == ""
    said = turncredit("bench", f"openai:{NAME}@{url}", *words[:-1], tmp_path / "gone")
    one_sentence(said, "127.0.0.1")
