"""The panel as data: its starts, and what a player earned on it, with an interval."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from statistics import NormalDist

from turncredit.envs.checks.episode_data import ProbeEpisode, ProbeStep
from turncredit.envs.info import WON

__all__ = ["Earned", "Start", "score_interval", "wins"]


@dataclass(frozen=True, slots=True)
class Start:
    """A start of the panel: a task (None: the environment draws one), a seed, and what is seen first."""

    task: str | None
    seed: int
    first: ProbeStep


@dataclass(frozen=True, slots=True)
class Earned:
    """What a player earned on the panel: its episodes, and the share of the best return of each."""

    label: str
    episodes: tuple[ProbeEpisode, ...]
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean share."""
        return statistics.fmean(self.shares)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the mean share at 95 %."""
        return score_interval(self.mean, len(self.shares))

    @property
    def won(self) -> int:
        """The number of episodes that were won."""
        return sum(wins(episode) for episode in self.episodes)

    def __str__(self) -> str:
        """Return the mean share, its interval, and n."""
        low, high = self.interval
        return f"{self.mean:.2f} of the best return [{low:.2f}, {high:.2f}], n={len(self.shares)}"

    def values(self) -> dict[str, object]:
        """Return what was measured, for a report."""
        low, high = self.interval
        returns = [episode.earned for episode in self.episodes]
        counts = {"n": len(self.shares), "won": self.won}
        return {"player": self.label, "share": self.mean, "low": low, "high": high, **counts, "returns": returns}


def score_interval(mean: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval with a mean of scores in [0, 1] in the place of the rate.

    Scores in [0, 1] vary at most as much as wins and losses of the same mean, so the interval is at least as wide as
    theirs needs to be.

    >>> [round(end, 3) for end in score_interval(0.0, 8)]
    [0.0, 0.324]
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    scale = 1 + z * z / n
    centre = (mean + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(max(0.0, mean * (1 - mean)) / n + z * z / (4 * n * n))
    return (0.0 if mean <= 0 else max(0.0, centre - half)), (1.0 if mean >= 1 else min(1.0, centre + half))


def wins(episode: ProbeEpisode) -> bool:
    """Return whether an episode says that it was won."""
    return bool(episode.last.info.get(WON, False))
