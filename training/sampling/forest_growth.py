"""The forest of a run: what `[train]` says of it, and how its rule asks the environment's expert."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.curriculum.forests import Forest
from turncredit.curriculum.fork_places import CouldWin, get_fork_rule
from turncredit.engines.base import Sampler
from turncredit.training.config.sections import TrainSection, chosen
from turncredit.training.sampling.expert_replay import ExpertReplay
from turncredit.training.sampling.sampling_rules import settings_checked

__all__ = ["asking_expert", "forest_of"]


def forest_of(section: TrainSection, could_win: CouldWin | None = None) -> Forest | None:
    """Return the forest of a `[train]` section; None if episodes are not forked.

    Args:
        section: the section.
        could_win: asks the environment's expert.

    Raises:
        ConfigError: there is no such rule.
        BadOption: it has no such option.
    """
    if not section.forks.where:
        return None
    name, options = chosen(section.forks.where, "train.forks.where")
    size = section.group_size
    with settings_checked():
        rule = get_fork_rule(name, **options)
    return Forest(rule, size, section.forks.roots or -(-size // 2), could_win)


def asking_expert(agent: Agent, sampler: Callable[[], Sampler], pool: Callable[[], EnvPool]) -> CouldWin:
    """Return what asks the environment's expert about episodes, which are played over again.

    Args:
        agent: that played the episodes.
        sampler: returns the one that played them, when the expert is first asked.
        pool: makes environments like theirs then.
    """
    expert = cache(lambda: ExpertReplay(agent, sampler(), pool()))
    return lambda trajectory, turn: expert()(trajectory, turn)
