"""Rewards made of several: the scores of judges or objectives in the column `multi`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.steps import Floats, Steps, need

How = Literal["mean", "worst", "uncertain"]


def ensemble(steps: Steps, *, how: How = "uncertain", weight: float = 0.1) -> Steps:
    """Return the table in which each turn's reward is what several scores agree on.

        mean:       mean of the scores
        worst:      the smallest score
        uncertain:  mean - weight * variance        (ddof 0)

    Args:
        steps: the table; needs `multi`.
        how: see above.
        weight: of the variance.

    Source: Coste et al. 2023, arXiv 2310.02743: mean, worst-case and uncertainty-weighted optimization.
    """
    check_choice("how", how, How)
    check_number("weight", weight, 0.0)
    need(steps, "ensemble", "multi")
    return replace(steps, reward=agreed(np.asarray(steps.column("multi")), how, weight))


def agreed(scores: Floats, how: How, weight: float) -> Floats:
    """Return what several scores agree on, float64 [N].

    >>> [agreed(np.array([[1.0, 0.0, 0.5]]), how, 0.1).round(4).tolist() for how in ("mean", "worst", "uncertain")]
    [[0.5], [0.0], [0.4833]]

    Args:
        scores: float64 [N, M].
        how: "mean", "worst" or "uncertain".
        weight: of the variance.
    """
    if not scores.size:
        return np.zeros(len(scores))
    if how == "worst":
        return np.asarray(scores.min(axis=1))
    mean = scores.mean(axis=1)
    return np.asarray(mean if how == "mean" else mean - weight * scores.var(axis=1))


def weighted(steps: Steps, *, weights: Sequence[float] = ()) -> Steps:
    """Return the table in which each turn's reward is a weighted sum of several.

        r = sum over k of w_k multi_k

    Args:
        steps: the table; needs `multi`.
        weights: of the rewards; without them each has the weight 1.

    Raises:
        BadOption: there is another number of weights than of rewards.

    Source: Multi-objective RLHF, arXiv 2503.21819; our reading of the abstract. The credit rule `gdpo` normalises each
    reward first.
    """
    need(steps, "weighted", "multi")
    factors = _weights(weights)
    scores = np.asarray(steps.column("multi"))
    if factors.size and len(steps) and factors.size != scores.shape[1]:
        raise BadOption(f"weights must have one number for each of the {scores.shape[1]} rewards, got {factors.size}")
    if not scores.size:
        return steps
    return replace(steps, reward=scores @ (factors if factors.size else np.ones(scores.shape[1])))


def advevo(
    steps: Steps,
    *,
    iteration: int,
    total: int,
    attacker: str = "attacker",
    first: Sequence[float] = (0.6, 0.3, 0.1),
    second: Sequence[float] = (0.3, 0.6, 0.1),
) -> Steps:
    """Return the table in which defenders are paid for safety first, and for the task in the second half of the run.

        defenders:  r = sum over k of w_k multi_k        multi = (safe, task, format)
        attackers:  r as it was: the attack succeeded

    Args:
        steps: the table; needs `role` and `multi` with three rewards.
        iteration: number of finished iterations.
        total: iterations of the run.
        attacker: the role that attacks.
        first: weights in the first half of the run.
        second: weights in the second half.

    Raises:
        BadOption: there are not three weights.

    Source: AdvEvo-MARL, arXiv 2510.01586; the weights are our reading.
    """
    halves = [_weights(first), _weights(second)]
    for name, factors in zip(("first", "second"), halves, strict=True):
        if factors.size != 3:
            raise BadOption(f"{name} must have three weights (safe, task, format), got {factors.size}")
    need(steps, "advevo", "role", "multi")
    scores = np.asarray(steps.column("multi"))
    if not scores.size:
        return steps
    if scores.shape[1] != 3:
        raise BadOption(f"advevo needs three rewards (safe, task, format) in 'multi', got {scores.shape[1]}")
    defends = steps.ids("role") != attacker
    return replace(steps, reward=np.where(defends, scores @ halves[2 * iteration >= total], steps.reward))


def _weights(weights: Sequence[float]) -> Floats:
    if isinstance(weights, str) or not isinstance(weights, Sequence):
        raise BadOption(f"weights must be a list of numbers, got {weights!r}")
    for weight in weights:
        check_number("weights", weight)
    return np.asarray(weights, dtype=np.float64)
