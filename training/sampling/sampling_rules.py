"""The rules of a run, found by name and with their options bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

from turnwise.training.config.sections import Choice, SamplingSection, chosen
from turnwise.training.sampling.draws import TaskRule
from turnwise.training.sampling.group_rules.catalogue import get_group_rule
from turnwise.training.sampling.growth import GroupRule
from turnwise.training.sampling.reward_rules.catalogue import get_reward_rule
from turnwise.training.sampling.rewards import RewardRule
from turnwise.training.sampling.task_rules.catalogue import get_task_rule

__all__ = ["SamplingRules"]

R = TypeVar("R")

SEED = "seed"
"""An option of task rules that is the seed of the run's tasks unless it is set."""


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """The rules of a run.

    Attributes:
        tasks: which tasks are drawn.
        groups: when a group is complete, and what else is played.
        rewards: which reward credit sees.
        max_rounds: rounds after which a group is complete.
        max_drops: groups that may be dropped in an iteration.
    """

    tasks: TaskRule
    groups: tuple[GroupRule, ...] = ()
    rewards: tuple[RewardRule, ...] = ()
    max_rounds: int = 16
    max_drops: int = 0

    @classmethod
    def of(cls, section: SamplingSection, *, seed: int, groups: int) -> Self:
        """Return the rules of a `[sampling]` section.

        Args:
            section: the section.
            seed: of the tasks.
            groups: of an iteration.

        Raises:
            ConfigError: there is no such rule, it cannot be imported, or an option without default is missing.
            BadOption: it has no such option, or the option has an impossible value.
        """
        return cls(
            _task_rule(section.tasks, seed),
            tuple(_rule(get_group_rule, choice, "sampling.groups") for choice in section.groups),
            tuple(_rule(get_reward_rule, choice, "sampling.rewards") for choice in section.rewards),
            section.max_rounds,
            section.max_drops or 10 * groups,
        )


def _rule(get: Callable[..., R], choice: Choice, key: str) -> R:
    name, options = chosen(choice, key)
    return get(name, **options)


def _task_rule(choice: Choice, seed: int) -> TaskRule:
    rule: TaskRule = _rule(get_task_rule, choice, "sampling.tasks")
    _, options = chosen(choice, "sampling.tasks")
    return rule.bind(**{SEED: seed}) if SEED in rule.options and SEED not in options else rule
