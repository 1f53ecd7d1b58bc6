"""Stored episodes: what rules know of them, which are worth keeping, and which stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

import numpy as np

from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.curriculum.errors import BadSetting
from turncredit.registry import suggest

__all__ = ["Admission", "Index", "Keep", "Order", "StoredEpisode", "admitted", "select"]

Keep = Literal["success", "positive", "mixed", "all"]
"""Which episodes are admitted: won ones; those with a positive mean advantage; all of groups that both won and lost;
all."""

Order = Literal["newest", "shortest"]
"""Which of too many episodes stay: the newest, or those with the fewest turns."""


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """What rules know of a stored episode."""

    id: str
    task: str
    iteration: int
    """Number of finished iterations when it was trained on."""
    reward: float
    """Sum of its rewards."""
    advantage: float
    """Mean advantage of its turns then."""
    won: bool
    turns: int
    tokens: int
    """Sampled tokens."""
    uses: int = 0
    """Times that it was trained on again."""


@dataclass(frozen=True, slots=True)
class Index:
    """The stored episodes, the oldest first."""

    episodes: tuple[StoredEpisode, ...] = ()

    def __len__(self) -> int:
        """Number of stored episodes."""
        return len(self.episodes)

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the stored episodes."""
        return frozenset(episode.id for episode in self.episodes)

    def of_task(self, task: str) -> tuple[StoredEpisode, ...]:
        """Return the stored episodes of a task."""
        return tuple(episode for episode in self.episodes if episode.task == task)


@dataclass(frozen=True, slots=True)
class Admission:
    """What is kept.

    Attributes:
        keep: which episodes are admitted.
        per_task: most episodes of a task.
        total: most episodes.
        age: iterations after which an episode is dropped; 0: never.
        order: which of too many stay.
    """

    keep: Keep = "success"
    per_task: int = 8
    total: int = 2048
    age: int = 0
    order: Order = "newest"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the admission of a table of options.

        Raises:
            BadSetting: there is no such option, or a value is out of range.
        """
        names = [column.name for column in fields(cls)]
        for name in options:
            if name not in names:
                raise BadSetting(f"sampling.experience has no option {name!r}{suggest(name, names)}")
        return cls(**options)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadSetting: one is out of range.
        """
        for name, choices in (("keep", Keep), ("order", Order)):
            if getattr(self, name) not in get_args(choices):
                value = getattr(self, name)
                raise BadSetting(
                    f"sampling.experience.{name} must be one of {', '.join(get_args(choices))}; got {value!r}"
                )
        for name, least in (("per_task", 1), ("total", 1), ("age", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise BadSetting(f"sampling.experience.{name} must be an integer of at least {least}, got {value!r}")


def admitted(
    groups: Iterable[Group], advantages: Advantages, admission: Admission, iteration: int
) -> list[StoredEpisode]:
    """Return the rows of the episodes of an iteration that are worth keeping, in the order of groups and members.

    Args:
        groups: that were trained on.
        advantages: of their turns.
        admission: what is kept.
        iteration: number of finished iterations.
    """
    means = _mean_advantages(advantages)
    rows = []
    for group in groups:
        mixed = len({member.won for member in group.finished}) > 1
        for member in group.finished:
            mean = means.get(member.id, 0.0)
            worth = {"success": member.won, "positive": mean > 0, "mixed": mixed, "all": True}[admission.keep]
            if worth and member.turns:
                rows.append(
                    StoredEpisode(
                        member.id, group.task, iteration, member.reward, mean, member.won, len(member.turns),
                        sum(len(turn.response) for turn in member.turns),
                    )
                )  # fmt: skip
    return rows


def select(rows: Sequence[StoredEpisode], admission: Admission, iteration: int) -> tuple[StoredEpisode, ...]:
    """Return the rows that stay, the oldest first.

    >>> rows = [StoredEpisode(f"a#{n}", "a", n, 1.0, 0.5, True, turns, 9) for n, turns in enumerate([5, 3, 4])]
    >>> [row.id for row in select(rows, Admission(per_task=2), 3)]
    ['a#1', 'a#2']
    >>> [row.id for row in select(rows, Admission(per_task=1, order="shortest"), 3)]
    ['a#1']

    Args:
        rows: the oldest first.
        admission: what is kept.
        iteration: number of finished iterations.
    """
    fresh = [row for row in rows if not admission.age or iteration - row.iteration <= admission.age]
    ranked = sorted(
        enumerate(fresh), key=lambda pair: (pair[1].turns if admission.order == "shortest" else 0, -pair[0])
    )
    counts: dict[str, int] = {}
    positions: list[int] = []
    for position, row in ranked:
        counts[row.task] = counts.get(row.task, 0) + 1
        if counts[row.task] <= admission.per_task and len(positions) < admission.total:
            positions.append(position)
    return tuple(fresh[position] for position in sorted(positions))


def _mean_advantages(advantages: Advantages) -> Mapping[str, float]:
    totals: dict[str, list[float]] = {}
    for name, value in zip(advantages.trajectory, advantages.values.tolist(), strict=True):
        totals.setdefault(str(name), []).append(value)
    return {name: float(np.mean(values)) for name, values in totals.items()}
