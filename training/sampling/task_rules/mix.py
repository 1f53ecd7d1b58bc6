"""Two task rules at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.random import Generator

from turnwise.credit.option_checks import check_number
from turnwise.training.config.sections import Choice, chosen
from turnwise.training.errors import ConfigError
from turnwise.training.sampling.draws import TASK_RULES, TaskDraw, TaskRule
from turnwise.training.sampling.records import TaskRecords
from turnwise.training.sampling.rule_registry import bound


def mix(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    rules: Sequence[Choice],
    share: float = 0.5,
    seed: int = 0,
    state: Sequence[object] | None = None,
) -> TaskDraw:
    """Return a share of the groups from one rule, and the rest from another.

    Where share * count is no integer, chance rounds it, so that the share holds on average.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration: number of finished iterations.
        total: iterations of the whole run.
        rng: of this iteration.
        rules: names of two task rules, or tables with a name and options.
        share: of the first rule, in [0, 1].
        seed: of rules that have one.
        state: what the two rules returned.

    Raises:
        ConfigError: there are not two rules, or one of them cannot be found.
        BadOption: share is outside [0, 1], or a rule has no such option.
    """
    check_number("share", share, 0, 1)
    if isinstance(rules, str) or len(rules) != 2:
        raise ConfigError(f"mix needs rules = [FIRST, SECOND], got {rules!r}")
    first = int(share * count + rng.random())
    memory, draws = list(state or (None, None)), list[TaskDraw]()
    for number, n in enumerate((min(first, count), count - min(first, count))):
        if not n:
            continue
        rule = _bound(rules[number], seed)
        draw = rule(records, count=n, group=group, iteration=iteration, total=total, rng=rng, state=memory[number])
        memory[number] = draw.state
        draws.append(draw)
    return _joined(draws, memory)


def _bound(choice: Choice, seed: int) -> TaskRule:
    name, options = chosen(choice, "rules of sampling.tasks")
    rule: TaskRule = bound(TASK_RULES, name, options)
    return rule.bind(seed=seed) if "seed" in rule.options and "seed" not in options else rule


def _joined(draws: Sequence[TaskDraw], memory: list[object]) -> TaskDraw:
    """Return the groups of several draws."""
    weights = [draw.weight or (1.0,) * len(draw.tasks) for draw in draws]
    options: list[tuple[Mapping[str, object], ...]] = [draw.options or ({},) * len(draw.tasks) for draw in draws]
    return TaskDraw(
        tuple(task for draw in draws for task in draw.tasks),
        tuple(size for draw in draws for size in draw.episodes),
        tuple(weight for column in weights for weight in column),
        tuple(option for column in options for option in column),
        memory,
    )
