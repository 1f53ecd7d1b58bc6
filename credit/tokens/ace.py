"""ACE: stronger penalties for wrong answers of which the policy is more confident than its reference."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.tokens.packed import TransformedAdvantages, inside, packed, row_means

Over = Literal["sum", "mean"]


def ace(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    logprobs: npt.ArrayLike,
    ref: npt.ArrayLike,
    alpha: float = 1.0,
    over: Over = "sum",
) -> TransformedAdvantages:
    """Return the advantages with negative ones scaled up by the sequence's gain in confidence.

        A' = A * (1 + alpha * softplus(c))        where A < 0, A elsewhere
        c = sum over the sequence's tokens of (log pi - log pi_ref)        softplus(c) = log(1 + exp(c))

        >>> ace([[-1.0, 1.0]], [[1, 1]], logprobs=[[-1.0, -1.0]], ref=[[-1.0, -1.0]]).values.round(4).tolist()
        [[-1.6931, 1.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        logprobs: float [B, L], log-probability of the token under the policy, nats.
        ref: float [B, L], the same under the reference model.
        alpha: strength.
        over: "sum" adds c over the sequence; "mean" averages over tokens, independent of length.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option has an impossible value.
        BadTable: shapes differ, or a number is not finite.

    Source: Xu et al. 2026, arXiv 2602.21420. Our reading of its abstract, which names c; softplus and alpha are
    from a secondary description.
    """
    check_number("alpha", alpha, 0.0)
    check_choice("over", over, Over)
    values, chosen = packed("ace", advantages, mask)
    log_ratio = inside("ace", "logprobs", logprobs, chosen) - inside("ace", "ref", ref, chosen)
    confidence = log_ratio.sum(axis=1) if over == "sum" else row_means(log_ratio, chosen)
    factor = 1.0 + alpha * np.logaddexp(0.0, confidence)
    return TransformedAdvantages(np.where(values < 0.0, values * factor[:, None], values), chosen)
