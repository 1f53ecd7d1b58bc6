"""Training with a served engine, which reads new weights and is held to the learner's log-probabilities."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import toys.corridor
from toys.openai_server import ToyServer, error

from turncredit.agents.errors import EngineFailed
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.engines.openai import failures as openai_failures
from turncredit.training import ConfigError, Run, TrainingError, train
from turncredit.training.learner.policy import build_policy, save_policy

pytest.importorskip("httpx")
torch.set_num_threads(1)

TABLE: dict[str, Any] = {
    "threads": 1,
    "trajectory_format": ".jsonl",
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3]}},
    "agent": {"max_turns": 3, "max_tokens": 6},
    "policy": {"context": 400},
    "train": {"iterations": 2, "groups": 2, "group_size": 3, "lr": 1e-2},
    "checkpoints": {"every": 1},
    "evaluation": {"episodes": 0},
    "sampler": {"engine": "openai", "options": {"tokens": True, "model": "tiny", "retries": 1}},
}


@dataclass
class Served:
    """A server whose model has other weights than the policy, and the policy's folder."""

    server: ToyServer
    url: str
    policy: Path

    def run(self, folder: Path, *overrides: str) -> Run:
        given = [f'output="{folder}"', f'policy.model="{self.policy}"', f'sampler.url="{self.url}"']
        return Run.parse(TABLE, [*given, *overrides])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(openai_failures, "FIRST_WAIT", 0.001)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    texts = ["You are in room 1 of 3. There is a key here.", "go east", "take key", "unlock door"] * 3
    module, tokenizer = build_policy(texts, vocab=280, hidden=32, layers=1, heads=1, context=400)
    save_policy(module, tokenizer, tmp_path / "policy")
    stale = copy.deepcopy(module)
    with torch.no_grad():
        for weight in stale.parameters():
            weight.mul_(1.5)
    server = ToyServer(stale, tokenizer, context=400)
    with server.serve() as url:
        yield Served(server, url, tmp_path / "policy")


def test_a_run_samples_from_the_server_with_the_learners_weights(served: Served, tmp_path: Path) -> None:
    outcome = train(served.run(tmp_path / "run"))
    assert (outcome.finished, outcome.step) == (True, 2)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    gaps = [value for row in rows for name, value in row.items() if "gap" in name and value is not None]
    assert gaps
    assert max(gaps) < 1e-4
    assert len(served.server.sent("/collective_rpc")) >= 2
    turns = [
        turn
        for file in sorted((tmp_path / "run").rglob("*.jsonl"))
        if file.name != "metrics.jsonl"
        for episode in read_trajectories(file)
        for turn in episode.turns
    ]
    assert {turn.version for turn in turns} == {0, 1}
    assert all(len(turn.logprobs) == len(turn.response) > 0 for turn in turns)


def test_a_server_that_keeps_old_weights_stops_the_run(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ignore(body: Any) -> Any:
        return {"results": [None]}

    monkeypatch.setattr(served.server, "_collective_rpc", ignore)
    with pytest.raises(TrainingError, match=r"(?i)log-prob"):
        train(served.run(tmp_path / "run"))


def test_a_black_box_and_another_tokenizer_are_refused_before_the_first_episode(served: Served, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="returns no token ids"):
        train(served.run(tmp_path / "one", "sampler.options.tokens=false"))
    module, tokenizer = build_policy(["other words"] * 3, vocab=300, hidden=32, layers=1, heads=1, context=400)
    save_policy(module, tokenizer, tmp_path / "other")
    with pytest.raises(EngineFailed, match="differs from this model's"):
        train(served.run(tmp_path / "two", f'policy.model="{tmp_path / "other"}"'))
    assert not served.server.sent("/completions")


def test_a_server_that_dies_ends_the_run_with_one_sentence(served: Served, tmp_path: Path) -> None:
    served.server.always = error(503, "gone")
    with pytest.raises(EngineFailed, match="gone") as caught:
        train(served.run(tmp_path / "run"))
    assert "\n" not in str(caught.value)
