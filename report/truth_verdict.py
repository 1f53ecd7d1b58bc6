"""What the comparison of rules with the truth says, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from turncredit.report.truth_scores import ENOUGH

if TYPE_CHECKING:
    from turncredit.credit.truth import Interval
    from turncredit.report.truth_scores import RuleTruth, TruthScores

__all__ = ["forks_needed", "truth_verdict"]

BY_FOURS = 4
"""Advice on the number of forks is rounded up to a multiple: a reliability is itself an estimate."""


def truth_verdict(scores: TruthScores) -> str:
    """Return a sentence or two: which rule is closest to the truth, or why that is not known."""
    if not scores.truth.known.any() or not _varies(scores):
        return (
            "No turn made a difference in these forks, so no rule can be told from another; more forks: "
            f"`--truth {2 * _forks(scores)}`."
        )
    if not scores.enough:
        return _unreliable(scores)
    reference, *others = scores.rows
    if not others:
        return f"All rules say the same here: {_rank(reference)}." if len(scores.rules) > 1 else _alone(reference)
    ranked = [rule for rule in scores.rows if rule.scores["rank"].value is not None]
    if not ranked:
        return "No rule tells these turns apart: each says the same of every turn."
    if all(rule.scores["rank"].low is None for rule in ranked):
        return "The turns are of one task, which gives no intervals, so the order is unknown; take more groups."
    if reference.scores["rank"].value is None:
        best = max(ranked, key=_value)
        return f"{reference.name} says the same of every turn. Of the others, {_rank(best)} is the highest."
    return _compared(reference, others)


def _compared(reference: RuleTruth, others: Sequence[RuleTruth]) -> str:
    """Return which rules are above and below the reference beyond the noise."""
    differing = [rule for rule in others if rule.beyond_noise("rank")]
    above = sorted((rule for rule in differing if (rule.differences["rank"].value or 0.0) > 0), key=_value)[::-1]
    below = sorted((rule for rule in differing if (rule.differences["rank"].value or 0.0) < 0), key=_value)
    if not differing:
        return (
            f"No rule differs from {reference.name} beyond the noise: "
            f"every interval of a difference in rank contains 0 ({_rank(reference)})."
        )
    sentences = []
    if above:
        first, *later = above
        by = _numbers(first.differences["rank"])
        also = f"; also above it: {_names(later)}" if later else ""
        sentences.append(f"{_rank(first, ' is closest to the truth:')}, above {reference.name} by {by}{also}.")
    else:
        sentences.append(f"No rule is closer to the truth than {reference.name} ({_rank(reference)}).")
    if below:
        sentences.append(f"Below {reference.name} beyond the noise: {_names(below)}.")
    return " ".join(sentences)


def _unreliable(scores: TruthScores) -> str:
    forks = forks_needed(scores.reliability, _forks(scores))
    reached = scores.reliability
    clause = "an unknown reliability" if reached is None else f"a reliability of {reached:.2f}"
    subject = "order" if len(scores.rows) > 1 else "rank"
    return f"With {clause} the {subject} is unknown; more forks: `--truth {forks}`."


def forks_needed(reliability: float | None, forks: int) -> int:
    """Return the number of forks of each history that is expected to give a reliability of 0.5.

    By Spearman and Brown, R / (1 - R) grows in proportion to the forks. Where there is no reliability yet, it is twice
    the forks.

    >>> forks_needed(0.49, 8), forks_needed(0.2, 4), forks_needed(None, 4)
    (12, 16, 8)

    Args:
        reliability: what was reached.
        forks: with so many forks of each history.
    """
    if reliability is None or reliability <= 0.0:
        return max(BY_FOURS, 2 * forks)
    needed = forks * ENOUGH / (1.0 - ENOUGH) * (1.0 - reliability) / reliability
    return max(BY_FOURS * math.ceil(needed / BY_FOURS), forks + 1)


def _forks(scores: TruthScores) -> int:
    """Return the median number of forks of the turns that are measured, or of all where none is; at least 2."""
    truth = scores.truth
    counts = sorted(truth.forks[truth.known].tolist() or truth.forks.tolist())
    return max(2, int(counts[len(counts) // 2])) if counts else 2


def _varies(scores: TruthScores) -> bool:
    """Return whether the true advantages are not all the same."""
    advantages = scores.truth.advantage[scores.truth.known]
    return bool(advantages.max() - advantages.min() > 1e-9)


def _alone(rule: RuleTruth) -> str:
    return f"{_rank(rule)}; `--credit` with several rules compares them."


def _rank(rule: RuleTruth, words: str = "") -> str:
    value = rule.scores["rank"]
    if value.value is None:
        return f"{rule.name}{words} says the same of every turn"
    return f"{rule.name}{words or ':'} rank correlation {_numbers(value)}"


def _numbers(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _names(rules: Sequence[RuleTruth]) -> str:
    return ", ".join(rule.name for rule in rules)


def _value(rule: RuleTruth) -> float:
    value = rule.scores["rank"].value
    return -2.0 if value is None else value
