"""top_k, min_p and top_p together: which tokens are kept, and with which probabilities, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turncredit.agents.agent import Agent  # noqa: E402
from turncredit.agents.errors import AgentError  # noqa: E402
from turncredit.engines.transformers.token_sampling import LARGE, sample_tokens  # noqa: E402
from turncredit.evaluation.benchmark import agent_settings  # noqa: E402


def kept(logits: np.ndarray, temperature: float, top_k: int, min_p: float, top_p: float) -> np.ndarray:
    """The probabilities of a row after min_p, top_k and top_p, in this order; in numpy, token by token."""
    p = np.exp(logits / temperature - (logits / temperature).max())
    p /= p.sum()
    inside = p >= min_p * p.max()
    if top_k:
        inside &= p >= sorted(p, reverse=True)[min(top_k, len(p)) - 1]
    p = np.where(inside, p, 0.0) / p[inside].sum()
    if top_p < 1:
        mass, chosen = 0.0, np.zeros(len(p), dtype=bool)
        for token in np.argsort(-p, kind="stable"):
            if mass >= top_p:
                break
            chosen[token], mass = True, mass + p[token]
        p = np.where(chosen, p, 0.0) / p[chosen].sum()
    return p


HOW = [
    (1.0, 3, 0.0, 1.0),
    (1.0, 1, 0.0, 1.0),
    (1.0, 100_000, 0.0, 1.0),
    (0.7, 0, 0.3, 1.0),
    (1.0, 0, 1.0, 1.0),
    (1.5, 5, 0.05, 1.0),
    (0.7, 8, 0.1, 0.8),
    (1.0, 4, 0.0, 0.6),
    (2.0, 0, 0.2, 0.9),
]


@pytest.mark.parametrize(("temperature", "top_k", "min_p", "top_p"), HOW)
@pytest.mark.parametrize("size", [12, LARGE + 300])
def test_every_token_that_is_kept_has_its_probability(
    size: int, temperature: float, top_k: int, min_p: float, top_p: float
) -> None:
    rng = np.random.default_rng(size + top_k)
    logits = rng.normal(size=size) * 3
    p = kept(logits, temperature, top_k, min_p, top_p)
    rows = 400
    uniform = (np.arange(rows) + 0.5) / rows
    tokens, logprobs = sample_tokens(
        torch.tensor(logits, dtype=torch.float32).expand(rows, size),
        [temperature] * rows,
        [top_p] * rows,
        uniform,
        top_k=[top_k] * rows,
        min_p=[min_p] * rows,
    )
    assert logprobs == pytest.approx(np.log(p[tokens]).tolist(), abs=1e-4)  # -inf if one was not kept
    shares = np.bincount(tokens, minlength=size) / rows
    assert np.abs(shares - p).max() <= 2 / rows  # the uniform numbers are a ladder


def test_rows_do_not_mix_and_rows_without_limits_are_what_they_were() -> None:
    rng = np.random.default_rng(1)
    logits = torch.tensor(rng.normal(size=(len(HOW) + 2, 40)), dtype=torch.float32)
    uniform = rng.random(len(logits))
    how = [*HOW, (1.0, 0, 0.0, 1.0), (0.0, 3, 0.5, 0.5)]
    heat, count, least, mass = map(list, zip(*how, strict=True))
    tokens, logprobs = sample_tokens(logits, heat, mass, uniform, top_k=count, min_p=least)
    for row, (t, k, m, p) in enumerate(how):
        alone = sample_tokens(logits[row : row + 1], [t], [p], uniform[row : row + 1], top_k=[k], min_p=[m])
        assert (tokens[row], logprobs[row]) == (alone[0][0], pytest.approx(alone[1][0], abs=1e-6))
    whole = sample_tokens(logits[-2:], heat[-2:], mass[-2:], uniform[-2:])
    assert (tokens[-2:], logprobs[-2:]) == whole  # the last row is greedy: its log-probability is the model's own


def test_tokens_as_probable_as_the_last_one_are_kept_and_impossible_ones_are_not() -> None:
    logits = torch.tensor([[2.0, 1.0, 1.0, -torch.inf, 0.0]]).expand(200, 5)
    uniform = (np.arange(200) + 0.5) / 200
    tokens, _ = sample_tokens(logits, [1.0] * 200, [1.0] * 200, uniform, top_k=[2] * 200)
    assert set(tokens) == {0, 1, 2}
    tokens, _ = sample_tokens(logits, [1.0] * 200, [1.0] * 200, uniform, top_k=[5] * 200)
    assert set(tokens) == {0, 1, 2, 4}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"top_k": -1}, "top_k must be an integer >= 0, got -1"),
        ({"top_k": 2.5}, "top_k must be an integer >= 0, got 2.5"),
        ({"top_k": True}, "top_k must be an integer >= 0, got True"),
        ({"min_p": 1.5}, r"min_p must be in \[0, 1\], got 1.5"),
        ({"min_p": "0.1"}, "min_p must be a number, got '0.1'"),
    ],
)
def test_an_agent_refuses_limits_that_mean_nothing(options: dict[str, object], said: str) -> None:
    with pytest.raises(AgentError, match=said):
        Agent.from_options(**options)


def test_limits_are_among_the_settings_that_can_change_a_result() -> None:
    settings = agent_settings(Agent(top_k=20, min_p=0.05))
    assert (settings["top_k"], settings["min_p"]) == (20, 0.05)
    assert not {"top_k", "min_p"} & set(agent_settings(Agent()))
