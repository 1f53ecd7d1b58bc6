"""HAPO's redistribution by entropy: uncertain tokens learn more once they move, sure tokens while they stay."""

import numpy as np
import numpy.typing as npt

from turnwise.credit.blocks import check_flag, check_number
from turnwise.credit.steps import Bools, Floats
from turnwise.credit.tokens.packed import TransformedAdvantages, inside, packed


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
    """Return the advantages, scaled by each token's standing in entropy where its probability ratio calls for it.

        A'[t] = A[t] * (1 + beta * h[t])        if h[t] > 0 and the ratio is outside the neutral zone,
                                                or h[t] <= 0 and it is inside; A[t] elsewhere
        zone: 1 - low / 2 < ratio < 1 + high / 2
        low = clip_low * (1 - clip_alpha * h) where h <= 0        high = clip_high * (1 + clip_alpha * h) where h > 0

    with the plain clip_low and clip_high on the other side, and h of `entropy_standing`. At the first step on a batch
    every ratio is 1, and only sure tokens change: they lose.

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        entropy: float [B, L], entropy of the policy at the token, nats.
        ratio: float [B, L], probability under the policy over that under the old one; None stands for 1 everywhere.
        beta: strength.
        pivot: see `entropy_standing`.
        clip_low, clip_high: the objective's clip range.
        clip_alpha: how far the range widens with h; 0 where the objective does not widen it.
        released: take h as the published code has it (see `entropy_standing`).

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option has an impossible value.
        BadTable: shapes differ, or a number is not finite.

    Source: Liu et al. 2025, arXiv 2509.16591. We differ in the sign of h for sure tokens, which the published code
    loses; `released=True` gives its figures.
    """
    for name, value in (("beta", beta), ("clip_low", clip_low), ("clip_high", clip_high), ("clip_alpha", clip_alpha)):
        check_number(name, value, 0.0)
    check_number("pivot", pivot, 0.0, 1.0)
    check_flag("released", released)
    values, chosen = packed("hapo", advantages, mask)
    standing = entropy_standing(inside("hapo", "entropy", entropy, chosen), chosen, pivot=pivot, released=released)
    moved = np.ones(values.shape) if ratio is None else inside("hapo", "ratio", ratio, chosen)
    low = clip_low * (1.0 - clip_alpha * np.minimum(standing, 0.0))
    high = clip_high * (1.0 + clip_alpha * np.maximum(standing, 0.0))
    neutral = (moved > 1.0 - low / 2.0) & (moved < 1.0 + high / 2.0)
    changed = np.where(standing > 0.0, ~neutral, neutral)
    return TransformedAdvantages(np.where(changed, values * (1.0 + beta * standing), values), chosen)


def entropy_standing(entropy: Floats, mask: Bools, *, pivot: float = 0.8, released: bool = False) -> Floats:
    """Return h, each token's standing in entropy among the tokens of the batch, float64 [B, L] from -1 to 1.

        x = log max(entropy, 1e-8) - its pivot-quantile        h = x / max x where x > 0, x / |min x| where x < 0

    The quantile is the nearest token's, so some token has h = 0. Outside the mask h is zero.

        >>> entropy_standing(np.exp([[0.0, 1.0, 2.0]]), np.ones((1, 3), dtype=bool), pivot=0.5).tolist()
        [[-1.0, 0.0, 1.0]]

    Args:
        entropy: float64 [B, L], nats.
        mask: bool [B, L].
        pivot: the quantile, in [0, 1].
        released: divide by min x itself, as the published code does: sure tokens then look uncertain (h in [0, 1]).
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
