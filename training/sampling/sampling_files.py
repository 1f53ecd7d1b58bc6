"""What each iteration of a run was made of, and why: RUN/sampling/000012.json.

A file has one entry for each group that was played, in the order of their numbers: what was drawn (task, size, weight,
options), how it grew, who is trained on and counted, and which rule dropped it. With it and the stored trajectories,
the groups that credit saw can be put together again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.agents.files.json_files import write_text
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.tools.bounded_input import read_json
from turnwise.training.sampling.group_draws import DrawnGroup
from turnwise.training.sampling.grown_groups import PlayedGroup
from turnwise.training.sampling.growth import Growth
from turnwise.training.states import State

__all__ = ["SamplingFiles", "credited_groups", "played_groups"]


@dataclass(frozen=True, slots=True)
class SamplingFiles:
    """The files of a run.

    Attributes:
        run: folder of the run.
    """

    run: Path

    def write(self, iteration: int, groups: Sequence[PlayedGroup]) -> None:
        """Write down an iteration."""
        path = self._path(iteration)
        path.parent.mkdir(exist_ok=True)
        entries = [json.dumps(_entry(played)) for played in groups]
        write_text(path, f'{{"iteration": {iteration}, "groups": [\n' + ",\n".join(entries) + "\n]}\n")

    def read(self, iteration: int) -> list[State] | None:
        """Return the entries of an iteration; None if there is no file."""
        path = self._path(iteration)
        return read_json(path)["groups"] if path.is_file() else None

    def _path(self, iteration: int) -> Path:
        return self.run / "sampling" / f"{iteration:06d}.json"


def _entry(played: PlayedGroup) -> State:
    growth = played.growth
    return {
        **played.drawn.state(),
        "members": [member.id for member in played.group.trajectories],
        "rounds": played.rounds,
        "kept": None if growth.keep is None else sorted(growth.keep),
        "counted": None if growth.counted is None else sorted(growth.counted),
        "dropped": growth.rule if played.dropped else None,
        "remember": dict(growth.remember),
        "replayed": [member.id for member in played.replayed],
    }


def played_groups(entries: Sequence[State], trajectories: Sequence[Trajectory]) -> list[PlayedGroup]:
    """Return the groups of an iteration as they were decided, dropped ones included.

    Args:
        entries: from `SamplingFiles.read`.
        trajectories: of the iteration, and of those whose episodes it replayed; missing ones are left out.
    """
    by_id = {trajectory.id: trajectory for trajectory in trajectories}
    names = DrawnGroup.__dataclass_fields__
    return [
        PlayedGroup(
            DrawnGroup.of({name: entry[name] for name in names}),
            Group(entry["task"], tuple(by_id[name] for name in entry["members"] if name in by_id)),
            Growth(
                keep=_ids(entry["kept"]),
                counted=_ids(entry["counted"]),
                remember=entry["remember"],
                rule=entry["dropped"] or "",
            ),
            entry["rounds"],
            entry["dropped"] is not None,
            tuple(by_id[name] for name in entry.get("replayed", ()) if name in by_id),
        )
        for entry in entries
    ]


def credited_groups(file: Path, trajectories: Sequence[Trajectory]) -> list[Group] | None:
    """Return the groups of an iteration as credit saw them; None if what was sampled is not written down beside it.

    Args:
        file: of the trajectories, in the folder of a run.
        trajectories: that it holds.
    """
    number = file.name.partition(".")[0]
    entries = SamplingFiles(file.parent.parent).read(int(number)) if number.isdecimal() else None
    if entries is None or {member.id for member in trajectories} - {
        name for entry in entries for name in entry["members"]
    }:
        return None
    return [played.counted for played in played_groups(entries, trajectories) if not played.dropped]


def _ids(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
