"""Sampling from large vocabularies draws the same tokens as from small ones."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turncredit.engines.transformers import token_sampling  # noqa: E402
from turncredit.engines.transformers.token_sampling import LARGE, sample_tokens  # noqa: E402


def logits_of(rows: int, size: int, scale: float) -> torch.Tensor:
    return torch.randn((rows, size), generator=torch.Generator().manual_seed(size)) * scale


@pytest.mark.parametrize("size", [LARGE + 1, LARGE + 256, 5003])
@pytest.mark.parametrize(("top_p", "scale"), [(1.0, 1.0), (1.0, 6.0), (0.9, 6.0), (0.9, 0.1)])
def test_two_steps_draw_what_one_step_draws(size: int, top_p: float, scale: float, monkeypatch: pytest.MonkeyPatch):
    """The last case has a nucleus that is wider than the most probable tokens that are looked at first."""
    rows = 300
    logits, uniform = logits_of(rows, size, scale), np.linspace(0.0, 1 - 2**-53, rows)
    how = ([0.8] * rows, [top_p] * rows, uniform)
    tokens, logprobs = sample_tokens(logits, *how)
    monkeypatch.setattr(token_sampling, "LARGE", size)
    expected, right = sample_tokens(logits, *how)
    # Sums of float32 may round to a neighbour at the border between two tokens.
    assert np.mean(np.array(tokens) != np.array(expected)) <= 0.01
    same = [k for k in range(rows) if tokens[k] == expected[k]]
    assert [logprobs[k] for k in same] == pytest.approx([right[k] for k in same], abs=1e-5)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("places", [[0], [LARGE + 49], [255, 256], [3, LARGE + 2]])
def test_tokens_of_probability_zero_never_come_from_large_vocabularies(uniform: float, places: list[int]):
    logits = torch.full((1, LARGE + 50), -torch.inf)
    logits[0, places] = 1.0
    tokens, logprobs = sample_tokens(logits, [1.0], [1.0], np.array([uniform]))
    assert tokens[0] in places
    assert logprobs[0] == pytest.approx(-np.log(len(places)), abs=1e-6)
