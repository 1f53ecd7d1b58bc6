"""What players earn: returns as shares of the best return, on a fixed panel of starts, with an interval.

The share of an episode is its return divided by what the expert earns on the same task, or by the best return that the
caller names, or by 1; it is cut to [0, 1]. An environment whose best return is not positive has no shares.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from turnwise.envs.checks.contract_rule import RuleSkipped
from turnwise.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, same
from turnwise.envs.checks.explorer import Explorer
from turnwise.envs.info import WON

__all__ = [
    "IDLE_TURNS",
    "Choose",
    "Earned",
    "Start",
    "best_return",
    "earn",
    "expert_episode",
    "panel",
    "score_interval",
    "share",
    "wins",
]

IDLE_TURNS: Final = 300
"""Most turns of an episode of a cheap player."""
_TRIES: Final = 3
"""Seeds that are tried for each start of the panel, where tasks have to be repeated."""

Choose = Callable[[ProbeStep, int], object]


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


def panel(explorer: Explorer) -> list[Start]:
    """Return different starts, as many as the effort allows: tasks evenly spread, then further seeds of them."""
    if explorer.panel is None:
        starts: list[Start] = []
        for task, seed in _draws(explorer):
            first = explorer.play(task, [], seed=seed).last
            if not any(start.task == task and same(start.first.observation, first.observation) for start in starts):
                starts.append(Start(task, seed, first))
            if len(starts) == explorer.effort.floor:
                break
        explorer.panel = starts
    return list(explorer.panel)


def _draws(explorer: Explorer) -> Iterator[tuple[str | None, int]]:
    """Yield tasks and seeds to try for the panel."""
    tasks = explorer.panel_tasks
    count = max(len(tasks), _TRIES * explorer.effort.floor)
    for number in range(count):
        yield tasks[number % len(tasks)], explorer.seed + number // len(tasks)


def best_return(explorer: Explorer, start: Start) -> float:
    """Return the return of a solved episode from a start.

    Raises:
        RuleSkipped: it is not positive.
    """
    if explorer.bounds.best is not None:
        best = explorer.bounds.best
    else:
        expert = expert_episode(explorer, start)
        best = 1.0 if expert is None else expert.earned
    if best <= 0:
        raise RuleSkipped(f"the best return is {best:g}; shares of it can be told only if it is positive")
    return best


def expert_episode(explorer: Explorer, start: Start) -> ProbeEpisode | None:
    """Return the episode of the plan from a start; None without a plan."""
    key = (start.task, start.seed)
    if key not in explorer.expert_episodes:
        explorer.expert_episodes[key] = _expert_episode(explorer, start)
    return explorer.expert_episodes[key]


def _expert_episode(explorer: Explorer, start: Start) -> ProbeEpisode | None:
    if not explorer.has("plan"):
        return None
    env = explorer.free
    explorer.play(start.task, [], env=env, seed=start.seed)
    try:
        plan = list(env.get_wrapper_attr("plan")())
    except Exception:  # the rule "plan" shows it
        return None
    return explorer.play(start.task, plan, env=env, seed=start.seed)


def share(explorer: Explorer, start: Start, earned: float) -> float:
    """Return a return as a share of the best one, in [0, 1]."""
    return min(1.0, max(0.0, earned / best_return(explorer, start)))


def turns_of(explorer: Explorer) -> int:
    """Return the most turns of an episode of a cheap player."""
    if explorer.source.limit is not None:
        return min(explorer.source.limit, IDLE_TURNS)
    return min(IDLE_TURNS, 10 * explorer.effort.turns)


def earn(
    explorer: Explorer,
    label: str,
    player: Callable[[Start, int], Choose],
    *,
    turns: int | None = None,
    starts: Sequence[Start] | None = None,
) -> Earned:
    """Return what a player earns on the panel.

    Args:
        explorer: the environment.
        label: name of the player.
        player: (start, number of the start) -> the function that chooses actions in an episode from there.
        turns: most turns of an episode; None: those of an idle one.
        starts: the starts; None: the whole panel.

    Raises:
        Crash: the environment raised an exception in every episode.
    """
    episodes, shares, crash = [], [], None
    for number, start in enumerate(panel(explorer) if starts is None else starts):
        try:
            episode = explorer.walk(start.task, player(start, number), turns or turns_of(explorer), seed=start.seed)
        except Crash as error:  # an odd action may be refused with an exception; the rule "refused" shows it
            crash = error
            continue
        episodes.append(episode)
        shares.append(share(explorer, start, episode.earned))
    if not episodes:
        raise crash or RuleSkipped("there is no start to play from")
    return Earned(label, tuple(episodes), tuple(shares))
