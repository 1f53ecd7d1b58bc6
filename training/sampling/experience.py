"""Experience: finished episodes that a run keeps, to train on them again or to show them to a group.

    experience.add(groups, advantages, iteration)    admit what may be worth keeping, and evict what is too much
    experience.index                                 one row for each stored episode, for rules
    experience.read(ids)                             the trajectories

The index is in the checkpoint. Trajectories are in files of the run's folder, one an iteration, which are written
before the checkpoint that refers to them, and removed after one that no longer does: a run that was killed finds every
episode of its index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal, Self, get_args

import numpy as np

from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.files.json_files import write_text
from turncredit.agents.files.trajectory_files import read_trajectories, to_json
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages
from turncredit.registry import suggest
from turncredit.training.config.toml import Table
from turncredit.training.errors import ConfigError
from turncredit.training.states import State

__all__ = ["Admission", "Experience", "Index", "Keep", "Order", "StoredEpisode", "select"]

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
    def of(cls, options: Table) -> Self:
        """Return the admission of a table of options.

        Raises:
            ConfigError: there is no such option, or a value is out of range.
        """
        names = [column.name for column in fields(cls)]
        for name in options:
            if name not in names:
                raise ConfigError(f"sampling.experience has no option {name!r}{suggest(name, names)}")
        return cls(**options)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: one is out of range.
        """
        for name, choices in (("keep", Keep), ("order", Order)):
            if getattr(self, name) not in get_args(choices):
                value = getattr(self, name)
                raise ConfigError(
                    f"sampling.experience.{name} must be one of {', '.join(get_args(choices))}; got {value!r}"
                )
        for name, least in (("per_task", 1), ("total", 1), ("age", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"sampling.experience.{name} must be an integer of at least {least}, got {value!r}")


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


class Experience:
    """The stored episodes of a run.

    Args:
        folder: of the files; it is made when the first episode is stored.
        admission: what is kept.
    """

    def __init__(self, folder: Path, admission: Admission) -> None:
        self._folder, self._admission = folder, admission
        self._rows: tuple[StoredEpisode, ...] = ()
        self._episodes: dict[str, Trajectory] = {}
        self._iterations: dict[str, int] = {}  # of the episodes in memory, whether stored or only held
        self._held: frozenset[str] = frozenset()

    @property
    def index(self) -> Index:
        """The stored episodes as rules see them."""
        return Index(self._rows)

    def add(self, groups: Sequence[Group], advantages: Advantages, iteration: int) -> None:
        """Store the episodes of an iteration that are worth keeping, and drop those that are too many or too old.

        Args:
            groups: that were trained on.
            advantages: of their turns.
            iteration: number of finished iterations before this one.
        """
        rows = admitted(groups, advantages, self._admission, iteration)
        members = {member.id: member for group in groups for member in group.finished}
        self._rows = select([*self._rows, *rows], self._admission, iteration)
        self._episodes |= {row.id: members[row.id] for row in rows}
        self._iterations |= {row.id: iteration for row in rows}
        self._tidy()
        lines = [to_json(members[row.id]) for row in self._rows if row.iteration == iteration]
        if lines:
            self._folder.mkdir(parents=True, exist_ok=True)
            store = ImageStore.of(self._path(iteration))
            for name in {row.id for row in self._rows if row.iteration == iteration}:
                store.add(images_of(members[name]))
            write_text(self._path(iteration), "\n".join([*lines, ""]))

    def hold(self, ids: Iterable[str]) -> None:
        """Keep these episodes, stored or not, until the next call: groups in play may ask for them."""
        self._held = frozenset(ids)
        self._tidy()

    def _tidy(self) -> None:
        """Forget episodes that are neither stored nor held."""
        needed = self._held | {row.id for row in self._rows}
        self._episodes = {name: episode for name, episode in self._episodes.items() if name in needed}
        self._iterations = {name: iteration for name, iteration in self._iterations.items() if name in needed}

    def read(self, ids: Iterable[str]) -> list[Trajectory]:
        """Return stored episodes by their ids.

        Raises:
            KeyError: one is not stored.
        """
        return [self._episodes[name] for name in ids]

    def use(self, ids: Iterable[str]) -> None:
        """Count that episodes were trained on again."""
        used = set(ids)
        self._rows = tuple(replace(row, uses=row.uses + 1) if row.id in used else row for row in self._rows)

    def clear(self) -> None:
        """Forget all episodes."""
        self._rows = ()
        self._tidy()

    def saved(self) -> None:
        """Remove the files that the checkpoint which was just written does not refer to."""
        needed = {self._path(iteration) for iteration in self._iterations.values()}
        for path in self._folder.glob("*.jsonl"):
            if path not in needed:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # there is none, or something else is in it
            self._folder.rmdir()

    def state(self) -> State:
        """Return the index, as JSON can hold it."""
        return {"episodes": [asdict(row) for row in self._rows], "iterations": dict(self._iterations)}

    def load_state(self, state: State) -> None:
        """Continue with the episodes of a checkpoint; one whose file is gone is forgotten."""
        rows = [StoredEpisode(**row) for row in state["episodes"]]
        stored: dict[str, Trajectory] = {}
        for iteration in sorted(set(state["iterations"].values())):
            path = self._path(iteration)
            if path.exists():
                stored |= {trajectory.id: trajectory for trajectory in read_trajectories(path)}
        self._rows = tuple(row for row in rows if row.id in stored)
        self._episodes = {name: stored[name] for name in state["iterations"] if name in stored}
        self._iterations = {name: state["iterations"][name] for name in self._episodes}
        self._held = frozenset(self._episodes)

    def _path(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.jsonl"


def _mean_advantages(advantages: Advantages) -> Mapping[str, float]:
    totals: dict[str, list[float]] = {}
    for name, value in zip(advantages.trajectory, advantages.values.tolist(), strict=True):
        totals.setdefault(str(name), []).append(value)
    return {name: float(np.mean(values)) for name, values in totals.items()}
