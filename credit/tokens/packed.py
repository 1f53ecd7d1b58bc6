"""Input checks and the result type of token transforms.

A packed batch consists of arrays [B, L], B sequences of L tokens, and a mask of the tokens that the policy sampled.
Values outside the mask (prompts, observations, padding) are ignored.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import Coder
from turncredit.credit.numerics import compact
from turncredit.credit.steps import Bools, Floats, Ints
from turncredit.credit.tensors import plain
from turncredit.credit.tokens.checks import flags

ARRAYS = {
    "cold": "log-probability of the token at 0.8 times the sampling temperature, nats, [B, L]",
    "divergence": "distance of the group's distributions from their mean at the token's position, nats, [B, L]",
    "entropy": "entropy of the policy's distribution at the token, nats, [B, L]",
    "group": "id of the prompt that a sequence answers, [B]",
    "hot": "log-probability of the token at 1.2 times the sampling temperature, nats, [B, L]",
    "ids": "token ids, [B, L]",
    "influence_of_losers": "the same for the group's tokens with a negative advantage, [B, L]",
    "influence_of_winners": "how fast a step of the output layer for the group's tokens with a positive advantage "
    "raises this one, [B, L]",
    "logprobs": "log-probability of the token under the policy, nats, [B, L]",
    "planning": "True for tokens that belong to a plan, [B, L]",
    "ratio": "probability under the policy over that under the old one, [B, L]",
    "ref": "log-probability of the token under the reference model, nats, [B, L]",
}
"""The arrays that a transform can take, by parameter name; other parameters are options."""


@dataclass(frozen=True, eq=False)
class TransformedAdvantages:
    """Advantages of the tokens of a packed batch after a transform.

    Args:
        values: float64 [B, L], zero outside the mask.
        keep: bool [B, L], the tokens of the loss: the mask without dropped tokens.
    """

    values: Floats
    keep: Bools

    def __post_init__(self) -> None:
        """Check the shapes and refuse numbers that are not finite."""
        if self.values.shape != self.keep.shape:
            raise BadTable(f"'keep' has shape {self.keep.shape}, but the advantages have {self.values.shape}")
        if not np.isfinite(self.values).all():
            raise BadTable(f"{int((~np.isfinite(self.values)).sum())} token advantages are not finite")


def packed(method: str, advantages: npt.ArrayLike, mask: npt.ArrayLike) -> tuple[Floats, Bools]:
    """Return the advantages, zero outside the mask, and the mask: float64 and bool [B, L].

    Args:
        method: name of the transform, for messages.
        advantages: [B, L].
        mask: bool [B, L] or zeros and ones.

    Raises:
        BadTable: the mask is not boolean, the shapes differ, or an advantage inside the mask is not finite.
    """
    chosen = flags(f"{method}: the mask", mask)
    return inside(method, "advantages", advantages, chosen), chosen


def inside(method: str, name: str, values: npt.ArrayLike, mask: Bools) -> Floats:
    """Return an array of numbers as float64 [B, L], zero outside the mask.

    Args:
        method: name of the transform, for messages.
        name: name of the array, for messages.
        values: [B, L].
        mask: bool [B, L].

    Raises:
        BadTable: the values are not numbers, have another shape, or are not finite inside the mask.
    """
    try:
        array = np.asarray(plain(values), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadTable(f"{method}: {name!r} must be an array of numbers: {error}") from error
    if array.shape != mask.shape:
        raise BadTable(f"{method}: {name!r} has shape {array.shape}, but the mask has {mask.shape}")
    out = np.where(mask, array, 0.0)
    if not np.isfinite(out).all():
        raise BadTable(f"{method}: {int((~np.isfinite(out)).sum())} values of {name!r} inside the mask are not finite")
    return out


def groups(method: str, group: npt.ArrayLike | None, mask: Bools) -> Ints:
    """Return the group of each sequence, compact int64 [B]; one group for None.

    Args:
        method: name of the transform, for messages.
        group: [B], ids of any kind, hashable or array-like.
        mask: bool [B, L].

    Raises:
        BadTable: the number of ids is not B.
    """
    if group is None:
        return np.zeros(len(mask), dtype=np.int64)
    ids = plain(group)
    if isinstance(ids, str) or not hasattr(ids, "__len__") or getattr(ids, "ndim", 1) != 1:
        raise BadTable(f"{method}: 'group' must be one id per sequence, got {type(ids).__name__}")
    if len(ids) != len(mask):
        raise BadTable(f"{method}: 'group' has {len(ids)} ids, but the batch has {len(mask)} sequences")
    return compact(Coder().encode(ids))


def row_means(values: Floats, mask: Bools) -> Floats:
    """Return the mean over each sequence's tokens inside the mask, float64 [B]; zero for an empty mask.

    Args:
        values: float64 [B, L], zero outside the mask.
        mask: bool [B, L].
    """
    return np.asarray(values.sum(axis=1) / np.maximum(mask.sum(axis=1), 1), dtype=np.float64)
