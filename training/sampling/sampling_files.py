"""What each iteration of a run was made of, and why: RUN/sampling/000012.json.

A file has one entry for each group that was played, in the order of their numbers: what was drawn (task, size, weight,
options), how it grew, who is trained on and counted, and which rule dropped it. With it and the stored trajectories,
the groups that credit saw can be put together again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from turncredit.agents.errors import StoreError
from turncredit.agents.files.json_files import write_text
from turncredit.agents.files.trajectory_files import iteration_files, read_trajectories
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.curriculum.growth import BranchPoint, Growth
from turncredit.tools.bounded_input import InputError, read_json
from turncredit.training.sampling.grown_groups import PlayedGroup
from turncredit.training.tasks.group_draws import DrawnGroup
from turncredit.training.types import State

__all__ = [
    "CreditedGroups",
    "MissingEpisodes",
    "SamplingFiles",
    "credited_groups",
    "earlier_episodes",
    "played_groups",
    "sampled_entries",
    "sampling_file",
]


class MissingEpisodes(UserWarning):
    """Stored episodes that joined groups are in no file of the run any more."""


@dataclass(frozen=True, slots=True)
class SamplingFiles:
    """The files of a run.

    Attributes:
        run: folder of the run.
    """

    run: Path

    def write(self, iteration: int, groups: Sequence[PlayedGroup]) -> None:
        """Write down an iteration."""
        path = self.path(iteration)
        path.parent.mkdir(exist_ok=True)
        entries = [json.dumps(_entry(played)) for played in groups]
        write_text(path, f'{{"iteration": {iteration}, "groups": [\n' + ",\n".join(entries) + "\n]}\n")

    def read(self, iteration: int) -> list[State] | None:
        """Return the entries of an iteration; None if there is no file.

        Raises:
            StoreError: the file is damaged.
        """
        path = self.path(iteration)
        return _entries(path) if path.is_file() else None

    def path(self, iteration: int) -> Path:
        """Return the file of an iteration, whether it is there or not."""
        return self.run / "sampling" / f"{iteration:06d}.json"


_FIELDS: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "seed": (int,),
    "members": (list,),
    "rounds": (int,),
    "kept": (list, type(None)),
    "counted": (list, type(None)),
    "dropped": (str, type(None)),
    "remember": (dict,),
}
"""Fields that every entry of a file has."""


def _entries(path: Path) -> list[State]:
    """Return the entries of a file.

    Raises:
        StoreError: it is damaged.
    """
    try:
        record = read_json(path)
    except (InputError, OSError) as error:
        raise StoreError(str(error)) from error
    entries = record.get("groups") if isinstance(record, dict) else None
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise StoreError(
            f"{path} does not say what its iteration was made of: it must hold a list of groups, each with "
            f"{', '.join(_FIELDS)}"
        )
    return entries


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    typed = all(key in entry and isinstance(entry[key], kinds) for key, kinds in _FIELDS.items())
    lists = [entry.get(key) or [] for key in ("members", "kept", "counted", "replayed")] if typed else []
    return typed and all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in lists)


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
        **({"until": [astuple(at) for at in growth.until]} if growth.until else {}),
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
                until=tuple(BranchPoint(*at) for at in entry.get("until", ())),
                remember=entry["remember"],
                rule=entry["dropped"] or "",
            ),
            entry["rounds"],
            entry["dropped"] is not None,
            tuple(by_id[name] for name in entry.get("replayed", ()) if name in by_id),
        )
        for entry in entries
    ]


@dataclass(frozen=True, slots=True)
class CreditedGroups:
    """What credit saw of an iteration.

    Attributes:
        groups: without dropped ones, each with the members that were counted, stored ones last.
        masked: ids of members that were counted and not trained on.
        replayed: ids of members that joined from experience.
        uncounted: ids of stored episodes that are in none of the groups.
    """

    groups: list[Group]
    masked: frozenset[str] = frozenset()
    replayed: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()


def credited_groups(file: Path, trajectories: Sequence[Trajectory]) -> CreditedGroups | None:
    """Return what credit saw of an iteration; None if what was sampled is not written down beside it.

    Episodes that joined from experience are read from the files of earlier iterations, or from those of the experience.

    Args:
        file: of the trajectories, in the folder of a run.
        trajectories: that it holds.

    Warns:
        MissingEpisodes: some of those that joined are stored no longer; the groups lack them.
    """
    entries = sampled_entries(file)
    if entries is None or {member.id for member in trajectories} - {
        name for entry in entries for name in entry["members"]
    }:
        return None
    joined = {name for entry in entries if entry["dropped"] is None for name in entry.get("replayed", ())}
    earlier = earlier_episodes(file, joined)
    if missing := sorted(joined - {episode.id for episode in earlier}):
        warnings.warn(
            f"{len(missing)} of the {len(joined)} episodes that joined groups of {file.name} from experience are "
            f"stored no longer, and advantages are computed without them: {', '.join(missing[:3])}"
            + (" and others" if missing[3:] else ""),
            MissingEpisodes,
            stacklevel=2,
        )
    decided = [played for played in played_groups(entries, [*trajectories, *earlier]) if not played.dropped]
    groups = [played.counted for played in decided]
    counted = {member.id for group in groups for member in group.trajectories}
    return CreditedGroups(
        groups,
        frozenset(name for played in decided for name in played.masked),
        frozenset(episode.id for episode in earlier),
        frozenset(member.id for member in trajectories if member.id not in counted),
    )


def sampled_entries(file: Path) -> list[State] | None:
    """Return what the iteration of a file of trajectories was made of; None if that is not written down."""
    path = sampling_file(file)
    return None if path is None or not path.is_file() else _entries(path)


def sampling_file(file: Path) -> Path | None:
    """Return the file beside one of trajectories that says what was drawn; None: it has no number of an iteration."""
    number = file.name.partition(".")[0]
    return SamplingFiles(file.parent.parent).path(int(number)) if number.isdecimal() else None


def earlier_episodes(file: Path, names: Collection[str]) -> list[Trajectory]:
    """Return episodes of iterations before that of a file, as far as the run still stores them.

    Args:
        file: of the trajectories, in the folder of a run.
        names: ids of the episodes.
    """
    run, episodes = file.parent.parent, dict[str, Trajectory]()
    files, sampling = iteration_files(run / "trajectories"), SamplingFiles(run)
    last = int(file.name.partition(".")[0])
    for number, path in sorted(files.items(), reverse=True) if names else ():
        if number >= last:
            continue
        members = {name for entry in sampling.read(number) or () for name in entry["members"]}
        if members & (set(names) - episodes.keys()):
            episodes |= _named(path, names)
    for path in sorted((run / "experience").glob("*.jsonl")):
        if set(names) - episodes.keys():
            episodes |= _named(path, set(names) - episodes.keys())
    return list(episodes.values())


def _named(path: Path, names: Collection[str]) -> dict[str, Trajectory]:
    """Return the episodes of a file that have one of the ids; none if it cannot be read."""
    with suppress(StoreError, OSError):
        return {episode.id: episode for episode in read_trajectories(path) if episode.id in names}
    return {}


def _ids(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
