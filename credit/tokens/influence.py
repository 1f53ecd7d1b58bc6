"""THR and NTHR: tokens by what training on the group's winners and losers does to them through the output layer."""

import numpy as np
import numpy.typing as npt

from turncredit.credit.numerics import group_sums
from turncredit.credit.option_checks import check_number
from turncredit.credit.tokens.packed import TransformedAdvantages, groups, inside, packed, row_means


def thr(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    influence_of_winners: npt.ArrayLike,
    influence_of_losers: npt.ArrayLike,
    kappa: float = 0.1,
    least: float = 0.0,
) -> TransformedAdvantages:
    """Return the advantages, more or less for tokens that the group's other tokens make likelier.

        s = influence_of_winners - influence_of_losers
        A' = A (1 + kappa sign(s)) where |s| >= least, 0 elsewhere

    kappa > 0 exploits: it strengthens tokens that the update raises anyway; kappa < 0 explores.

        >>> thr([[1.0, 1.0, -1.0]], [[1, 1, 1]], influence_of_winners=[[3.0, 1.0, 0.0]],
        ...     influence_of_losers=[[1.0, 2.0, 0.0]]).values.tolist()
        [[1.1, 0.9, -1.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        influence_of_winners: float [B, L].
        influence_of_losers: float [B, L].
        kappa: strength, in [-1, 1].
        least: influence below which a token is not trained on; 0 for all.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option is out of range.
        BadTable: shapes differ, or a number is not finite.

    Source: Our reading of reviews of arXiv 2510.03669 (token hidden reward); kappa and `least` are ours.
    """
    check_number("kappa", kappa, -1.0, 1.0)
    check_number("least", least, 0.0)
    values, chosen = packed("thr", advantages, mask)
    arrays = {"influence_of_winners": influence_of_winners, "influence_of_losers": influence_of_losers}
    of_winners, of_losers = (inside("thr", name, array, chosen) for name, array in arrays.items())
    reward = of_winners - of_losers
    weighed = values * (1.0 + kappa * np.sign(reward))
    return TransformedAdvantages(np.where(np.abs(reward) >= least, weighed, 0.0), chosen)


def nthr(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    influence_of_winners: npt.ArrayLike,
    group: npt.ArrayLike,
    beta: float = 1.0,
) -> TransformedAdvantages:
    """Return the advantages, smaller for tokens of losers that the winners' tokens make likelier.

        A' = 2 |1/2 - p| A        for tokens with A < 0 and s > beta times the least mean of s over a winner

    with s = influence_of_winners and p the share of the group's sequences that are winners: those with a mean advantage
    above 0. A penalty on such a token would take from the winners what they have in common with it. Groups without
    winners stay as they are.

        >>> nthr([[1.0], [-1.0], [-1.0], [-1.0]], [[1]] * 4, influence_of_winners=[[2.0], [3.0], [1.0], [2.0]],
        ...      group=[0] * 4).values.tolist()
        [[1.0], [-0.5], [-1.0], [-1.0]]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        influence_of_winners: float [B, L].
        group: [B], id of the sequences to compare.
        beta: share of the winners' least mean influence that is a token's limit.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: beta < 0.
        BadTable: shapes differ, or a number is not finite.

    Source: Our reading of a note of arXiv 2505.18830.
    """
    check_number("beta", beta, 0.0)
    values, chosen = packed("nthr", advantages, mask)
    influence = inside("nthr", "influence_of_winners", influence_of_winners, chosen)
    code = groups("nthr", group, chosen)
    count, some = int(code.max(initial=-1)) + 1, chosen.any(axis=1)
    won = some & (row_means(values, chosen) > 0.0)
    share = group_sums(code, won.astype(np.float64), count) / np.maximum(np.bincount(code, some, count), 1.0)
    limit = np.full(count, np.inf)
    np.minimum.at(limit, code[won], row_means(influence, chosen)[won])
    shared = chosen & (values < 0.0) & (influence > beta * np.where(limit < np.inf, limit, 0.0)[code, None])
    shared &= (limit < np.inf)[code, None]
    factor = 2.0 * np.abs(0.5 - share)[code, None]
    return TransformedAdvantages(np.where(shared, factor * values, values), chosen)
