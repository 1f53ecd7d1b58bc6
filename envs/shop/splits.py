"""Which goals are for training and which for evaluation: the splits that papers use.

original     test 0-499, eval 500-1499, train 1500 and on: for the whole catalogue with what people wrote
verl-agent   eval 0-499 (also called test), train 500 and on
ragen        test, eval and train as in the original, but of the goals in an order of its own (`goal_order`)
all          every goal in every split: what the original does with a part of the catalogue
"""

from __future__ import annotations

import random
from typing import Final

from turnwise.envs.errors import UnknownOption
from turnwise.registry import suggest

__all__ = ["RULES", "goal_order", "split_range"]

_RANGES: Final[dict[str, dict[str, tuple[int, int | None]]]] = {
    "original": {"train": (1500, None), "eval": (500, 1500), "test": (0, 500)},
    "verl-agent": {"train": (500, None), "eval": (0, 500), "test": (0, 500)},
    "ragen": {"train": (1500, None), "eval": (500, 1500), "test": (0, 500)},
    "all": {"train": (0, None), "eval": (0, None), "test": (0, None)},
}

RULES: Final = tuple(_RANGES)


def split_range(name: str, rule: str, goals: int) -> range:
    """Return the numbers of a split's goals; under the rule "ragen" they are places in `goal_order`.

    >>> split_range("train", "original", 6910)
    range(1500, 6910)

    Args:
        name: "train", "eval" or "test"; "val" is "eval".
        rule: one of RULES.
        goals: how many there are in all.

    Raises:
        UnknownOption: there is no such split or rule, or the split is empty.
    """
    if rule not in _RANGES:
        raise UnknownOption(f"unknown rule of splits {rule!r}{suggest(str(rule), RULES)}")
    bounds = _RANGES[rule].get("eval" if name == "val" else name)
    if bounds is None:
        raise UnknownOption(f"unknown split {name!r}{suggest(str(name), _RANGES[rule])}")
    found = range(goals)[bounds[0] : bounds[1]]
    if not found:
        hint = "" if rule == "all" else "; the rule 'all' gives every goal to every split"
        raise UnknownOption(
            f"split {name!r} of rule {rule!r} begins at goal {bounds[0]}, and there are {goals:,} goals{hint}"
        )
    return found


def goal_order(rule: str, goals: int) -> list[int] | range:
    """Return the numbers of the goals in the order in which the rule counts them.

    Args:
        rule: one of RULES.
        goals: how many there are.

    Source: RAGEN (Wang et al. 2025, arXiv:2504.20073): a permutation with the seed 42.
    """
    if rule != "ragen":
        return range(goals)
    order = list(range(goals))
    random.Random(42).shuffle(order)
    return order
