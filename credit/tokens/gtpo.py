"""GTPO (conflict tokens): no conflicting updates for tokens that good and bad answers share."""

import math

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.numerics import compact
from turncredit.credit.option_checks import check_number
from turncredit.credit.steps import Bools, Floats, Ints
from turncredit.credit.tokens.packed import TransformedAdvantages, groups, inside, packed, row_means


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
    """Return the advantages with conflict tokens reweighted and uncertain sequences set to zero.

        A'[t] = (A[t] - entropy_scale * H) * d[t]        where H, the sequence's mean entropy, is at most entropy_limit
        A'[t] = 0                                        in the other sequences
        d[t] = weight on conflict tokens with A > 0, 0 on those with A < 0, 1 elsewhere

    Conflict tokens have the same id at the same position in sequences of their group with positive and with negative
    advantages, and lie in an unbroken run of such tokens at the start of the sequence (positions from its first token)
    or at its end (positions from its last token). Positions count tokens inside the mask.

        >>> gtpo([[1.0, 1.0], [-1.0, -1.0]], [[1, 1], [1, 1]], ids=[[5, 6], [5, 7]], entropy=[[0.0, 0.0], [0.0, 0.0]],
        ...      group=[0, 0]).values.tolist()
        [[2.0, 1.0], [0.0, -1.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        ids: int [B, L], token ids.
        entropy: float [B, L], entropy of the policy at the token, nats.
        group: [B], id of the sequences to compare: answers to the same prompt at the same turn.
        weight: factor of conflict tokens in good answers.
        entropy_scale: reduction of the advantage per nat of mean entropy.
        entropy_limit: mean entropy above which a sequence gets zero, nats.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option has an impossible value.
        BadTable: shapes differ, a number is not finite, or an id is not an integer.

    Source: Simoni et al. 2025, arXiv 2508.03772. The published code applies the weight twice to tokens in both
    runs.
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
    """Return the conflict tokens, bool [B, L].

    Args:
        values: float64 [B, L], advantages; only the sign is used.
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
