"""TEMPO on tokens: the outcome plus temporal differences in the tree of common token prefixes."""

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import Coder
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, divisors, standardise
from turncredit.credit.options import GroupOptions
from turncredit.credit.prefix_tree import Paths, prefix_nodes
from turncredit.credit.steps import Bools, Floats
from turncredit.credit.tensors import plain
from turncredit.credit.tokens.checks import flags, numbers


def tempo_tokens(
    ids: npt.NDArray[np.integer],
    mask: Bools,
    score: Floats,
    group: npt.ArrayLike,
    *,
    seen: Bools | None = None,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Floats:
    """Return an advantage for every trained token, float64 [B, L]; zero elsewhere.

        S(i, j) = sequences of i's group that begin with i's first j tokens          V(i, j) = mean score over S(i, j)
        A[i, j] = ((score[i] - mean) + V(i, j + 1) - V(i, j)) / (std + eps)

    S(i, 0) is the whole group. The second term is zero once no sibling shares the prefix.

        >>> tempo_tokens(np.array([[1, 2], [1, 3]]), np.ones((2, 2)), np.array([1.0, 0.0]), ["q", "q"], scale="none")
        array([[ 0.5,  1. ],
               [-0.5, -1. ]])

    Args:
        ids: integer [B, L], token ids; ignored where `seen` is False (padding).
        mask: bool [B, L], True for trained tokens.
        score: float64 [B], the outcome of each sequence.
        group: [B], id of each sequence's task, of any kind.
        seen: bool [B, L], true where the token belongs to the text that must be the same: the trained ones and the
            environment's answers between them, whose own effect is credited to no token. None takes `mask`.
        scale: "std", "none" (differences alone) or "mad" (median over median absolute deviation).
        singleton: a group of one gives "zero" or its "raw" score.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.

    Raises:
        BadTable: arrays whose shapes do not fit, a number that is not finite, a trained token that is not seen.
        BadOption: an option has an impossible value.

    Source: Tran et al. 2025, arXiv 2509.18314. We differ in the group of one, for which the published code gives no
    number, and in groups without spread. `seen` is ours.
    """
    GroupOptions(scale, "trajectory", singleton, ddof, eps)
    trained = flags("mask", mask)
    text = trained if seen is None else flags("seen", seen, trained.shape)
    tokens, outcome = np.asarray(plain(ids)), numbers("score", score, (len(trained),))
    group = plain(group)
    task = compact(Coder().encode(group if isinstance(group, np.ndarray) else list(group)))  # type: ignore[arg-type]
    if tokens.shape != trained.shape or tokens.dtype.kind not in "iu" or len(task) != len(trained):
        raise BadTable(
            f"ids must be integers of the mask's shape {trained.shape} and group must have {len(trained)} values, "
            f"got ids {tokens.dtype} {tokens.shape} and {len(task)} groups"
        )
    if (trained & ~text).any():
        raise BadTable(f"{int((trained & ~text).sum())} trained tokens are outside the attention mask")
    groups = Groups(outcome, task)
    member, length = np.nonzero(text)[0], text.sum(axis=1)
    before, after = prefix_nodes(compact(tokens[text]), np.cumsum(length) - length, length, task)
    change = np.zeros(trained.shape)
    change[text] = Paths(before, after, task, member).differences(groups.centred())
    divisor = divisors(groups, scale=scale, ddof=ddof, eps=eps)[task][:, None]
    change = np.divide(change, divisor, out=np.zeros(trained.shape), where=divisor > 0.0)
    base = standardise(groups, scale=scale, ddof=ddof, eps=eps, singleton=singleton)
    return np.where(trained, base[:, None] + change, 0.0)
