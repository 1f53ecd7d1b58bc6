"""Whether a rule trains in the right direction: the gradients that it makes, beside those of the truth.

    g_t = gradient of log pi(tokens of turn t),   G_rule = sum of rule_t g_t over a group,   G* with the true advantages

    direction   cosine of the mean G_rule of half of the groups and the mean G* of the other half
    noise       trace of the covariance of G_rule over groups / |mean G_rule|^2: groups for a signal-to-noise ratio of 1
    agreement   mean over groups of the cosine of its G_rule and the mean G* of the others

No noise is shared between the two sides, so even the truth has a direction below 1 where groups are few. An advantage
plus any function of the history has the same expected gradient, so a rule may be good here and bad at telling which
turn mattered.

Not included: gradients, which are the caller's, whole or projected; inner products are all that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.truth.estimates import TINY
from turncredit.credit.truth.metrics import RESAMPLES, Draws, Interval, draws_of

__all__ = ["DIRECTIONS", "GroupGradients", "gradient_draws", "gradient_scores"]

SPLITS = 64
"""Random halves over which the direction is averaged."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupGradients:
    """Inner products of the gradients of n groups, float64 [n, n]: of the rule, of the truth, and between them."""

    rule: Floats
    truth: Floats
    cross: Floats

    @classmethod
    def of(cls, gradients: Floats, rule: Floats, advantage: Floats, group: Ints) -> GroupGradients:
        """Return them.

        Args:
            gradients: float [N, D], of each turn.
            rule: float64 [N], the rule's advantages.
            advantage: float64 [N], the true ones.
            group: int64 [N], codes from 0 without gaps.
        """
        own, true = (_sums(gradients, values, group) for values in (rule, advantage))
        return cls(own @ own.T, true @ true.T, own @ true.T)


def direction(products: GroupGradients, weights: Floats, rng: np.random.Generator) -> Floats:
    """Return the cosine of the two mean gradients from disjoint halves, in each draw of groups."""
    if weights.shape[1] < 2:
        return np.full(len(weights), np.nan)
    splits = _half_cosines(products, np.repeat(weights[:1], SPLITS, axis=0), rng)
    value = float(splits.mean()) if np.isfinite(splits).all() else np.nan
    return np.concatenate([[value], _half_cosines(products, weights[1:], rng)])


def noise(products: GroupGradients, weights: Floats, rng: np.random.Generator) -> Floats:
    """Return how many groups it takes for a signal-to-noise ratio of 1, in each draw of groups; NaN of one group."""
    count = weights.shape[1]
    if count < 2:
        return np.full(len(weights), np.nan)
    square = np.einsum("si,ij,sj->s", weights, products.rule, weights) / count**2
    spread = (weights @ np.diag(products.rule) - count * square) / (count - 1)
    return _divided(spread, square)


def agreement(products: GroupGradients, weights: Floats, rng: np.random.Generator) -> Floats:
    """Return the mean cosine of a group's gradient and the true gradient of the others, in each draw of groups."""
    own = np.sqrt(np.maximum(np.diag(products.rule), 0.0))
    towards = weights @ products.cross.T - weights * np.diag(products.cross)
    seen = weights @ products.truth
    square = (weights * seen).sum(axis=1, keepdims=True) - 2.0 * weights * seen + weights**2 * np.diag(products.truth)
    size = own * np.sqrt(np.maximum(square, 0.0))
    rows = (size > TINY * TINY) & (weights > 0)
    cosines = np.divide(towards, size, out=np.zeros_like(size), where=rows)
    return _divided((cosines * weights * rows).sum(axis=1), (weights * rows).sum(axis=1))


DIRECTIONS: Mapping[str, Callable[[GroupGradients, Floats, np.random.Generator], Floats]] = {
    "direction": direction,
    "noise": noise,
    "agreement": agreement,
}
"""The measures of the second family, by name."""


def gradient_scores(
    gradients: Floats, rule: Floats, advantage: Floats, group: Ints, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Return every measure of a rule's gradients with its interval; see `gradient_draws`."""
    draws = gradient_draws(gradients, rule, advantage, group, resamples=resamples, seed=seed)
    return {name: measured.interval for name, measured in draws.items()}


def gradient_draws(
    gradients: Floats, rule: Floats, advantage: Floats, group: Ints, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Draws]:
    """Return every measure of a rule's gradients in each draw of a bootstrap over whole groups.

    Args:
        gradients: float [N, D], of each turn's log-probability.
        rule: float64 [N], the rule's advantages.
        advantage: float64 [N], the true ones; turns without one count as zero on both sides.
        group: int64 [N], codes from 0 without gaps.
        resamples: draws of the bootstrap.
        seed: of the bootstrap and of the halves.
    """
    has_truth = np.isfinite(advantage)
    products = GroupGradients.of(gradients, np.where(has_truth, rule, 0.0), np.where(has_truth, advantage, 0.0), group)
    weights, count = draws_of(len(products.rule), resamples, seed), len(products.rule)
    return {
        name: Draws(measure(products, weights, np.random.default_rng(seed)), count)
        for name, measure in DIRECTIONS.items()
    }


def _sums(gradients: Floats, values: Floats, group: Ints) -> Floats:
    """Return the weighted sum of the gradients of each group, float64 [groups, D]."""
    sums = np.zeros((int(group.max()) + 1, gradients.shape[1]))
    np.add.at(sums, group, gradients * values[:, None])
    return sums


def _half_cosines(products: GroupGradients, weights: Floats, rng: np.random.Generator) -> Floats:
    """Return the mean of the two cosines between the halves of each draw, which are split at random."""
    count = weights.shape[1]
    half = rng.permuted(np.tile(np.arange(count) < count // 2, (len(weights), 1)), axis=1)
    first, second = np.where(half, weights, 0.0), np.where(half, 0.0, weights)

    def inner(one: Floats, matrix: Floats, other: Floats) -> Floats:
        result: Floats = ((one @ matrix) * other).sum(axis=1)
        return result

    sides = []
    for one, other in ((first, second), (second, first)):
        size = inner(one, products.rule, one) * inner(other, products.truth, other)
        sides.append(_divided(inner(one, products.cross, other), np.sqrt(np.maximum(size, 0.0))))
    return (sides[0] + sides[1]) / 2.0


def _divided(numerator: Floats, denominator: Floats) -> Floats:
    result: Floats = np.divide(
        numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > TINY * TINY
    )
    return result
