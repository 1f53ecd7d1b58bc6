"""GTPO (conflict tokens): tokens that good and bad answers share at the same place are not pushed both ways."""

import math

import numpy as np
import numpy.typing as npt

from turnwise.credit.blocks import check_number, compact
from turnwise.credit.errors import BadTable
from turnwise.credit.steps import Bools, Floats, Ints
from turnwise.credit.tokens.packed import TransformedAdvantages, groups, inside, packed, row_means


def gtpo(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    ids: npt.ArrayLike,
    entropy: npt.ArrayLike,
    group: npt.ArrayLike,
    weight: float = 2.0,
    entropy_scale: float = 0.1,
    entropy_limit: float = math.log(2.0),
) -> TransformedAdvantages:
    """Return the advantages with shared beginnings and ends spared, and with uncertain sequences left out.

        A'[t] = (A[t] - entropy_scale * H) * d[t]        where H, the sequence's mean entropy, is at most entropy_limit
        A'[t] = 0                                        in the other sequences
        d[t] = weight on conflict tokens with A > 0, 0 on those with A < 0, 1 elsewhere

    A token is in conflict if some sequence of its group has the same id at the same place with a positive advantage and
    some other with a negative one. Only the unbroken runs of such tokens at the front of a sequence (places counted
    from its first token) and at its end (counted from its last) are conflict tokens. Places count tokens inside the
    mask.

        >>> gtpo([[1.0, 1.0], [-1.0, -1.0]], [[1, 1], [1, 1]], ids=[[5, 6], [5, 7]], entropy=[[0.0, 0.0], [0.0, 0.0]],
        ...      group=[0, 0]).values.tolist()
        [[2.0, 1.0], [0.0, -1.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        ids: int [B, L], token ids.
        entropy: float [B, L], entropy of the policy at the token, nats.
        group: [B], which sequences are compared: answers to the same prompt, and the same turn of it.
        weight: factor of shared tokens in good answers.
        entropy_scale: what a nat of mean entropy takes off the advantage.
        entropy_limit: mean entropy in nats above which a sequence is left out, by a zero advantage.

    Returns:
        Token advantages; all tokens are kept, those left out with a zero.

    Raises:
        BadOption: an option has an impossible value.
        BadTable: shapes differ, a number is not finite, or an id is not whole.

    Source: Simoni et al. 2025, arXiv 2508.03772. We differ where a token is in the front run and in the end run at
    once: the published code applies the weight twice.
    """
    check_number("weight", weight, 0.0)
    check_number("entropy_scale", entropy_scale, 0.0)
    check_number("entropy_limit", entropy_limit, 0.0)
    values, chosen = packed("gtpo", advantages, mask)
    whole = inside("gtpo", "ids", ids, chosen)
    if (whole != np.floor(whole)).any():
        raise BadTable("gtpo: 'ids' must be integer token ids")
    tokens = whole.astype(np.int64)
    mean_entropy = row_means(inside("gtpo", "entropy", entropy, chosen), chosen)[:, None]
    conflict = conflict_tokens(values, chosen, tokens, groups("gtpo", group, chosen))
    shifted = values - entropy_scale * mean_entropy
    weighted = np.where(conflict & (values > 0.0), weight * shifted, shifted)
    silent = (conflict & (values < 0.0)) | (mean_entropy > entropy_limit) | ~chosen
    return TransformedAdvantages(np.where(silent, 0.0, weighted), chosen)


def conflict_tokens(values: Floats, mask: Bools, ids: Ints, group: Ints) -> Bools:
    """Return which tokens lie in an unbroken run of shared tokens at the front or the end, bool [B, L].

    Args:
        values: float64 [B, L], advantages, of which the sign counts.
        mask: bool [B, L].
        ids: int64 [B, L], token ids.
        group: compact int64 [B].
    """
    place = np.cumsum(mask, axis=1) - 1
    front = _shared(values, mask, ids, group, place)
    end = _shared(values, mask, ids, group, mask.sum(axis=1, keepdims=True) - 1 - place)
    from_front = np.logical_and.accumulate(front | ~mask, axis=1)
    from_end = np.logical_and.accumulate((end | ~mask)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray((from_front | from_end) & mask, dtype=np.bool_)


def _shared(values: Floats, mask: Bools, ids: Ints, group: Ints, place: Ints) -> Bools:
    """Whether the group has the same id at the same place with both signs, bool [B, L]."""
    row, column = np.nonzero(mask)
    key = compact(group[row], place[row, column], ids[row, column])
    sign = values[row, column]
    both = (np.bincount(key, weights=sign > 0.0) > 0.0) & (np.bincount(key, weights=sign < 0.0) > 0.0)
    out = np.zeros(mask.shape, dtype=np.bool_)
    out[row, column] = both[key]
    return out
