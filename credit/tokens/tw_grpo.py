"""TW-GRPO: more weight on positions at which the answers of a group could have gone on in different ways."""

import numpy as np
import numpy.typing as npt

from turncredit.credit.option_checks import check_number
from turncredit.credit.tokens.packed import TransformedAdvantages, groups, inside, packed


def tw_grpo(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    divergence: npt.ArrayLike,
    group: npt.ArrayLike,
    most: float = 1.5,
) -> TransformedAdvantages:
    """Return the advantages times a weight that grows with how much the group's distributions differ at a position.

        A'[t] = A[t] (1 + (most - 1) (D[t] - low) / (high - low))        low, high: of D over the tokens of the group

    Where D is the same everywhere, nothing changes.

        >>> tw_grpo([[1.0] * 3, [-1.0] * 3], [[1, 1, 1], [1, 1, 0]], divergence=[[0, 2, 4], [0, 2, 0]],
        ...         group=[0, 0]).values.tolist()
        [[1.0, 1.25, 1.5], [-1.0, -1.25, 0.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        divergence: float [B, L], D, the same for all sequences of the group at a position, nats.
        group: [B], id of the sequences to compare.
        most: weight of the position at which D is largest, at least 1.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: most < 1.
        BadTable: shapes differ, or a number is not finite.

    Source: Dang et al. 2025, arXiv 2505.24718, and its code. A position is one of the whole answer there, also of
    padding, where D is 0.
    """
    check_number("most", most, 1.0)
    values, chosen = packed("tw_grpo", advantages, mask)
    distance = inside("tw_grpo", "divergence", divergence, chosen)
    code = groups("tw_grpo", group, chosen)
    count = int(code.max(initial=-1)) + 1
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, code, np.where(chosen, distance, np.inf).min(axis=1, initial=np.inf))
    np.maximum.at(high, code, np.where(chosen, distance, -np.inf).max(axis=1, initial=-np.inf))
    spread = np.where(high > low, high - low, np.inf)  # no token, or no difference
    share = np.where(chosen, distance - np.where(np.isfinite(low), low, 0.0)[code, None], 0.0) / spread[code, None]
    return TransformedAdvantages(values * (1.0 + (most - 1.0) * share), chosen)
