"""The groups of a run in the order in which they begin: what a task rule drew, numbered and with seeds.

Iterations draw their groups in turn, each once; a group that takes the place of a dropped one is a draw of its own, of
one group. What a draw sees is `TaskRecords` as they were when the weights were loaded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Self

from numpy.random import default_rng

from turncredit.agents.rollouts.group_rounds import GroupSpec, Grow
from turncredit.agents.trajectory import Trajectory
from turncredit.curriculum.draws import TaskDraw, TaskRule
from turncredit.curriculum.inner_rule import columns_of
from turncredit.curriculum.records import TaskRecords, Visit
from turncredit.training.config.seeds import Seeds
from turncredit.training.errors import CheckpointError, TrainingError
from turncredit.training.run_folder.state_json import from_json, to_json
from turncredit.training.types import State

__all__ = ["DrawnGroup", "GroupDraws"]

ROOM = 10_000
"""Numbers of members that a group may use where groups grow."""


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """A group that was drawn, as JSON can hold it.

    Attributes:
        number: of the group in the run.
        task: id of the task instance.
        size: episodes that were drawn for it.
        seed: of the environments.
        first: number of its first member.
        weight: factor of its advantages.
        options: of the draw.
        record: of the task, as the draw saw it.
        iteration: number of finished iterations when it was drawn.
    """

    number: int
    task: str
    size: int
    seed: int
    first: int = 0
    weight: float = 1.0
    options: Mapping[str, object] = field(default_factory=dict)
    record: Mapping[str, float] = field(default_factory=dict)
    iteration: int = 0

    def spec(self, grow: Grow | None, played: Sequence[Trajectory] = ()) -> GroupSpec:
        """Return what is played for the group.

        Args:
            grow: what its rounds play; None: all episodes in one.
            played: members that are finished already.
        """
        return GroupSpec(self.task, self.seed, self.size, self.number, self.first, tuple(played), grow=grow)

    def state(self) -> State:
        """Return the group as JSON can hold it."""
        return {**asdict(self), "options": to_json(self.options)}

    @classmethod
    def of(cls, state: State) -> Self:
        """Return the group that `state` was taken of."""
        return cls(**{**state, "options": from_json(state["options"])})


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A group that was drawn and has no number yet."""

    task: str
    size: int
    weight: float
    options: Mapping[str, object]
    record: Mapping[str, float]
    iteration: int


class GroupDraws:
    """Draws the groups of a run.

    Args:
        rule: which tasks are drawn.
        tasks: ids of all tasks.
        seeds: of the draws, and of the environments.
        groups: of an iteration.
        size: episodes of a group, on average.
        total: iterations of the whole run.
        grows: whether groups may have more members than were drawn.

    Attributes:
        number: number of the next group.
        regular: groups that were begun for an iteration, and not in place of a dropped one.
    """

    def __init__(
        self,
        rule: TaskRule,
        tasks: Sequence[str],
        seeds: Seeds,
        *,
        groups: int,
        size: int,
        total: int,
        grows: bool,
    ) -> None:
        self._rule, self._seeds, self._grows = rule, seeds, grows
        self._groups, self._size, self._total = groups, size, total
        self._records = self._newest = TaskRecords.of(tasks)
        self._iteration = 0
        self._memory: object = None
        self._waiting: deque[_Waiting] = deque()
        self._members: Counter[str] = Counter()  # numbers in use, by task, of the groups that share a seed
        self.number = self.regular = 0
        self._drew = self._of_iteration = False  # of the last group

    def begin(self, iteration: int) -> None:
        """Let later draws see what is known after a number of finished iterations."""
        self._iteration, self._records = iteration, self._newest

    def learn(self, visits: Sequence[Visit], iteration: int) -> None:
        """Add the groups of an iteration to the records; draws see them from `begin` on."""
        self._newest = self._newest.after(visits, iteration)

    @property
    def columns(self) -> frozenset[str]:
        """Names of the remembered columns that the rule reads."""
        return columns_of(self._rule)

    def note(self, columns: Mapping[str, Mapping[str, float]]) -> None:
        """Write numbers of tasks, by the name of their column, into the records; draws see them from `begin` on."""
        self._newest = self._newest.noted(columns)

    def next(self) -> DrawnGroup:
        """Return the next group of the iterations."""
        self._drew, self._of_iteration = not self._waiting, True
        if not self._waiting:
            self._waiting.extend(self._draw(self._groups, self._seeds.of("tasks", self.regular // self._groups)))
        self.regular += 1
        return self._numbered(self._waiting.popleft())

    def replacement(self) -> DrawnGroup:
        """Return a group that takes the place of a dropped one."""
        self._drew, self._of_iteration = True, False
        return self._numbered(*self._draw(1, self._seeds.of("replacement", self.number)))

    def entry(self, drawn: DrawnGroup) -> State:
        """Return what `repeat` needs to draw the last group again."""
        drew: State = {"memory": to_json(self._memory), "waiting": self._waiting_state()} if self._drew else {}
        return {"group": drawn.state(), "regular": self._of_iteration, **drew}

    def repeat(self, entry: State) -> DrawnGroup:
        """Return a group that was drawn before, and go on after it."""
        drawn = DrawnGroup.of(entry["group"])
        if "memory" in entry:
            self._memory = from_json(entry["memory"])
            self._load_waiting(entry["waiting"])
        elif self._waiting:
            self._waiting.popleft()
        self.regular += entry["regular"]
        self._numbered(_Waiting(drawn.task, drawn.size, drawn.weight, {}, {}, 0))
        return drawn

    def _draw(self, count: int, seed: int) -> list[_Waiting]:
        draw = self._rule(
            self._records,
            count=count,
            group=self._size,
            iteration=self._iteration,
            total=self._total,
            rng=default_rng(seed),
            state=self._memory,
        )
        self._memory = draw.state
        self._check(draw, count)
        weights, options = draw.weight or (1.0,) * count, draw.options or ({},) * count
        columns = zip(draw.tasks, draw.episodes, weights, options, strict=True)
        return [
            _Waiting(task, int(size), float(weight), dict(option), self._records.of_task(task), self._iteration)
            for task, size, weight, option in columns
        ]

    def _numbered(self, group: _Waiting) -> DrawnGroup:
        """Return a group with its number, and the seed and first member that follow from it."""
        number, self.number = self.number, self.number + 1
        iteration, behind = divmod(number, self._groups)
        if not behind:
            self._members.clear()
        first = self._members[group.task]
        self._members[group.task] += ROOM if self._grows else group.size
        seed = self._seeds.of("rollout", iteration)
        return DrawnGroup(number, group.task, group.size, seed, first, *astuple(group)[2:])

    def _check(self, draw: TaskDraw, count: int) -> None:
        """Refuse a draw of another number of groups.

        Raises:
            TrainingError: there are more or fewer.
        """
        if len(draw.tasks) != count:
            raise TrainingError(
                f"the task rule {self._rule.name!r} must draw {count} groups, and drew {len(draw.tasks)}"
            )

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        return {
            "number": self.number,
            "regular": self.regular,
            "memory": to_json(self._memory),
            "records": to_json(self._newest.state()),
            "waiting": self._waiting_state(),
            "members": dict(self._members),
        }

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken.

        Raises:
            CheckpointError: it is of other tasks.
        """
        if "position" in state:  # of a version without task rules
            if state["count"] != len(self._newest.tasks):
                raise CheckpointError(
                    f"the checkpoint is of a run with {state['count']} tasks, this one has {len(self._newest.tasks)}"
                )
            self._memory = self.number = self.regular = state["position"]
            return
        self.number, self.regular = state["number"], state["regular"]
        self._memory = from_json(state["memory"])
        self._records = self._newest = TaskRecords.from_state(from_json(state["records"]), self._newest.tasks)
        self._load_waiting(state["waiting"])
        self._members = Counter(state["members"])

    def _waiting_state(self) -> list[object]:
        return [to_json(asdict(group)) for group in self._waiting]

    def _load_waiting(self, state: Sequence[object]) -> None:
        self._waiting = deque(_Waiting(**from_json(group)) for group in state)
