"""Splits of goals into training and evaluation, as papers use them.

original     test 0-499, eval 500-1499, train from 1500 on: for the whole catalogue with human instructions
verl-agent   eval 0-499 (also called test), train from 500 on
ragen        the ranges of "original" on permuted goals (`goal_order`)
all          every goal in every split, as WebShop does with part of the catalogue
"""

from __future__ import annotations

import random
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.registry import suggest

__all__ = ["RULES", "goal_order", "split_range"]

_RANGES: Final[dict[str, dict[str, tuple[int, int | None]]]] = {
    "original": {"train": (1500, None), "eval": (500, 1500), "test": (0, 500)},
    "verl-agent": {"train": (500, None), "eval": (0, 500), "test": (0, 500)},
    "ragen": {"train": (1500, None), "eval": (500, 1500), "test": (0, 500)},
    "all": {"train": (0, None), "eval": (0, None), "test": (0, None)},
}

RULES: Final = tuple(_RANGES)


def split_range(name: str, rule: str, goals: int) -> range:
    """Return the numbers of a split's goals; for "ragen" they are positions in `goal_order`.

    >>> split_range("train", "original", 6910)
    range(1500, 6910)

    Args:
        name: "train", "eval" or "test"; "val" is "eval".
        rule: one of RULES.
        goals: number of all goals.

    Raises:
        UnknownOption: the split or rule is unknown, or the split is empty.
    """
    if rule not in _RANGES:
        raise UnknownOption(f"unknown rule of splits {rule!r}{suggest(str(rule), RULES)}")
    bounds = _RANGES[rule].get("eval" if name == "val" else name)
    if bounds is None:
        raise UnknownOption(f"unknown split {name!r}{suggest(str(name), _RANGES[rule])}")
    numbers = range(goals)[bounds[0] : bounds[1]]
    if not numbers:
        hint = "" if rule == "all" else "; splits='all' puts every goal into every split"
        raise UnknownOption(
            f"split {name!r} of rule {rule!r} starts at goal {bounds[0]}, but there are only {goals:,} goals{hint}"
        )
    return numbers


def goal_order(rule: str, goals: int) -> list[int] | range:
    """Return the numbers of the goals in the order of the rule.

    Args:
        rule: one of RULES.
        goals: number of goals.

    Source: RAGEN (Wang et al. 2025, arXiv:2504.20073): a permutation with the seed 42.
    """
    if rule != "ragen":
        return range(goals)
    order = list(range(goals))
    random.Random(42).shuffle(order)
    return order
