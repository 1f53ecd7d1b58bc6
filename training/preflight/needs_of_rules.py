"""What the rules of a run need that its environment may lack: columns of the table of turns, and an expert."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from turncredit.agents.steps import COLUMNS, FOREST, SOURCE
from turncredit.credit.registry import get as get_credit_rule
from turncredit.envs import EnvError, NoExpert, maker, parts_of
from turncredit.envs.info import EXTRAS, NO_FORKS, Environment
from turncredit.training.config.run import Run
from turncredit.training.forest.fork_values import COLUMNS as VALUES
from turncredit.training.sampling.applied_rewards import OUTCOME
from turncredit.training.sampling.forest_growth import Forest
from turncredit.training.sampling.sampling_rules import SamplingRules

__all__ = [
    "cannot_fork",
    "has_expert",
    "lacks_expert",
    "lacks_forks",
    "missing_columns",
    "missing_for_rewards",
    "opened",
    "replaying",
    "showing_plans",
]


def missing_columns(run: Run) -> list[str]:
    """Return the columns that the credit rule needs and the environment, which is opened then, does not provide."""
    rule = get_credit_rule(run.credit.method, **run.credit.options)
    return _not_reported(run, rule.missing(_filled(run)))


def missing_for_rewards(run: Run) -> dict[str, list[str]]:
    """Return the columns that reward rules need and nothing provides, by the name of the rule."""
    filled = {*_filled(run), OUTCOME}
    missing = {rule.name: _not_reported(run, sorted(set(rule.needs) - filled)) for rule in _rules(run).rewards}
    return {name: columns for name, columns in missing.items() if columns}


def _not_reported(run: Run, needs: Sequence[str]) -> list[str]:
    """Return which columns the environment, which is opened then, does not report."""
    if not needs:
        return []
    columns = [set(env.reset(seed=0)[1].get(EXTRAS) or ()) for env in opened(run, run.env.arguments())]
    return [repr(name) for name in needs if any(name not in provided for provided in columns)]


def _filled(run: Run) -> set[str]:
    """Return the columns that every environment's turns have in a run."""
    forks = run.train.forks
    forked = forks.where or run.sampling.groups
    taught = (SOURCE,) if any(rule.taught for rule in _rules(run).groups) else ()
    noted = {column for annotator in _rules(run).annotators for column in annotator.columns}
    return {*COLUMNS, "hindsight", *noted, *(FOREST if forked else ()), *(VALUES if forks.values else ()), *taught}


def _rules(run: Run) -> SamplingRules:
    return SamplingRules.of(run.sampling, seed=0, groups=run.train.groups, weights={})


def showing_plans(run: Run) -> list[str]:
    """Return the names of the group rules that need an expert."""
    return [repr(rule.name) for rule in _rules(run).groups if rule.expert]


def replaying(run: Run) -> str:
    """Return the key by which stored episodes of older weights are trained on; empty if none are."""
    rules = [repr(rule.name) for rule in _rules(run).groups if rule.replays]
    return f"sampling.groups: {', '.join(rules)}" if rules else "sampling.replay" if run.sampling.replay else ""


def has_expert(run: Run) -> bool:
    """Whether the environment, which is opened then, can plan."""
    return all(getattr(env.unwrapped, "plan", None) is not None for env in opened(run, run.env.arguments()))


def lacks_forks(run: Run) -> bool:
    """Whether all episodes of a group begin with a reset though a rule says where to fork."""
    forest = Forest.of(run.train)
    return forest is not None and forest.roots >= forest.size


def lacks_expert(run: Run) -> bool:
    """Whether a rule of where to fork asks an expert that the environment, which is opened then, does not have."""
    forest = Forest.of(run.train)
    if forest is None or forest.rule.options.get("by") != "expert":
        return False
    return any(_has_no_plan(env) for env in opened(run, run.env.arguments()))


def _has_no_plan(env: Environment) -> bool:
    """Whether an environment has no expert."""
    env.reset(seed=0)
    try:
        env.get_wrapper_attr("plan")()
    except (AttributeError, NoExpert):
        return True
    except EnvError:  # no plan for this task, which says nothing about others
        return False
    return False


def cannot_fork(run: Run) -> str:
    """Return why the environment, which is opened then, cannot begin in the middle of an episode; else nothing."""
    reasons = [str(env.metadata.get(NO_FORKS, "")) for env in opened(run, run.env.arguments())]
    return next(filter(None, reasons), "")


def opened(run: Run, kwargs: Mapping[str, object]) -> Iterator[Environment]:
    """Yield the environment of a run, or each of several; it is closed when the next one is asked for."""
    parts = parts_of(run.env.id, **kwargs)
    for id, arguments in [(part.id, part.kwargs) for part in parts] or [(run.env.id, kwargs)]:
        with closing(maker(id, **arguments)()) as env:
            yield env
