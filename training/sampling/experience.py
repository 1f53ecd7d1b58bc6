"""Experience: finished episodes that a run keeps, to train on them again or to show them to a group.

    experience.add(groups, advantages, iteration)    admit what may be worth keeping, and evict what is too much
    experience.index                                 one row for each stored episode, for rules
    experience.read(ids)                             the trajectories

The index is in the checkpoint. Trajectories are in files of the run's folder, one an iteration, which are written
before the checkpoint that refers to them, and removed after one that no longer does: a run that was killed finds every
episode of its index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.files.json_files import write_text
from turncredit.agents.files.trajectory_files import read_trajectories, to_json
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages
from turncredit.curriculum.stored_episodes import Admission, Index, StoredEpisode, admitted, select
from turncredit.training.types import State

__all__ = ["Experience"]


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
