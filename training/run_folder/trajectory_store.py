"""Trajectories of a run on disk: one file for each iteration, and what no checkpoint has trained on yet.

With asynchronous rollouts that is one file for each group in play, to which every member is written as it finishes.
Else it is one for each rollout, written as a whole when it is finished: the answers of half a rollout would be computed
in other batches, with other rounding. A process that is killed loses none of them; they are removed once a checkpoint
holds the update that used them.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from turncredit.agents.errors import StoreError
from turncredit.agents.files.background_writer import BackgroundWriter
from turncredit.agents.files.folder_lock import check_lock
from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.files.json_files import write_text
from turncredit.agents.files.trajectory_files import TornLine, TrajectoryWriter, from_json, read_trajectories, to_json
from turncredit.agents.rollouts.rollout_options import RolloutReport
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.tools.bounded_input import InputError, parse_json, read_json, read_lines
from turncredit.training.types import State

SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class TrajectoryStore:
    """Stores the trajectories that iterations train on.

    Attributes:
        folder: folder of the run.
        format: ending of the files; empty: trajectories are not stored.
    """

    folder: Path
    format: str

    @contextmanager
    def iteration(self, number: int) -> Iterator[Callable[[Trajectory], None]]:
        """Give a function that stores a trajectory of an iteration; at the end of the block all are stored."""
        if not self.format:
            yield lambda _: None
            return
        check_lock(self.folder)
        path = self.folder / "trajectories" / f"{number:06d}{self.format}"
        path.parent.mkdir(exist_ok=True)
        with BackgroundWriter(path) as writer:
            yield writer.write


class GroupFiles:
    """The files of a folder, by the number of their group.

    Args:
        folder: it is made when the first trajectory is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, number: int, entry: State) -> None:
        """Write down how a group was drawn, before its first episode."""
        write_text(self._entry(number), json.dumps(entry))

    def entry(self, number: int) -> State | None:
        """Return how a group was drawn; None if it was not begun."""
        path = self._entry(number)
        return read_json(path) if path.is_file() else None

    def write(self, number: int, trajectory: Trajectory) -> None:
        """Append a finished member to the file of its group."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ImageStore.of(self._path(number)).add(images_of(trajectory))
        with self._path(number).open("ab") as file:  # nothing is read: it is done while episodes are played
            file.write(to_json(trajectory).encode("ascii") + b"\n")

    def read(self, number: int) -> tuple[Trajectory, ...]:
        """Return the members of a group that were written, and remove an incomplete last line; none without a file."""
        path = self._path(number)
        if not path.exists():
            return ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TornLine)  # its writer was killed, and the member is played again
            with TrajectoryWriter(path, append=True):
                return tuple(read_trajectories(path))

    def numbers(self) -> list[int]:
        """Return the numbers of the groups that have a file, sorted."""
        names = {path.name.partition(".")[0] for path in self.folder.glob("*.json*")}
        return sorted(int(name) for name in names if name.isdecimal())

    def remove(self, number: int) -> None:
        """Remove the files of a group, if there are any."""
        self._path(number).unlink(missing_ok=True)
        self._entry(number).unlink(missing_ok=True)

    def _entry(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}{SUFFIX}"


class RolloutFiles:
    """The files of a folder that hold finished rollouts, by the number of their iteration.

    The first line of a file has the tasks, the sizes of their groups and the counts; the others are trajectories.

    Args:
        folder: it is made for the first rollout, and removed with the last.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, number: int, groups: Sequence[Group], report: RolloutReport) -> None:
        """Store a finished rollout, wholly or not at all."""
        sizes = [len(group.trajectories) for group in groups]
        counts = {**asdict(report), "reasons": dict(report.reasons)}  # `asdict` would count the pairs of a counter
        head = {"tasks": [group.task for group in groups], "sizes": sizes, "report": counts}
        members = [to_json(trajectory) for group in groups for trajectory in group.trajectories]
        images = ImageStore.of(self._path(number))
        for group in groups:
            for trajectory in group.trajectories:
                images.add(images_of(trajectory))
        write_text(self._path(number), "\n".join([json.dumps(head), *members, ""]))

    def read(self, number: int, tasks: Sequence[str]) -> tuple[list[Group], RolloutReport] | None:
        """Return the groups and counts of a rollout; None if there is no file, or it is damaged or of other tasks.

        Args:
            number: of the iteration.
            tasks: that it begins with; others follow in place of dropped groups.
        """
        path = self._path(number)
        if not path.exists():
            return None
        try:
            first, *lines = read_lines(path)
            head = parse_json(first, str(path))
            if head["tasks"][: len(tasks)] != list(tasks) or sum(head["sizes"]) != len(lines):
                return None
            members = map(partial(from_json, images=ImageStore.of(path)), lines)
            groups = [
                Group(task, tuple(islice(members, size)))
                for task, size in zip(head["tasks"], head["sizes"], strict=True)
            ]
            report = RolloutReport(**{**head["report"], "reasons": Counter(head["report"]["reasons"])})
        except (InputError, StoreError, ValueError, TypeError, KeyError):  # it can be played again
            return None
        return groups, report

    def clear(self, last: int | None = None) -> None:
        """Remove all of them, or those until an iteration."""
        for path in self.folder.glob(f"*{SUFFIX}"):
            if last is None or not path.stem.isdecimal() or int(path.stem) <= last:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # there is none, or something else is in it
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}{SUFFIX}"


def without_last_failures(members: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
    """Return the members of a group without those that failed in its last round: what they failed at may be repaired.

    On those of earlier rounds it depends which episodes followed.
    """
    last = max((member.round for member in members), default=0)
    return tuple(member for member in members if member.finished or member.round < last)
