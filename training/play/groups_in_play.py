"""The groups of asynchronous rollouts: which may begin, which are complete, dropped or taken, and what a kill leaves.

A group gets its number where it begins and nowhere else, so its task, seed and rounds follow from it and not from
the timing. All methods are called with the caller's lock held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from turncredit.agents.trajectory import Group, Trajectory
from turncredit.training.config.sections import TrainSection
from turncredit.training.errors import CheckpointError
from turncredit.training.run_folder.trajectory_store import GroupFiles, without_last_failures
from turncredit.training.sampling.grown_groups import PlayedGroup, joined_once
from turncredit.training.sampling.run_sampling import RunSampling
from turncredit.training.tasks.group_draws import DrawnGroup
from turncredit.training.types import State

__all__ = ["GroupsInPlay"]


@dataclass(slots=True)
class _Ended:
    """A group that was handed over, and whose smaller numbers may still be in play."""

    drawn: DrawnGroup
    group: Group


class GroupsInPlay:
    """Keeps account of the groups of a run.

    Args:
        train: the `[train]` section.
        sampling: draws groups, and decides about complete ones.
        files: their finished members.
    """

    def __init__(self, train: TrainSection, sampling: RunSampling, files: GroupFiles) -> None:
        self._train, self.sampling, self._files = train, sampling, files
        self.unused: dict[int, DrawnGroup] = {}
        """Begun, and neither trained on nor dropped."""
        self.complete: dict[int, PlayedGroup] = {}
        """Those of them that may be trained on."""
        self.members = 0
        """Finished episodes of groups that were not trained on."""
        self._ended: dict[int, _Ended] = {}
        self._dropped: dict[int, PlayedGroup] = {}  # that no iteration has counted
        self._replaced = 0  # dropped groups that were counted, or had no turn
        self._rejected = 0  # those of them without a turn
        self._drops = 0  # with these weights
        self._fates: dict[int, bool] = {}  # of groups that were decided before a checkpoint: whether they were dropped
        self._used: list[tuple[int, int]] = []  # no longer needed: since which iteration, and the number of the group
        self._step = 0  # of the iterations that have their groups
        self._restored: dict[int, tuple[Trajectory, ...]] = {}
        self._version = 0

    # -- beginning --

    def load(self, version: int) -> None:
        """Go on with new weights."""
        self._version, self._drops = version, 0
        self.sampling.begin(version)

    @property
    def next(self) -> int:
        """Number of the next group."""
        return self.sampling.draws.number

    @property
    def capacity(self) -> int:
        """Number of groups that may have begun by now; more than the whole run needs are never begun."""
        return self._regular + self._owed

    @property
    def _regular(self) -> int:
        """Number of groups that may have begun for iterations by now."""
        train = self._train
        ahead = (train.staleness.updates + self._version + 1) * train.groups + train.staleness.spare_groups
        return min(ahead, train.iterations * train.groups)

    @property
    def _owed(self) -> int:
        """Number of groups that have to be replaced by others."""
        return self._replaced + len(self._dropped)

    def begin(self) -> DrawnGroup:
        """Begin the next group, for which there must be room: one of an iteration, else one in place of another."""
        draws = self.sampling.draws
        drawn = draws.next() if draws.regular < self._regular else draws.replacement()
        self._files.begin(drawn.number, draws.entry(drawn))
        self.unused[drawn.number] = drawn
        return drawn

    def resumed(self) -> Iterator[tuple[DrawnGroup, tuple[Trajectory, ...]]]:
        """Yield the groups of before the run was resumed, with their finished members."""
        for number, drawn in sorted(self.unused.items()):
            played = self._restored.pop(number, ())
            self.members += len(played)
            yield drawn, played

    def keep(self, number: int, trajectory: Trajectory) -> None:
        """Keep a finished member."""
        self._files.write(number, trajectory)
        self.members += 1

    # -- ending --

    def end(self, number: int, group: Group) -> None:
        """Decide about a group whose episodes are over; in order, once all groups before it are decided."""
        self._ended[number] = _Ended(self.unused[number], group)
        for other in sorted(self.unused):
            if other in self._ended:
                self._decide(other, self._ended.pop(other))
            elif other not in self.complete and self._train.staleness.deterministic:
                return

    def _decide(self, number: int, ended: _Ended) -> None:
        """Keep a group, or let another one take its place."""
        group = ended.group
        if not any(member.turns for member in group.finished) and self._rejected < self._most_rejected:
            self._rejected += 1
            self._replaced += 1
            self._used.append((self._step + 1, number))
            self._leave(number, group)
            return
        played = self.sampling.decided(ended.drawn, group, self._drops)
        if number in self._fates:
            played = replace(played, dropped=self._fates.pop(number))
        else:
            self._drops += played.dropped
        if played.dropped:
            self._dropped[number] = played
            self._leave(number, group)
        else:
            self.complete[number] = played

    @property
    def _most_rejected(self) -> int:
        """Number of groups without a turn that are replaced; after that, the loop sees them and says why."""
        return self._train.groups * (self._version + 2)

    def _leave(self, number: int, group: Group) -> None:
        del self.unused[number]
        self.members -= len(group.trajectories)

    # -- taking --

    def takable(self) -> list[int]:
        """Return the numbers of the groups that the next iteration may take: the first complete ones, or in order."""
        if not self._train.staleness.deterministic:
            return list(self.complete)[: self._train.groups]
        return [number for number in sorted(self.unused)[: self._train.groups] if number in self.complete]

    def take(self, step: int) -> list[PlayedGroup]:
        """Return the groups of the next iteration and those dropped before them, in the order of their numbers.

        Args:
            step: number of finished iterations.
        """
        taken = {number: self.complete.pop(number) for number in self.takable()}
        for number, played in taken.items():
            self._leave(number, played.group)
        # In order, a later group may be dropped before or after this iteration is taken: it belongs to a later one.
        last = max(taken) if self._train.staleness.deterministic else self.next
        dropped = {number: self._dropped.pop(number) for number in sorted(self._dropped) if number < last}
        self._replaced += len(dropped)
        self._step = step + 1
        self._used += [(self._step, number) for number in (*taken, *dropped)]
        return joined_once([played for _, played in sorted({**taken, **dropped}.items())])

    @property
    def settled(self) -> bool:
        """Whether all groups that may begin by now are complete."""
        capacity = self.capacity
        return self.next >= capacity and all(number in self.complete for number in self.unused if number < capacity)

    # -- what a checkpoint keeps --

    def saved(self, step: int) -> None:
        """Remove the files of groups that the first `step` iterations have trained on, which a checkpoint holds."""
        used = [number for since, number in self._used if since <= step]
        self._used = [pair for pair in self._used if pair[0] > step]
        for number in used:
            self._files.remove(number)

    def state(self) -> State:
        """Return which groups were begun and not trained on."""
        open_groups = {**self.unused, **{number: played.drawn for number, played in self._dropped.items()}}
        return {
            "next": self.next,
            "unused": sorted(open_groups),
            "drawn": [open_groups[number].state() for number in sorted(open_groups)],
            "rejected": self._rejected,
            "replaced": self._replaced,
            "dropped": sorted(self._dropped),
            "kept": sorted(self.complete),
        }

    def load_state(self, state: State) -> None:
        """Continue with the finished members of all groups that the checkpoint has not trained on.

        Raises:
            CheckpointError: it was written by a version that did not keep what was drawn.
        """
        if "drawn" not in state:
            raise CheckpointError(
                "the checkpoint was written by another version of turncredit: it lacks what was drawn"
            )
        self._rejected, self._replaced = state["rejected"], state["replaced"]
        self._fates = {**dict.fromkeys(state["kept"], False), **dict.fromkeys(state["dropped"], True)}
        self.unused = {entry["number"]: DrawnGroup.of(entry) for entry in state["drawn"]}
        while (entry := self._files.entry(self.next)) is not None:
            drawn = self.sampling.draws.repeat(entry)
            self.unused[drawn.number] = drawn
        for number in self._files.numbers():
            if number in self.unused:
                self._restored[number] = without_last_failures(self._files.read(number))
            else:
                self._files.remove(number)
