"""D3S: train on the sequences with the largest variance of advantages, and on their most informative tokens."""

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.credit.steps import Bools, Floats, Ints
from turncredit.credit.tokens.packed import TransformedAdvantages, groups, inside, packed, row_means


def d3s(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    entropy: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    sequences: float = 0.5,
    tokens: float = 0.5,
) -> TransformedAdvantages:
    """Return the unchanged advantages with a mask of the tokens to train on.

        1. of each group of n sequences keep the ceil(sequences * n) whose advantages have the largest variance
        2. of their tokens keep the share `tokens` with the largest |A[t]| * entropy[t]

    A sequence's advantage is the mean over its tokens. Equal advantages are taken in the order of the batch; tokens
    equal to the last one chosen are all kept.

        >>> d3s([[1.0], [0.1], [-1.0], [0.0]], [[1]] * 4, entropy=[[1.0]] * 4, tokens=1.0).keep[:, 0].tolist()
        [True, False, True, False]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        entropy: float [B, L], entropy of the policy at the token, nats.
        group: [B], which sequences answer the same prompt; None selects over the whole batch.
        sequences: share of sequences to keep, in (0, 1].
        tokens: share of their tokens to keep, over the batch, in (0, 1].

    Returns:
        Token advantages; `keep` is the selection.

    Raises:
        BadOption: a share is outside (0, 1].
        BadTable: shapes differ, or a number is not finite.

    Source: Wang et al. 2025, arXiv 2509.22115. Our reading: both shares, and choosing tokens over the batch.
    """
    for name, share in (("sequences", sequences), ("tokens", tokens)):
        check_number(name, share, 0.0, 1.0)
        if share == 0.0:
            raise BadOption(f"{name} must be > 0, got 0")
    values, chosen = packed("d3s", advantages, mask)
    matter = np.abs(values) * inside("d3s", "entropy", entropy, chosen)
    rows = widest(row_means(values, chosen), groups("d3s", group, chosen), sequences)
    keep = chosen & rows[:, None]
    candidates = matter[keep]
    if len(candidates):
        place = len(candidates) - _count(tokens, len(candidates))
        keep &= matter >= np.partition(candidates, place)[place]
    return TransformedAdvantages(values, keep)


def widest(advantage: Floats, group: Ints, share: float) -> Bools:
    """Return the subset of sequences with the largest variance in each group, bool [B].

    Args:
        advantage: float64 [B].
        group: compact int64 [B].
        share: of each group, rounded up.
    """
    keep = np.zeros(len(advantage), dtype=np.bool_)
    order = np.lexsort((advantage, group))
    size = np.bincount(group)
    for n in np.unique(size).tolist():  # all groups of one size at once
        members = order[size[group[order]] == n].reshape(-1, n)
        wanted = _count(share, n)
        lowest = _lowest(advantage[members], wanted)
        place = np.arange(n)
        taken = (place < lowest[:, None]) | (place >= n - wanted + lowest[:, None])
        keep[members] = taken
    return keep


def _lowest(ordered: Floats, wanted: int) -> Ints:
    """Number of lowest advantages in the subset of largest variance, int64 [groups]."""
    n = ordered.shape[1]
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    centred = centred / np.maximum(np.abs(centred).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    start = np.zeros((len(ordered), 1))
    sums = np.hstack([start, np.cumsum(centred, axis=1)])
    squares = np.hstack([start, np.cumsum(centred**2, axis=1)])
    low = np.arange(wanted + 1)
    high = n - wanted + low
    mean = (sums[:, low] + sums[:, -1:] - sums[:, high]) / wanted
    variance = (squares[:, low] + squares[:, -1:] - squares[:, high]) / wanted - mean**2
    return np.asarray(np.argmax(np.round(variance, 9), axis=1), dtype=np.int64)


def _count(share: float, n: int) -> int:
    """Share of n rounded up, at least one; rounding noise above an integer does not count."""
    return max(1, int(np.ceil(share * n - 1e-9)))
