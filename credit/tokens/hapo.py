"""HAPO's redistribution of advantages by token entropy and probability ratio."""

import numpy as np
import numpy.typing as npt

from turncredit.credit.option_checks import check_flag, check_number
from turncredit.credit.steps import Bools, Floats
from turncredit.credit.tokens.packed import TransformedAdvantages, inside, packed


def hapo(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    entropy: npt.ArrayLike,
    ratio: npt.ArrayLike | None = None,
    beta: float = 1.0,
    pivot: float = 0.8,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    clip_alpha: float = 1.0,
    released: bool = False,
) -> TransformedAdvantages:
    """Return the advantages, scaled by relative token entropy depending on the probability ratio.

        A'[t] = A[t] * (1 + beta * h[t])        if h[t] > 0 and the ratio is outside the neutral zone,
                                                or h[t] <= 0 and it is inside; A[t] elsewhere
        zone: 1 - low / 2 < ratio < 1 + high / 2
        low = clip_low * (1 - clip_alpha * h) where h <= 0        high = clip_high * (1 + clip_alpha * h) where h > 0

    with clip_low and clip_high otherwise, and h from `relative_entropy`. At the first step on a batch every ratio is 1,
    and only tokens of low entropy change.

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        entropy: float [B, L], entropy of the policy at the token, nats.
        ratio: float [B, L], probability under the policy over that under the old one; None means 1 everywhere.
        beta: strength.
        pivot: see `relative_entropy`.
        clip_low, clip_high: the objective's clip range.
        clip_alpha: widening of the range with h; 0 for a fixed range.
        released: use h of the published code (see `relative_entropy`).

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option has an impossible value.
        BadTable: shapes differ, or a number is not finite.

    Source: Liu et al. 2025, arXiv 2509.16591. We keep the sign of h for tokens of low entropy, which the published
    code loses; `released=True` reproduces it.
    """
    for name, value in (("beta", beta), ("clip_low", clip_low), ("clip_high", clip_high), ("clip_alpha", clip_alpha)):
        check_number(name, value, 0.0)
    check_number("pivot", pivot, 0.0, 1.0)
    check_flag("released", released)
    values, chosen = packed("hapo", advantages, mask)
    relative = relative_entropy(inside("hapo", "entropy", entropy, chosen), chosen, pivot=pivot, released=released)
    moved = np.ones(values.shape) if ratio is None else inside("hapo", "ratio", ratio, chosen)
    low = clip_low * (1.0 - clip_alpha * np.minimum(relative, 0.0))
    high = clip_high * (1.0 + clip_alpha * np.maximum(relative, 0.0))
    neutral = (moved > 1.0 - low / 2.0) & (moved < 1.0 + high / 2.0)
    changed = np.where(relative > 0.0, ~neutral, neutral)
    return TransformedAdvantages(np.where(changed, values * (1.0 + beta * relative), values), chosen)


def relative_entropy(entropy: Floats, mask: Bools, *, pivot: float = 0.8, released: bool = False) -> Floats:
    """Return h, the entropy of each token relative to the batch, float64 [B, L] in [-1, 1].

        x = log max(entropy, 1e-8) - its pivot-quantile        h = x / max x where x > 0, x / |min x| where x < 0

    The quantile is that of the nearest token. Outside the mask h is zero.

        >>> relative_entropy(np.exp([[0.0, 1.0, 2.0]]), np.ones((1, 3), dtype=bool), pivot=0.5).tolist()
        [[-1.0, 0.0, 1.0]]

    Args:
        entropy: float64 [B, L], nats.
        mask: bool [B, L].
        pivot: the quantile, in [0, 1].
        released: divide by min x instead of |min x|, as in the published code; h is then in [0, 1].
    """
    out = np.zeros(mask.shape)
    logs = np.log(np.maximum(entropy[mask], 1e-8))
    if not len(logs):
        return out
    nearest = int(np.rint(pivot * (len(logs) - 1)))
    distance = logs - np.partition(logs, nearest)[nearest]
    above, below = max(float(distance.max()), 1e-8), min(float(distance.min()), -1e-8)
    scaled = np.where(distance > 0.0, distance / above, distance / -below)
    out[mask] = np.abs(scaled) if released else scaled
    return out
