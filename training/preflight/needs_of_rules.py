"""What the rules of a run need that its environment may lack: columns of the table of turns, and an expert."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from turncredit.agents.steps import COLUMNS, FOREST, SOURCE
from turncredit.credit.registry import CreditRule
from turncredit.credit.registry import get as get_credit_rule
from turncredit.envs import EnvError, NoExpert, maker, parts_of
from turncredit.envs.info import EXTRAS, NO_FORKS, Environment
from turncredit.training.config.run import Run
from turncredit.training.play.fork_values import COLUMNS as VALUES
from turncredit.training.preflight.column_sources import choices
from turncredit.training.sampling.applied_rewards import OUTCOME
from turncredit.training.sampling.forest_growth import forest_of
from turncredit.training.sampling.sampling_rules import SamplingRules

__all__ = [
    "cannot_fork",
    "filled_columns",
    "has_expert",
    "lacks_expert",
    "lacks_forks",
    "missing_columns",
    "missing_for_groups",
    "missing_for_rewards",
    "opened",
    "replaying",
    "showing_plans",
    "unfilled",
]


def credit_rule(run: Run) -> CreditRule:
    """Return the credit rule of a run, with its options."""
    return get_credit_rule(run.credit.method, **run.credit.options)


def missing_columns(run: Run) -> list[str]:
    """Return the columns that the credit rule needs and the environment, which is opened then, does not provide."""
    return _not_reported(run, credit_rule(run).missing(filled_columns(run)))


def missing_for_rewards(run: Run) -> dict[str, list[str]]:
    """Return the columns that reward rules need and nothing provides, by the name of the rule."""
    filled = {*filled_columns(run), OUTCOME}
    missing = {rule.name: _not_reported(run, sorted(set(rule.needs) - filled)) for rule in _rules(run).rewards}
    return {name: columns for name, columns in missing.items() if columns}


def missing_for_groups(run: Run) -> dict[str, str]:
    """Return the column by which a group rule chooses members and which the environment does not report, by its name.

    Groups are complete before annotators see them.
    """
    named = {rule.name: str(rule.options["score"]) for rule in _rules(run).groups if rule.options.get("score")}
    return {name: column for name, column in named.items() if _not_reported(run, [column])}


def unfilled(run: Run) -> str:
    """Return the sentence that says which columns a run's rules need that nothing fills, and what could; or nothing."""
    if columns := missing_columns(run):
        return (
            f"credit.method {run.credit.method!r} needs {', '.join(map(repr, columns))} for every turn, which "
            f'{run.env.id} does not provide; reset() returns the defaults of all turns in info["extras"], and step() '
            f"the values of one turn{choices(columns)}"
        )
    of_rewards = (
        f"the reward rule {name!r} needs {', '.join(map(repr, columns))} for every turn, which {run.env.id} does not "
        f"provide{choices(columns)}"
        for name, columns in missing_for_rewards(run).items()
    )
    of_groups = (
        f"the group rule {name!r} chooses members by the column {column!r}, which {run.env.id} does not report in "
        'info["extras"], and which annotators would fill too late; its option `score` names another one'
        f"{choices([column])}"
        for name, column in missing_for_groups(run).items()
    )
    return "; ".join([*of_rewards, *of_groups])


def _not_reported(run: Run, needs: Sequence[str]) -> list[str]:
    """Return which columns the environment, which is opened then, does not report."""
    if not needs:
        return []
    columns = [set(env.reset(seed=0)[1].get(EXTRAS) or ()) for env in opened(run, run.env.arguments())]
    return [name for name in needs if any(name not in provided for provided in columns)]


def filled_columns(run: Run) -> set[str]:
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
    forest = forest_of(run.train)
    return forest is not None and forest.roots >= forest.size


def lacks_expert(run: Run) -> bool:
    """Whether a rule of where to fork asks an expert that the environment, which is opened then, does not have."""
    forest = forest_of(run.train)
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
