"""Rules that take a score above a number as right, behind rewards that such a number does not divide.

A judge's score, a preference or a vote is neutral at 0, and a reward of length can put a win below a loss: at 0.5 they
would all be wrong. The environment's own rewards are not looked at.
"""

from collections.abc import Iterator

from turncredit.training.config.run import Run
from turncredit.training.objectives import Objective
from turncredit.training.preflight.needs_of_rules import credit_rule
from turncredit.training.sampling.sampling_rules import SamplingRules

__all__ = ["thresholds_behind_grades", "why_not"]

WIN = "win"
"""The option of an objective that says which outcomes are wins."""


def thresholds_behind_grades(run: Run) -> list[str]:
    """Return the keys that would set a threshold which a run leaves at its default, behind other rewards.

    Args:
        run: the configuration.
    """
    return list(_defaults(run)) if _grades(run) else []


def why_not(run: Run) -> str:
    """Return the sentence with which such a run is refused."""
    keys = thresholds_behind_grades(run)
    rewards = ", ".join(map(repr, _grades(run)))
    method = f"credit.method = {run.credit.method!r}"
    if not keys[0].startswith("credit"):
        method = f"objective.name = {run.objective.name!r}"
    return (
        f"{method} takes scores above 0.5 as right and all others as wrong, which does not divide the rewards of "
        f"{rewards}: set {' and '.join(keys)} to the score of a right episode, or choose a credit rule that compares "
        'scores, such as "grpo", or "raw" where 0 is neutral'
    )


def _grades(run: Run) -> list[str]:
    """Return the names of the reward rules whose rewards are not right above 0.5 and wrong up to it."""
    rules = SamplingRules.of(run.sampling, seed=0, groups=run.train.groups, weights={}).rewards
    return [rule.name for rule in rules if not rule.divides]


def _defaults(run: Run) -> Iterator[str]:
    """Yield the keys of thresholds that the credit rule and the objective have, and the run does not set."""
    rule = credit_rule(run)
    if rule.threshold is not None and "threshold" not in run.credit.options:
        yield "credit.options.threshold"
    options = Objective.from_section(run.objective).info.function.options
    if WIN in options and WIN not in run.objective.options:
        yield f"objective.options.{WIN}"
