"""The rules of a run, found by name and with their options bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self, TypeVar

from turncredit.agents.errors import look_up
from turncredit.curriculum import BadSetting, GroupRule, RewardRule, TaskRule
from turncredit.curriculum.annotation import Annotator
from turncredit.curriculum.annotators.catalogue import get_annotator
from turncredit.curriculum.group_rules.catalogue import get_group_rule
from turncredit.curriculum.lessons import LessonLibrary
from turncredit.curriculum.replay import ReplayRule
from turncredit.curriculum.replay_rules.catalogue import get_replay_rule
from turncredit.curriculum.reward_rules.catalogue import get_reward_rule
from turncredit.curriculum.rule_registry import Getter
from turncredit.curriculum.stored_episodes import Admission
from turncredit.curriculum.task_rules.catalogue import get_task_rule
from turncredit.engines.base import SAMPLERS, parse_sampler
from turncredit.training.config.sections import Choice, SamplingSection, chosen
from turncredit.training.errors import ConfigError

__all__ = ["SamplingRules"]

R = TypeVar("R")

SEED = "seed"
"""An option of task rules that is the seed of the run's tasks unless it is set."""
WEIGHTS = "weights"
"""An option of task rules that is the weights of a mixture's parts unless it is set."""


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """The rules of a run.

    Attributes:
        tasks: which tasks are drawn.
        groups: when a group is complete, and what else is played.
        rewards: which reward credit sees.
        annotators: fill in columns and write lessons.
        replay: which stored episodes are trained on beside a batch; None: none.
        admission: which episodes are stored; None: none.
        lessons: an empty library.
        max_rounds: rounds after which a group is complete.
        max_drops: groups that may be dropped in an iteration.
    """

    tasks: TaskRule
    groups: tuple[GroupRule, ...] = ()
    rewards: tuple[RewardRule, ...] = ()
    annotators: tuple[Annotator, ...] = ()
    replay: ReplayRule | None = None
    admission: Admission | None = None
    lessons: LessonLibrary = field(default_factory=LessonLibrary)
    max_rounds: int = 16
    max_drops: int = 0

    @classmethod
    def of(cls, section: SamplingSection, *, seed: int, groups: int, weights: Mapping[str, float]) -> Self:
        """Return the rules of a `[sampling]` section.

        Args:
            section: the section.
            seed: of the tasks.
            groups: of an iteration.
            weights: of the parts of a mixture, by their names; empty for one environment.

        Raises:
            ConfigError: there is no such rule, it cannot be imported, or an option without default is missing.
            BadOption: it has no such option, or the option has an impossible value.
        """
        with settings_checked():
            rules = cls(
                _task_rule(section.tasks, {SEED: seed, WEIGHTS: weights}),
                tuple(_rule(get_group_rule, choice, "sampling.groups") for choice in section.groups),
                tuple(_rule(get_reward_rule, choice, "sampling.rewards") for choice in section.rewards),
                tuple(_rule(get_annotator, choice, "sampling.annotators") for choice in section.annotators),
                _rule(get_replay_rule, section.replay, "sampling.replay") if section.replay else None,
                Admission.of(section.experience) if section.experience else None,
                LessonLibrary.of(section.lessons),
                section.max_rounds,
                section.max_drops or 10 * groups,
            )
        rules.check(section)
        return rules

    def check(self, section: SamplingSection) -> None:
        """Refuse rules that lack what they need.

        Raises:
            ConfigError: an annotator asks and there is no judge, or nothing is stored that could be replayed.
            AgentError: there is no such engine.
        """
        asking = [annotator.name for annotator in self.annotators if annotator.asks]
        if asking and not section.judge:
            raise ConfigError(
                f"the annotator {asking[0]} asks a model: set sampling.judge, such as "
                '"openai:Qwen/Qwen3-8B@http://127.0.0.1:8000/v1"'
            )
        taught = [rule.name for rule in self.groups if rule.taught]
        if taught and not section.teachers:
            raise ConfigError(
                f"the group rule {taught[0]} lets other models play: set sampling.teachers, such as "
                '["openai:Qwen/Qwen3-8B@http://127.0.0.1:8000/v1"]'
            )
        for teacher in section.teachers:
            look_up(SAMPLERS, parse_sampler(teacher)[0])
        if section.judge:
            look_up(SAMPLERS, parse_sampler(section.judge)[0])
        if self.replay is not None and self.admission is None:
            raise ConfigError(
                f"sampling.replay = {self.replay.name!r} trains on stored episodes: set sampling.experience, such as "
                '{keep = "success"}'
            )


@contextmanager
def settings_checked() -> Iterator[None]:
    """Raise what a rule says of its settings as an error of the run's keys.

    Raises:
        ConfigError: there is no such rule, or a setting is unknown or impossible.
    """
    try:
        yield
    except BadSetting as error:
        raise ConfigError(str(error)) from error


def _rule(get: Getter[R], choice: Choice, key: str) -> R:
    name, options = chosen(choice, key)
    return get(name, **options)


def _task_rule(choice: Choice, defaults: Mapping[str, object]) -> TaskRule:
    rule = _rule(get_task_rule, choice, "sampling.tasks")
    _, options = chosen(choice, "sampling.tasks")
    return rule.bind(**{name: value for name, value in defaults.items() if name in rule.options.keys() - options})
