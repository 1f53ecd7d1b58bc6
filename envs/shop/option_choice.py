"""Which options of a product to choose, so that as many as can be of a goal's options are fulfilled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.matching import fulfils, option_keys
from turnwise.envs.shop.product import Product

__all__ = ["best_options"]

_MOST: Final = 1024  # states that are kept

_State = tuple[int, int, dict[str, str]]
"""How many options are chosen, minus how many of them are asked for by that very name and value, and the choice."""


def best_options(product: Product, goal: Goal, rule: str) -> dict[str, str]:
    """Return a choice of options that fulfils as many options of the goal as any choice does.

    Taking the best value of each option by itself is not enough, because a value may fulfil several options of the
    goal, and several values the same one. So the options of the product are gone through one by one, keeping for each
    set of fulfilled goal options the best choice that leads there: the fewest values, then those that the goal names,
    then the first on the page. Exact as long as there are at most 1,024 such sets (ten goal options); beyond, the
    largest sets are kept.

    Returns:
        Values by option, without options that would add nothing.
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
    """Return for each set of goal options (bits) that a value fulfils: the value, and whether the goal names it."""
    options = goal.options
    steps: dict[int, tuple[str, bool]] = {}
    for value in values:
        covered = sum(1 << bit for bit, key in enumerate(keys) if fulfils(value, key, rule))
        named = value in options if isinstance(options, tuple) else options.get(name) == value
        if covered and (covered not in steps or named > steps[covered][1]):
            steps[covered] = value, named
    return steps
