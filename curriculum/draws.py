"""Task rules: which tasks an iteration draws, and how many episodes of each.

    def rule(records, *, count, group, iteration, total, rng, **options) -> TaskDraw

A rule is asked once an iteration, when its first group may begin. It may take `state`, what it returned last in
`TaskDraw.state`. Packages offer rules in the group `turncredit.task_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numpy.random import Generator, default_rng

from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rule_registry import SamplingRule, rule_registry
from turncredit.registry import Registry

__all__ = ["TASK_RULES", "TaskDraw", "TaskRule"]


@dataclass(frozen=True, slots=True)
class TaskDraw:
    """The groups of an iteration.

    Attributes:
        tasks: task of each group; a task may be drawn several times.
        episodes: number of episodes of each group.
        weight: factor of the advantages of each group; empty: 1.
        options: of each group, for group rules and the prompt, such as {"hint": 0.4}; empty: none.
        state: what the rule remembers, as JSON can hold it (`turncredit.training.run_folder.state_json`).
    """

    tasks: tuple[str, ...]
    episodes: tuple[int, ...]
    weight: tuple[float, ...] = ()
    options: tuple[Mapping[str, object], ...] = ()
    state: object = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the lengths.

        Raises:
            CurriculumError: they differ, there is no group, or a group has no episode or a negative weight.
        """
        groups = len(self.tasks)
        lengths = {len(self.episodes), *(len(column) for column in (self.weight, self.options) if column)}
        if not groups or lengths != {groups}:
            raise CurriculumError(f"a draw has one task, size, weight and table of options a group; got {self!r:.200}")
        if min(self.episodes) < 1 or min(self.weight, default=0.0) < 0:
            raise CurriculumError(f"a group has at least one episode and a weight of at least 0; got {self!r:.200}")


@dataclass(frozen=True)
class TaskRule(SamplingRule):
    """A task rule: `function(records, *, count, group, iteration, total, rng, options) -> TaskDraw`."""

    GIVEN = frozenset({"count", "group", "iteration", "total"})

    def __call__(
        self,
        records: TaskRecords,
        *,
        count: int,
        group: int,
        iteration: int,
        total: int,
        rng: Generator,
        state: object = None,
    ) -> TaskDraw:
        """Return the groups of an iteration.

        Args:
            records: of all tasks, none of them empty.
            count: number of groups.
            group: episodes of a group, on average.
            iteration: number of finished iterations.
            total: iterations of the whole run.
            rng: of this iteration.
            state: what the rule returned last, for one that remembers.

        Raises:
            CurriculumError: the function drew an unknown task, or returned something else than a draw.
        """
        arguments = {"count": count, "group": group, "iteration": iteration, "total": total, "rng": rng, "state": state}
        taken = arguments.keys() & self.parameters.keys()
        draw = self.function(records, **{name: value for name, value in arguments.items() if name in taken})
        if not isinstance(draw, TaskDraw):
            raise CurriculumError(f"the task rule {self.name!r} must return a TaskDraw, got {type(draw).__name__}")
        if unknown := set(draw.tasks) - set(records.tasks):
            raise CurriculumError(
                f"the task rule {self.name!r} drew the task {min(unknown)!r}, which is not in the pool"
            )
        return draw

    def check(self) -> None:
        """TaskDraw once from two tasks that were never played."""
        self(TaskRecords.of(["a", "b"]), count=1, group=2, iteration=0, total=1, rng=default_rng(0))


TASK_RULES: Registry[TaskRule] = rule_registry("task rule", "turncredit.task_rules", TaskRule)
