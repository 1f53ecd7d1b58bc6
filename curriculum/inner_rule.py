"""A task rule inside another one: a rule that decides on sizes or weights leaves the choice of tasks to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from numpy.random import Generator

from turncredit.credit.errors import BadOption
from turncredit.curriculum.draws import TASK_RULES, TaskDraw, TaskRule
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rule_registry import bound

__all__ = ["Inner", "RuleChoice", "chosen_rule", "columns_of", "drawn_by"]

RuleChoice = str | Mapping[str, object]
"""A task rule by name, or a table with its name and options: {"name": "spo", "floor": 0.1}."""


COLUMN, METRICS = "column", "metrics"
"""Options of task rules that name columns: one, or several with their weights."""
INNER = ("tasks", "rule", "other")
"""Options of task rules that are task rules."""


class Inner(TypedDict):
    """What is remembered of an inner rule."""

    seed: int
    state: object


def chosen_rule(choice: RuleChoice, *, check: bool = True) -> TaskRule:
    """Return a task rule with its options bound.

    Args:
        choice: the rule.
        check: whether the values of its options are checked, which takes a draw.

    Raises:
        BadOption: the choice is a table without a name, or the rule does not accept an option.
        BadSetting: there is no such rule.
    """
    options: dict[str, object] = {"name": choice} if isinstance(choice, str) else dict(choice)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise BadOption(f'a task rule is a name or a table with a name, such as {{name = "vade"}}; got {choice!r}')
    return bound(TASK_RULES, name, options) if check else TASK_RULES.get(name).bind(**options)


def columns_of(rule: TaskRule) -> frozenset[str]:
    """Return the names of the remembered columns that a rule reads, by its options, and those of its inner rules.

    >>> columns_of(TaskRule("mine", "", None, "", "", lambda records, *, column="value": None))
    frozenset({'value'})
    """
    names = set[str]()
    for option, value in rule.options.items():
        if option == COLUMN and isinstance(value, str):
            names.add(value)
        elif option == METRICS and isinstance(value, Mapping):
            names |= value.keys()
        elif option in INNER and isinstance(value, str | Mapping):
            names |= columns_of(chosen_rule(value, check=False))
    return frozenset(names)


def drawn_by(
    choice: RuleChoice,
    records: TaskRecords,
    state: Inner | None,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
) -> tuple[TaskDraw, Inner]:
    """Return what another rule draws, and what is to be remembered of it.

    A rule with an option `seed` gets one that the first draw chooses, unless the choice names it.

    Args:
        choice: the rule.
        state: what was remembered of it.
        records, count, group, iteration, total, rng: as in `TaskRule`.

    Raises:
        BadOption: the choice is a table without a name, or the rule does not accept an option.
        BadSetting: there is no such rule.
    """
    rule = chosen_rule(choice, check=state is None)
    seed = int(rng.integers(2**31)) if state is None else state["seed"]
    if "seed" in rule.options and (isinstance(choice, str) or "seed" not in choice):
        rule = rule.bind(seed=seed)
    memory = None if state is None else state["state"]
    draw = rule(records, count=count, group=group, iteration=iteration, total=total, rng=rng, state=memory)
    return draw, {"seed": seed, "state": draw.state}
