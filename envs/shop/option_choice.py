"""Selects the options of a product that satisfy as many of a goal's options as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.matching import fulfils, option_keys
from turncredit.envs.shop.product import Product

__all__ = ["best_options"]

_MOST: Final = 1024  # states to keep

_State = tuple[int, int, dict[str, str]]
"""Number of selected options, minus the number of exact matches of name and value, and the selection."""


def best_options(product: Product, goal: Goal, rule: str) -> dict[str, str]:
    """Return a selection of options that satisfies the largest possible number of the goal's options.

    A value may satisfy several options of the goal, and several values the same one. Dynamic programming over the
    product's options therefore keeps, for each set of satisfied goal options, the best selection: the fewest values,
    then exact matches, then the first on the page. It is exact for up to 1,024 such sets (ten goal options); beyond
    that, the largest sets are kept.

    Returns:
        Values by option, without options that satisfy nothing more.
    """
    keys = option_keys(goal, rule)
    states: dict[int, _State] = {0: (0, 0, {})}
    for name, values in product.options.items():
        steps = _steps(name, values, goal, keys, rule)
        for reached, (count, exact, choice) in list(states.items()):
            for covered, (value, named) in steps.items():
                state = (count + 1, exact - named, {**choice, name: value})
                old = states.get(reached | covered)
                if old is None or state[:2] < old[:2]:
                    states[reached | covered] = state
        if len(states) > _MOST:
            states = dict(sorted(states.items(), key=lambda item: (-item[0].bit_count(), item[1][:2]))[:_MOST])
    return min(states.items(), key=lambda item: (-item[0].bit_count(), item[1][:2]))[1][2]


def _steps(name: str, values: Sequence[str], goal: Goal, keys: Sequence[str], rule: str) -> dict[int, tuple[str, bool]]:
    """Return for each set of goal options (bits) a value that satisfies it, and whether it matches exactly."""
    options = goal.options
    steps: dict[int, tuple[str, bool]] = {}
    for value in values:
        covered = sum(1 << bit for bit, key in enumerate(keys) if fulfils(value, key, rule))
        named = value in options if isinstance(options, tuple) else options.get(name) == value
        if covered and (covered not in steps or named > steps[covered][1]):
            steps[covered] = value, named
    return steps
