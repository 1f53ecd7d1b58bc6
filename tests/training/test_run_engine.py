"""The engine of a run: what happens when it fails, or keeps old weights."""

import json

import pytest
import torch
import toys.corridor

from turncredit.agents.errors import EngineFailed
from turncredit.agents.models.model_folder import load_model
from turncredit.engines.base import SamplerSettings
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training import Run, train
from turncredit.training.errors import EngineMismatch
from turncredit.training.run_folder.checkpoint import Checkpoints

torch.set_num_threads(1)

TABLE = {
    "threads": 1,
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 1, "lr": 5e-3, "batch_tokens": 600},
    "sampler": {"engine": f"{__name__}:Remote"},
    "train": {"iterations": 4, "groups": 2, "group_size": 3, "optimizer_steps": 2},
    "checkpoints": {"every": 0},
    "evaluation": {"episodes": 0},
}


class Remote:
    """A sampler with a copy of the policy, as a server would hold it; it fails, or keeps old weights, on request."""

    fails_at = keeps_at = 99
    context = 400

    def __init__(self, settings: SamplerSettings) -> None:
        self.inner = TransformersSampler(load_model(settings.model), settings.tokenizer, context=self.context)
        self.tokenizer = settings.tokenizer
        self.loads = 0

    @property
    def version(self):
        return self.inner.version

    async def sample(self, request):
        if self.loads >= self.fails_at and not request.episode.startswith("probe"):
            raise EngineFailed("the server is gone")
        return await self.inner.sample(request)

    def forget(self, episode):
        self.inner.forget(episode)

    async def load(self, weights, version):
        self.loads += 1
        mine = self.inner._model
        await self.inner.load(mine if self.loads > self.keeps_at else weights, version)

    def close(self):
        self.inner.close()


def make_run(folder, *overrides):
    return Run.parse(TABLE, [f'output="{folder}"', *overrides])


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_an_engine_that_fails_costs_no_finished_iteration(tmp_path, monkeypatch):
    monkeypatch.setattr(Remote, "fails_at", 3)
    run = make_run(tmp_path / "run")
    with pytest.raises(EngineFailed, match="the server is gone"):
        train(run)
    assert Checkpoints(tmp_path / "run/checkpoints").steps() == [0, 2]
    assert "the server is gone" in lines(tmp_path / "run")[-1]["text"]
    trained = [event for event in lines(tmp_path / "run") if event["phase"] == "train"]
    assert len(trained) == 2
    assert all(0 <= event["probe_gap"] < 1e-5 and event["load_seconds"] > 0 for event in trained)
    monkeypatch.setattr(Remote, "fails_at", 99)
    assert train(run, resume=True).step == 4


def test_an_engine_that_keeps_old_weights_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Remote, "keeps_at", 1)
    with pytest.raises(EngineMismatch, match=r"see docs/engines\.md"):
        train(make_run(tmp_path / "run", "train.lr=0.05"))
    assert Checkpoints(tmp_path / "run/checkpoints").steps()[-1] >= 1


def test_the_limit_of_the_gap_can_be_lifted(tmp_path, monkeypatch):
    monkeypatch.setattr(Remote, "keeps_at", 1)
    assert train(make_run(tmp_path / "run", "train.lr=0.05", "sampler.gap_limit=0", "train.iterations=2")).finished
