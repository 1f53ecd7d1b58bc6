"""HICRA: more credit for the tokens that plan."""

import numpy as np
import numpy.typing as npt

from turncredit.credit.option_checks import check_number
from turncredit.credit.tokens.packed import TransformedAdvantages, inside, packed


def hicra(
    advantages: npt.ArrayLike, mask: npt.ArrayLike, *, planning: npt.ArrayLike, alpha: float = 0.2
) -> TransformedAdvantages:
    """Return the advantages with those of planning tokens increased.

        A'[t] = A[t] + alpha * |A[t]|        on planning tokens, A[t] on all others

    Planning tokens gain a factor 1 + alpha in good answers and 1 - alpha in bad ones.

        >>> hicra([[1.0, -1.0, 1.0]], [[1, 1, 1]], planning=[[1, 1, 0]]).values.tolist()
        [[1.2, -0.8, 1.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        planning: bool [B, L], True for planning tokens.
        alpha: strength, in [0, 1].

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: alpha is outside [0, 1].
        BadTable: shapes differ, or a number is not finite.

    Source: Wang et al. 2025, arXiv 2509.03646. Our reading: the formula is from a secondary description, and the
    default of alpha is ours.
    """
    check_number("alpha", alpha, 0.0, 1.0)
    values, chosen = packed("hicra", advantages, mask)
    plans = inside("hicra", "planning", planning, chosen) != 0.0
    return TransformedAdvantages(np.where(plans, values + alpha * np.abs(values), values), chosen)
