"""What the rules of a run need that its environment may lack: columns of the table of turns, and an expert."""

from collections.abc import Sequence

from turnwise.agents.steps import COLUMNS, FOREST
from turnwise.credit.registry import get as get_credit_rule
from turnwise.envs import maker
from turnwise.envs.info import EXTRAS
from turnwise.training.config.run import Run
from turnwise.training.forest.fork_values import COLUMNS as VALUES
from turnwise.training.sampling.applied_rewards import OUTCOME
from turnwise.training.sampling.sampling_rules import SamplingRules

__all__ = ["has_expert", "missing_columns", "missing_for_rewards", "showing_plans"]


def missing_columns(run: Run) -> list[str]:
    """Return the columns that the credit rule needs and the environment, which is opened then, does not provide."""
    return _unprovided(run, get_credit_rule(run.credit.method, **run.credit.options).needs)


def missing_for_rewards(run: Run) -> dict[str, list[str]]:
    """Return the columns that reward rules need and nothing provides, by the name of the rule."""
    rules = SamplingRules.of(run.sampling, seed=0, groups=run.train.groups).rewards
    missing = {rule.name: _unprovided(run, [name for name in rule.needs if name != OUTCOME]) for rule in rules}
    return {name: columns for name, columns in missing.items() if columns}


def _unprovided(run: Run, columns: Sequence[str]) -> list[str]:
    """Return which columns neither the run nor the environment, which is opened then, provides."""
    needs = [name for name in columns if name not in _filled(run)]
    if not needs:
        return []
    env = maker(run.env.id, **run.env.kwargs)()
    try:
        _, info = env.reset(seed=0)
        return [repr(name) for name in needs if name not in set(info.get(EXTRAS) or ())]
    finally:
        env.close()


def _filled(run: Run) -> set[str]:
    """Return the columns that every environment's turns have in a run."""
    forks = run.train.forks
    forked = forks.where or run.sampling.groups
    return {*COLUMNS, *(FOREST if forked else ()), *(VALUES if forks.values else ())}


def showing_plans(run: Run) -> list[str]:
    """Return the names of the group rules that need an expert."""
    rules = SamplingRules.of(run.sampling, seed=0, groups=run.train.groups).groups
    return [repr(rule.name) for rule in rules if rule.expert]


def has_expert(run: Run) -> bool:
    """Whether the environment, which is opened then, can plan."""
    env = maker(run.env.id, **run.env.kwargs)()
    try:
        return getattr(env.unwrapped, "plan", None) is not None
    finally:
        env.close()
