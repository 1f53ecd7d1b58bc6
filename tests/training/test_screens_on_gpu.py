"""On a CUDA device, models that see are computed alike by the sampler, the learner, plain torch and the CPU."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from toys.seen_episodes import plain, played
from toys.vision import FAMILIES

from turncredit.agents.agent import Agent
from turncredit.training.batch.batch import pack
from turncredit.training.learner.logprobs import TokenScorer

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), ("bfloat16", 0.1)])
@pytest.mark.parametrize("name", FAMILIES)
def test_sampler_learner_and_plain_torch_give_the_same_log_probabilities(
    name: str, dtype: str, bound: float, monkeypatch: pytest.MonkeyPatch
):
    model, tokenizer = FAMILIES[name]()
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # which torch allows for convolutions by default
    on_cpu = copy.deepcopy(model)
    model = model.to("cuda", getattr(torch, dtype))
    groups = played(model, tokenizer, Agent(chat=tokenizer), device="cuda")
    turns = [turn for trajectory in groups[0].trajectories for turn in trajectory.turns]
    with torch.no_grad():
        here = np.concatenate([plain(model, tokenizer, turn).float().cpu().numpy() for turn in turns])
        there = np.concatenate([plain(on_cpu, tokenizer, turn).numpy() for turn in turns])
    sampled = np.concatenate([turn.logprobs for turn in turns])
    batch = pack(groups, merge=False)
    scored = TokenScorer(model, tokenizer=tokenizer).score(batch).logprobs[batch.mask]
    rows = [(number, token) for number, turn in enumerate(turns) for token in turn.response]
    for way, numbers in {"sampler": sampled, "learner": scored, "CPU": there}.items():
        far = np.flatnonzero(~(np.abs(numbers - here) < bound))
        wrong = [(*rows[at], float(numbers[at]), float(here[at])) for at in far]
        assert not wrong, f"{way}: (turn, token, its log-probability, that of plain torch): {wrong}"
