"""Gradients of single turns: those of torch, projected so that inner products keep their size."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Group
from turncredit.engines.scripted import Random

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from turncredit.training.errors import TrainingError  # noqa: E402
from turncredit.training.learner.policy import build_policy  # noqa: E402
from turncredit.training.truth.gradients import GradientSketch, as_model, turn_gradients  # noqa: E402

AGENT = Agent(max_turns=4)


@functools.cache
def played() -> tuple[Any, list[Group]]:
    """A model and two groups whose answers are some of its tokens."""
    model, tokenizer = build_policy(
        ["You see a door and a key."] * 3, vocab=300, hidden=16, layers=1, heads=1, context=2048
    )
    groups = rollout(AGENT, Random(tokenizer=tokenizer), ["open-3-1", "open-3-2"], make=Corridor, size=2)
    return model, groups


def exact(temperature: float) -> np.ndarray:
    """The gradient of each turn, whole, from all logits of its sequence."""
    model, groups = played()
    rows = []
    for group in groups:
        for trajectory in group.finished:
            for turn in trajectory.turns:
                model.zero_grad()
                ids = torch.tensor([[*turn.prompt, *turn.response]])
                logits = model(input_ids=ids).logits[0, :-1] / temperature
                picked = torch.log_softmax(logits, -1)[torch.arange(ids.shape[1] - 1), ids[0, 1:]]
                picked[len(turn.prompt) - 1 :].sum().backward()
                rows.append(
                    torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]).numpy().copy()
                )
    model.zero_grad()
    return np.stack(rows)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sketches_keep_inner_products(temperature: float) -> None:
    model, groups = played()
    told: list[int] = []
    sketches = turn_gradients(model, groups, temperature=temperature, on_turn=told.append)
    whole = exact(temperature)
    assert len(sketches) == len(whole) == len(told)
    sizes = np.linalg.norm(whole, axis=1)
    cosines = (whole @ whole.T) / np.outer(sizes, sizes)
    drawn = (sketches @ sketches.T) / np.outer(sizes, sizes)
    assert np.abs(drawn - cosines).max() < 0.15
    assert np.abs((drawn - cosines).mean()) < 0.02
    assert np.array_equal(sketches, turn_gradients(model, groups, temperature=temperature))


def test_a_frozen_model_stays_frozen() -> None:
    model, groups = played()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    try:
        assert np.abs(turn_gradients(model, groups[:1])).sum() > 0
        assert not any(parameter.requires_grad for parameter in model.parameters())
    finally:
        for parameter in model.parameters():
            parameter.requires_grad_(True)


def test_a_sketch_is_linear() -> None:
    model, _ = played()
    sketch = GradientSketch(model, dimensions=64)
    one, two = ([torch.randn_like(parameter) for parameter in sketch.parameters] for _ in range(2))
    both = sketch.of([a + 2 * b for a, b in zip(one, two, strict=True)])
    assert np.allclose(both, sketch.of(one) + 2 * sketch.of(two), atol=1e-3)
    assert not sketch.of([None] * len(one)).any()
    with pytest.raises(TrainingError, match="got int"):
        as_model(3)
