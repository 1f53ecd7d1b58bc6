"""The objective of a run, with coefficients that change from iteration to iteration."""

from collections.abc import Mapping
from dataclasses import replace

from turncredit.training.config.coefficient_schedules import CoefficientSchedule
from turncredit.training.objectives.run_objective import Objective


class ScheduledObjective:
    """The objective with the coefficients of the current iteration.

    Args:
        objective: the loss, with the coefficients of the first iteration.
        schedule: how they change.

    Attributes:
        coefficients: those of the current iteration, "kl" and "entropy"; a checkpoint keeps them.
    """

    def __init__(self, objective: Objective, schedule: CoefficientSchedule) -> None:
        self._objective, self._schedule = objective, schedule
        self.coefficients = schedule.first()

    @property
    def kl(self) -> float:
        """Coefficient of the KL term, in the loss or in the rewards."""
        return self.coefficients["kl"]

    @property
    def current(self) -> Objective:
        """The loss with the coefficients of the current iteration."""
        kl = 0.0 if self._schedule.kl_in_reward else self.kl
        return replace(self._objective, kl=kl, entropy=self.coefficients["entropy"])

    def adapt(self, stats: Mapping[str, float], episodes: int) -> None:
        """Go on to the coefficients of the next iteration.

        Args:
            stats: statistics of the update.
            episodes: number of episodes in the iteration.
        """
        self.coefficients = self._schedule.after(self.coefficients, stats, episodes)
