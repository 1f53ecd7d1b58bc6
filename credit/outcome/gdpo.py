"""GDPO: several rewards, each normalised within the task before they are added."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import Groups, Singleton, standardise, whiten
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import GroupOptions, without_copies
from turncredit.credit.steps import Bools, Floats, Steps, need

Over = Literal["samples", "tokens"]


def gdpo(
    steps: Steps,
    *,
    weights: Sequence[float] | None = None,
    over: Over = "samples",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Advantages:
    """Return the weighted sum of the episode's normalised rewards, scaled over the batch.

        z[i, k] = (E[i, k] - mean) / (std + eps)        over the task's trajectories, for each reward k
        S[i] = sum over k of w[k] z[i, k]               E[i, k] = sum over t of multi[i, t, k]
        A[i, t] = (S[i] - mean) / (std + eps)           over="samples": over all trajectories of the batch
        A[i, t] = (S[i] - m) / sqrt(v + 1e-8)           over="tokens": m, v over all trained tokens of the batch

    Unlike GRPO on the sum, this gives rarer rewards more weight. The last line is over the batch, so groups depend on
    each other. A group of one gets zero and does not enter the statistics of the batch.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[0, 0],
        ...                            multi=[[1.0, 8.0], [0.0, 8.0]])
        >>> gdpo(steps, ddof=0, eps=0.0).values.round(6).tolist()
        [1.0, -1.0]

    Args:
        steps: the table; needs `multi`, and `tokens` under over="tokens". `reward` and `valid` are not read.
        weights: K factors w >= 0; None uses 1 for each.
        over: the unit of the batch's statistics.
        singleton, ddof, eps: see `GroupOptions`; at both levels, except that over="tokens" has the eps above.

    Returns:
        Advantages with the parts "reward_0", "reward_1", ... (w z, which add up to S).

    Raises:
        BadOption: the number of weights is not K.

    Source: Liu et al. 2026, arXiv 2601.05242; over="tokens" is the published code for verl, over="samples" with
    eps=1e-4 that for TRL. We differ in the group of one.
    """
    options = GroupOptions(singleton=singleton, ddof=ddof, eps=eps)
    check_choice("over", over, Over)
    factors = _checked(weights)
    need(steps, "gdpo", "multi", *(["tokens"] if over == "tokens" else []))

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        terms = _normalised_rewards(table, factors, options)
        total = np.sum(terms, axis=0) if terms else np.zeros(len(episodes))
        size = np.sum(np.abs(terms), axis=0) if terms else total
        counted = ~episodes.alone if options.singleton == "zero" else np.ones(len(episodes), dtype=np.bool_)
        if over == "tokens" and len(table):
            value = whiten(total, np.where(counted, episodes.tokens, 0.0), ddof=options.ddof, size_of_terms=size)
        else:
            value = _over_samples(total, size, counted, options)
        parts = {f"reward_{k}": term for k, term in enumerate(terms)}
        return episodes.advantages(value, parts, {"groups": float(len(episodes.groups.size))})

    return without_copies(steps, estimate)


def _checked(weights: Sequence[float] | None) -> list[float] | None:
    if weights is None:
        return None
    if isinstance(weights, str) or not isinstance(weights, Sequence | np.ndarray):
        raise BadOption(f"weights must be a list with one number per reward, got {weights!r}")
    for weight in weights:
        check_number("weights", weight, 0.0, 1e100)
    return [float(weight) for weight in weights]


def _normalised_rewards(steps: Steps, weights: list[float] | None, options: GroupOptions) -> list[Floats]:
    """K times float64 [J], each reward normalised within its task and weighted."""
    rewards = steps.column("multi")
    factors = [1.0] * rewards.shape[1] if weights is None else weights
    if len(factors) != rewards.shape[1]:
        raise BadOption(f"weights has {len(factors)} numbers, but 'multi' has {rewards.shape[1]} rewards per turn")
    groups = [Episodes.of(steps, reward=np.ascontiguousarray(column)).groups for column in rewards.T]
    return [
        factor * standardise(group, ddof=options.ddof, eps=options.eps, singleton=options.singleton)
        for factor, group in zip(factors, groups, strict=True)
    ]


def _over_samples(total: Floats, size: Floats, counted: Bools, options: GroupOptions) -> Floats:
    value = np.zeros(len(total))
    one = np.zeros(int(counted.sum()), dtype=np.int64)
    batch = Groups(total[counted], one, size_of_terms=size[counted])
    value[counted] = standardise(batch, ddof=options.ddof, eps=options.eps)
    return value
