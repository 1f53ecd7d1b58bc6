"""MSSR: advantages of one episode per task, shifted up where the policy is uncertain."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.tokens.packed import TransformedAdvantages, inside, packed

Uncertainty = Literal["entropy", "token"]


def mssr(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    entropy: npt.ArrayLike,
    logprobs: npt.ArrayLike,
    alpha: float = 0.4,
    kappa: float = 2.0,
    uncertainty: Uncertainty = "entropy",
) -> TransformedAdvantages:
    """Return the advantages plus a share of the token's entropy, bounded by a share of their own size.

        A' = A + min(alpha H, |A| / kappa)

    For kappa >= 1 no advantage changes its sign. Use it after the rule spo_single_stream with ddof = 0 and prior = 8:
    together they are MSSR.

        >>> mssr([[1.0, -1.0, -1.0, 0.2]], [[1] * 4], entropy=[[0.5, 0.5, 3, 1]], logprobs=[[0] * 4]).values.tolist()
        [[1.2, -0.8, -0.5, 0.30000000000000004]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        entropy: float [B, L], of the policy's distribution at the token, nats.
        logprobs: float [B, L], log-probability of the token under the policy, nats.
        alpha: share of the entropy, in units of reward per nat.
        kappa: an advantage is raised by its size over kappa at most, > 0.
        uncertainty: H is the "entropy", or of the sampled "token" alone, -p ln p.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option has an impossible value.
        BadTable: shapes differ, or a number is not finite.

    Source: arXiv 2512.18215 and its code, where H is that of the sampled token, while the paper's is the entropy.
    """
    check_number("alpha", alpha, 0.0)
    check_number("kappa", kappa, 1e-12)
    check_choice("uncertainty", uncertainty, Uncertainty)
    values, chosen = packed("mssr", advantages, mask)
    spread, log = inside("mssr", "entropy", entropy, chosen), inside("mssr", "logprobs", logprobs, chosen)
    amount = spread if uncertainty == "entropy" else -np.exp(log) * log
    return TransformedAdvantages(values + np.minimum(alpha * amount, np.abs(values) / kappa), chosen)
