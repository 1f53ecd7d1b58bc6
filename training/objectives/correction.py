"""Corrections of the sampler mismatch: factors of the loss where sampling engine and learner compute differently.

With b the log-probability from the engine and o that of the learner for the same weights, w = exp(o - b) is the
importance of a token; sequences have products or geometric means of it. Factors carry no gradient.

Not included: factors normalised to mean one, and masks that change the denominator, since both make the weight of a
token depend on the other tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from turncredit.training.errors import ConfigError
from turncredit.training.objectives.tokens import LARGEST, Tokens


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction.

    Attributes:
        about: description in one line.
        function: (tokens, low, high) -> float [M].
        low: default of the lower bound.
        high: default of the upper bound.
        whole: whether it needs whole sequences.
        weighs: whether the factor is a ratio rather than 0 or 1.
    """

    about: str
    function: Callable[[Tokens, float, float], Tensor]
    low: float
    high: float
    whole: bool
    weighs: bool = True


def _mismatch(tokens: Tokens) -> Tensor:
    """float [M], o - b, nats."""
    return tokens.old - tokens.need("rollout")


def _importance(log: Tensor) -> Tensor:
    return torch.exp(log.clamp(-LARGEST, LARGEST))


def _within(factor: Tensor, measure: Tensor, low: float, high: float) -> Tensor:
    """Return the factor where low <= measure <= high, else 0."""
    return torch.where((measure >= low) & (measure <= high), factor, torch.zeros_like(factor))


def _tis_token(tokens: Tokens, low: float, high: float) -> Tensor:
    return _importance(_mismatch(tokens)).clamp(low, high)


def _tis_sequence(tokens: Tokens, low: float, high: float) -> Tensor:
    return _importance(tokens.sequence_sum(_mismatch(tokens))).clamp(low, high)[tokens.sequence]


def _icepop(tokens: Tokens, low: float, high: float) -> Tensor:
    factor = _importance(_mismatch(tokens))
    return _within(factor, factor, low, high)


def _mis_sequence(tokens: Tokens, low: float, high: float) -> Tensor:
    factor = _importance(tokens.sequence_sum(_mismatch(tokens)))
    return _within(factor, factor, low, high)[tokens.sequence]


def _seq_mask_tis(tokens: Tokens, low: float, high: float) -> Tensor:
    mean = _importance(tokens.sequence_mean(_mismatch(tokens)))[tokens.sequence]
    return _within(_importance(_mismatch(tokens)), mean, low, high)


def _seq_mask(tokens: Tokens, low: float, high: float) -> Tensor:
    mean = _importance(tokens.sequence_mean(_mismatch(tokens)))[tokens.sequence]
    return _within(torch.ones_like(mean), mean, low, high)


def _off_policy(tokens: Tokens, low: float, high: float) -> Tensor:
    del low
    distance = tokens.sequence_mean(tokens.need("rollout") - tokens.new.detach())[tokens.sequence]
    return 1.0 - ((tokens.advantages < 0) & (distance > high)).to(distance.dtype)


CORRECTIONS: dict[str, Correction] = {
    "tis_token": Correction("token ratio, clipped to the bounds (TIS)", _tis_token, 0.0, 2.0, False),
    "tis_sequence": Correction("product ratio of the sequence, clipped to the bounds", _tis_sequence, 0.0, 2.0, True),
    "icepop": Correction("token ratio, 0 outside the bounds (IcePop)", _icepop, 0.5, 5.0, False),
    "mis_sequence": Correction(
        "product ratio of the sequence, 0 outside the bounds (MIS)", _mis_sequence, 0.0, 3.0, True
    ),
    "seq_mask_tis": Correction(
        "token ratio, 0 where the sequence's geometric mean is outside the bounds", _seq_mask_tis, 0.9, 1.1, True
    ),
    "seq_mask": Correction(
        "1, or 0 where the sequence's geometric mean is outside the bounds", _seq_mask, 0.999, 1.001, True, False
    ),
    "off_policy": Correction(
        "1, or 0 in sequences with A < 0 whose mean b - n is above the upper bound", _off_policy, 0.0, 0.1, True, False
    ),
}


def corrections(tokens: Tokens, name: str, low: float | None = None, high: float | None = None) -> Tensor:
    """Return the factor of each token's loss.

    With w = exp(o - b) a token's ratio, W the product and g the geometric mean of w over its sequence:
    tis_token clip(w, low, high); tis_sequence clip(W, low, high); icepop w, 0 outside [low, high];
    mis_sequence W, 0 outside; seq_mask_tis w, 0 where g is outside; seq_mask 1, 0 where g is outside;
    off_policy 1, 0 where A < 0 and the sequence's mean of b - n is above high. o - b is kept within +-20.

    Args:
        tokens: the tokens, with `rollout`; sequence-level corrections need whole sequences.
        name: a key of CORRECTIONS.
        low: lower bound of the ratio; None: the correction's own.
        high: upper bound of the ratio (off_policy: nats); None: the correction's own.

    Returns:
        float [M], without gradient.

    Raises:
        ConfigError: the bounds are in the wrong order.
        ValueError: there are no rollout log-probabilities.

    Source: tis as in verl and slime; icepop Ling team 2025; mis as in TRL (mode sequence_mask); seq_mask_tis as in
    OpenRLHF; off_policy DeepSeek-V3.2, as in TRL. Defaults are theirs; those of seq_mask are Dr.Kernel's, arXiv
    2602.05885.
    """
    lowest, highest = bounds(name, low, high)
    with torch.no_grad():
        return CORRECTIONS[name].function(tokens, lowest, highest)


def bounds(name: str, low: float | None, high: float | None) -> tuple[float, float]:
    """Return the bounds of a correction: the given ones, or its defaults.

    Raises:
        ConfigError: they are in the wrong order.
    """
    correction = CORRECTIONS[name]
    lowest = correction.low if low is None else low
    highest = correction.high if high is None else high
    if not 0.0 <= lowest <= highest:
        raise ConfigError(f"correction {name!r} needs bounds with 0 <= low <= high, got {lowest} and {highest}")
    return lowest, highest
