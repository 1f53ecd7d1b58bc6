"""Coefficients that follow a target: of the divergence from the reference, and of the entropy bonus.

Both are pure functions of what they were and of what was seen, so that a checkpoint keeps them as two numbers.

Left out on purpose: targets that change over a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

KlIn = Literal["loss", "reward"]


def adaptive_kl(coefficient: float, observed: float, *, target: float, horizon: float, episodes: int) -> float:
    """Give the next coefficient of the divergence: more where it was above its target, less where below.

        coefficient (1 + clip(observed / target - 1, -0.2, 0.2) * episodes / horizon)

    >>> adaptive_kl(0.1, 0.2, target=0.1, horizon=1000, episodes=100)
    0.10200000000000001

    Args:
        coefficient: as it was.
        observed: nats, mean divergence a token in the last iteration.
        target: nats, above 0.
        horizon: episodes; the larger, the slower.
        episodes: of the last iteration.

    Source: Ziegler et al. 2019, arXiv 1909.08593.
    """
    error = min(0.2, max(-0.2, observed / target - 1.0))
    return coefficient * (1.0 + error * min(1.0, episodes / horizon))


def adaptive_entropy(coefficient: float, observed: float, *, target: float, step: float, most: float = 1.0) -> float:
    """Give the next coefficient of the entropy bonus: a step up where the entropy is at most its target, else down.

    >>> adaptive_entropy(0.0, 0.1, target=0.2, step=0.005)
    0.005

    Args:
        coefficient: as it was.
        observed: nats, mean entropy in the last iteration.
        target: nats.
        step: how far it moves; 0: not at all.
        most: it stays between 0 and this.

    Source: as in TRL (adaptive entropy).
    """
    if not step:
        return coefficient
    return min(most, max(0.0, coefficient + (step if observed <= target else -step)))


@dataclass(frozen=True, slots=True)
class Control:
    """How the two coefficients begin and move.

    Attributes:
        kl: at the beginning.
        kl_in: whether the divergence is part of the "loss", or taken off the "reward" of each turn.
        kl_target: nats; 0: the coefficient stays.
        kl_horizon: episodes.
        kl_estimator: of the divergence in the reward.
        entropy: at the beginning.
        entropy_target: nats; 0: the coefficient stays.
        entropy_step: see adaptive_entropy.
    """

    kl: float = 0.0
    kl_in: KlIn = "loss"
    kl_target: float = 0.0
    kl_horizon: float = 10000.0
    kl_estimator: str = "k3"
    entropy: float = 0.0
    entropy_target: float = 0.0
    entropy_step: float = 0.0

    @property
    def in_reward(self) -> bool:
        """Whether the divergence is taken off rewards."""
        return bool(self.kl) and self.kl_in == "reward"

    def begin(self) -> dict[str, float]:
        """Give the coefficients of the first iteration."""
        return {"kl": self.kl, "entropy": self.entropy}

    def after(self, now: Mapping[str, float], stats: Mapping[str, float], episodes: int) -> dict[str, float]:
        """Give the coefficients of the next iteration.

        Args:
            now: of the last one.
            stats: of its update; what is missing there moves nothing.
            episodes: that were played in it.
        """
        kl, entropy = now["kl"], now["entropy"]
        if self.kl_target and "kl" in stats:
            kl = adaptive_kl(kl, stats["kl"], target=self.kl_target, horizon=self.kl_horizon, episodes=episodes)
        if self.entropy_target and "entropy" in stats:
            entropy = adaptive_entropy(entropy, stats["entropy"], target=self.entropy_target, step=self.entropy_step)
        return {"kl": kl, "entropy": entropy}
