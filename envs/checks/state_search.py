"""Search for a difference between two states of an environment, by replay."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from turncredit.envs.checks.episode_data import ProbeStep, difference
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.info import ADMISSIBLE, VALID, WON

__all__ = ["SEEN", "ReachedState", "SearchOutcome", "distance", "search", "tell_apart"]

SEEN: Final = (ADMISSIBLE, VALID, WON)
"""Keys of info that may tell two states apart. Not the score, which belongs to the task, and not the state key."""


@dataclass(frozen=True, slots=True)
class ReachedState:
    """A state, the actions that lead to it, and the actions that were played next."""

    prefix: tuple[Any, ...]
    moment: ProbeStep
    tail: tuple[Any, ...]

    @property
    def face(self) -> tuple[Any, Any]:
        """What can be seen without acting: the admissible actions, and whether the task is won."""
        actions = self.moment.admissible
        return (None if actions is None else tuple(sorted(map(repr, actions))), self.moment.info.get(WON))


def tell_apart(
    explorer: Explorer, task: str | None, state: ReachedState, other: ReachedState, actions: Sequence[object]
) -> tuple[str | None, int]:
    """Play the same actions in both states.

    Returns:
        The first difference and the number of actions before it, or None and the number of compared actions.
    """
    tails = []
    for source in (state, other):
        episode = explorer.play(task, [*source.prefix, *actions], env=explorer.free)
        tails.append(episode.moments[len(source.prefix) + 1 :])
    for count, (a, b) in enumerate(zip(*tails, strict=False), start=1):
        if a.truncated or b.truncated:
            # Truncation depends on the number of turns, which is not part of the state.
            return None, count - 1
        if mismatch := difference(a, b, keys=SEEN):
            return f"after {list(actions[:count])!r}, {mismatch}", count
    return None, min(map(len, tails))


def distance(actions: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of actions between two sequences, after their common beginning."""
    common = 0
    for a, b in zip(actions, other, strict=False):
        if a != b:
            break
        common += 1
    return len(actions) + len(other) - 2 * common


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of a search: whether the states can be told apart, and how it ended."""

    apart: bool
    how: str


def search(
    explorer: Explorer, task: str | None, state: ReachedState, other: ReachedState, apart: set[frozenset[object]]
) -> SearchOutcome:
    """Return whether a sequence of actions tells two states apart; the most likely sequences are tried first.

    Both states are advanced by the same actions. Pairs that were met before, or that have become equal, are not
    followed. If no pair is left, no sequence at all tells the states apart, provided that equal keys behave
    alike. Actions that share words with those between the two states are tried first.

    Args:
        explorer: the environment.
        task: the task.
        state: a state.
        other: another one, with the same admissible actions.
        apart: pairs of keys known to be different; reaching one of them suffices. New pairs are added.
    """
    words = _words(*_between(state.prefix, other.prefix))
    queue: list[tuple[float, int, tuple[object, ...], ProbeStep]] = [(0.0, 0, (), state.moment)]
    first = frozenset((state.moment.key, other.moment.key))
    met = {first}
    tried = 0
    while queue and tried < explorer.effort.search:
        cost, _, actions, moment = heapq.heappop(queue)
        for action in explorer.candidates(moment):
            tried += 1
            longer = (*actions, action)
            a, b = (explorer.play(task, [*source.prefix, *longer], env=explorer.free).last for source in (state, other))
            pair = frozenset((a.key, b.key))
            if pair in apart or (not (a.truncated or b.truncated) and difference(a, b, keys=SEEN)):
                apart.add(first)
                return SearchOutcome(True, f"differ after {list(longer)!r}")
            if a.over or b.over or len(pair) == 1 or pair in met:
                continue
            met.add(pair)
            own = _words(action)
            strange = len(own - words) / max(1, len(own))
            heapq.heappush(queue, (cost + 1 + 2 * strange, tried, longer, a))
    if not queue:
        return SearchOutcome(
            False, f"cannot be told apart: all {len(met)} pairs of states that can follow were compared"
        )
    return SearchOutcome(False, f"were not told apart by {tried:,} actions in {len(met):,} pairs of following states")


def _between(actions: Sequence[object], other: Sequence[object]) -> list[object]:
    """Return the actions between two sequences."""
    common = (len(actions) + len(other) - distance(actions, other)) // 2
    return [*actions[common:], *other[common:]]


def _words(*actions: object) -> set[str]:
    """Return the words of some actions."""
    return {word for action in actions for word in re.findall(r"\w+", str(action).lower())}
