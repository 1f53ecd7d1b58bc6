"""The rewards that the credit of a run saw: its reward rules, applied again to stored turns.

Not included: memories of earlier iterations, without which rules begin as in the first one; the divergence from the
reference policy, which needs both models; what annotators with a model said.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from turncredit.credit.errors import MissingColumn
from turncredit.registry import is_untrusted

if TYPE_CHECKING:
    from turncredit.credit import Steps
    from turncredit.curriculum import RewardRule
    from turncredit.training.config.run import Run


@dataclass(frozen=True, slots=True)
class RunRewards:
    """The reward rules of a run in one of its iterations.

    Attributes:
        rules: from left to right.
        iteration: number of iterations that were finished before it.
        total: iterations of the run.
        charged: whether the run subtracted the divergence from the reference policy.
    """

    rules: Sequence[RewardRule] = ()
    iteration: int = 0
    total: int = 1
    charged: bool = False

    @classmethod
    def of(cls, run: Run, iteration: int) -> Self:
        """Return those of a run; a rule whose code the run's file names, and may not name, is left out with all.

        Args:
            run: the configuration, in its stage.
            iteration: see the attributes.
        """
        from turncredit.curriculum.reward_rules.catalogue import get_reward_rule
        from turncredit.training.config.sections import chosen
        from turncredit.training.errors import ConfigError

        rules: list[RewardRule] = []
        try:
            for choice in run.sampling.rewards:
                name, options = chosen(choice, "sampling.rewards")
                rules.append(get_reward_rule(name, **options))
        except ConfigError as error:
            if not is_untrusted(error):
                raise
            warnings.warn(f"advantages are those of the environment's rewards: {error}", stacklevel=2)
            rules = []
        kl = run.objective.kl
        return cls(tuple(rules), iteration, run.train.iterations, kl.coefficient > 0 and kl.where == "reward")

    def __call__(self, steps: Steps) -> Steps:
        """Return the table with these rewards, or as it is, with a warning, where it lacks what a rule reads."""
        from turncredit.training.sampling.applied_rewards import AppliedRewards

        try:
            return AppliedRewards(self.rules, self.total)(steps, self.iteration)
        except MissingColumn as error:
            warnings.warn(f"advantages are those of the environment's rewards: {error}", stacklevel=2)
            return steps

    def describe(self) -> list[str]:
        """Return a line that names the rules, and one about what is not computed again."""
        lines = [f"rewards changed by {', '.join(rule.name for rule in self.rules)}"] if self.rules else []
        return [*lines, "without the KL term that the run subtracted from the rewards"] if self.charged else lines


def finished_before(file: Path) -> int:
    """Return the number of iterations before that of a file of trajectories; 0 for one without a number."""
    number = file.name.partition(".")[0]
    return max(0, int(number) - 1) if number.isdecimal() else 0


def run_at(file: Path) -> tuple[Run | None, int]:
    """Return the run that a file of trajectories belongs to, in its stage, and how many iterations were finished then.

    Args:
        file: of an iteration; of anything else in a run's folder, or the folder, the run is that of its first stage.

    Raises:
        ConfigError: the run's file cannot be read.
    """
    from turncredit.training.config.stage_runs import run_in_stage
    from turncredit.training.run_folder.metrics import METRICS, read_events
    from turncredit.training.run_folder.paths import run_of

    run, iteration = run_of(file), finished_before(file)
    if run is None or not run.stages:
        return run, iteration
    events = read_events(file.resolve().parent.parent / METRICS)
    stages = [event["stage"] for event in events if event.get("iteration") == iteration + 1 and "stage" in event]
    return run_in_stage(run, int(stages[-1]) if stages else 0), iteration
