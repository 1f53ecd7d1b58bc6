"""Schedules of the KL and entropy coefficients: each follows a target, as a pure function of its last value.

A checkpoint therefore keeps the two numbers and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from turncredit.training.config.sections import ObjectiveSection


def adaptive_kl(coefficient: float, observed: float, *, target: float, horizon: float, episodes: int) -> float:
    """Return the next KL coefficient: larger where the divergence is above its target, smaller where it is below.

        coefficient (1 + clip(observed / target - 1, -0.2, 0.2) * min(1, episodes / horizon))

    >>> adaptive_kl(0.1, 0.2, target=0.1, horizon=1000, episodes=100)
    0.10200000000000001

    Args:
        coefficient: the last value.
        observed: mean divergence per token in the last iteration, nats.
        target: nats, > 0.
        horizon: in episodes; a larger one adapts more slowly.
        episodes: number of episodes in the last iteration.

    Source: Ziegler et al. 2019, arXiv 1909.08593.
    """
    error = min(0.2, max(-0.2, observed / target - 1.0))
    return coefficient * (1.0 + error * min(1.0, episodes / horizon))


def adaptive_entropy(coefficient: float, observed: float, *, target: float, step: float, maximum: float = 1.0) -> float:
    """Return the next entropy coefficient: one step up where the entropy is at most its target, else one step down.

    >>> adaptive_entropy(0.0, 0.1, target=0.2, step=0.005)
    0.005

    Args:
        coefficient: the last value.
        observed: mean entropy in the last iteration, nats.
        target: nats.
        step: change per iteration; 0 keeps the coefficient.
        maximum: the coefficient stays in [0, maximum].

    Source: as in TRL (adaptive entropy).
    """
    if not step:
        return coefficient
    return min(maximum, max(0.0, coefficient + (step if observed <= target else -step)))


@dataclass(frozen=True, slots=True)
class CoefficientSchedule:
    """How the KL and entropy coefficients of a run begin and change.

    Attributes:
        section: the `[objective]` section of the run.
    """

    section: ObjectiveSection

    @property
    def kl_in_reward(self) -> bool:
        """Whether the KL term is subtracted from the rewards."""
        return self.section.kl.coefficient > 0 and self.section.kl.where == "reward"

    def first(self) -> dict[str, float]:
        """Return the coefficients of the first iteration: "kl" and "entropy"."""
        return {"kl": self.section.kl.coefficient, "entropy": self.section.entropy.coefficient}

    def after(self, coefficients: Mapping[str, float], stats: Mapping[str, float], episodes: int) -> dict[str, float]:
        """Return the coefficients of the next iteration.

        Args:
            coefficients: those of the last iteration.
            stats: of its update; a coefficient whose statistic is missing stays.
            episodes: number of episodes in it.
        """
        kl, entropy, section = coefficients["kl"], coefficients["entropy"], self.section
        if kl and section.kl.target and "kl" in stats:
            kl = adaptive_kl(kl, stats["kl"], target=section.kl.target, horizon=section.kl.horizon, episodes=episodes)
        if section.entropy.target and "entropy" in stats:
            target, step = section.entropy.target, section.entropy.step
            entropy = adaptive_entropy(entropy, stats["entropy"], target=target, step=step)
        return {"kl": kl, "entropy": entropy}
