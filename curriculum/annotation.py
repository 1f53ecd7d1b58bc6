"""Annotators: columns of the table of turns that a model must fill in, or that only the texts and tokens tell.

    async def annotator(groups, *, ask, lessons, **options) -> Notes

`lessons` are those of the run so far, for an annotator that takes them. `ask` sends a chat to a model and returns its
answer, or None if it could not be had: a row without one gets the column's missing value. Packages offer annotators in
the group `turncredit.annotators`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from turncredit.agents.prompts.dialogue import Message
from turncredit.agents.trajectory import Extra, Group
from turncredit.credit import Steps
from turncredit.credit.columns import KEYS, converted
from turncredit.credit.key_codes import Coder
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.lessons import Lesson, LessonEdit
from turncredit.curriculum.rule_registry import SamplingRule, rule_registry
from turncredit.registry import Registry

__all__ = ["ANNOTATORS", "Annotator", "Ask", "Notes", "annotated"]

Place = tuple[str, int]
"""A turn: id of the trajectory, number of the turn."""


class Ask(Protocol):
    """Sends a chat to a model."""

    def __call__(
        self, messages: Sequence[Message], *, temperature: float = 0.0, max_tokens: int = 64
    ) -> Awaitable[str | None]:
        """Return the answer; None if there is none."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What an annotator found out.

    Attributes:
        columns: for each column, the values of turns.
        missing: for each column, the value of turns that have none.
        edits: changes of the run's lessons.
    """

    columns: Mapping[str, Mapping[Place, Extra]] = field(default_factory=dict)
    missing: Mapping[str, Extra] = field(default_factory=dict)
    edits: tuple[LessonEdit, ...] = ()


@dataclass(frozen=True)
class Annotator(SamplingRule):
    """An annotator: `async function(groups, *, ask, options) -> Notes`."""

    GIVEN = frozenset({"ask", "lessons"})

    @property
    def asks(self) -> bool:
        """Whether it needs a model."""
        return "ask" in self.parameters

    async def __call__(self, groups: Sequence[Group], ask: Ask, lessons: Sequence[Lesson] = ()) -> Notes:
        """Return the notes of some groups.

        Args:
            groups: the episodes.
            ask: the model.
            lessons: of the run so far.

        Raises:
            CurriculumError: the function returned something else than notes.
        """
        arguments = {"ask": ask, "lessons": lessons}
        result = self.function(groups, **{name: value for name, value in arguments.items() if name in self.parameters})
        notes = await result if inspect.isawaitable(result) else result
        if not isinstance(notes, Notes):
            raise CurriculumError(f"the annotator {self.name!r} must return Notes, got {type(notes).__name__}")
        return notes

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that it fills in."""
        return frozenset(asyncio.run(self((), _silent)).columns)

    def check(self) -> None:
        """Annotate no group."""
        _ = self.columns


async def _silent(messages: Sequence[Message], *, temperature: float = 0.0, max_tokens: int = 64) -> None:
    """Have no answer."""


ANNOTATORS: Registry[Annotator] = rule_registry("annotator", "turncredit.annotators", Annotator)


def annotated(steps: Steps, notes: Sequence[Notes]) -> Steps:
    """Return the table with the columns of notes.

    Args:
        steps: table of the turns.
        notes: of the same trajectories; a later column of a name replaces an earlier one.

    Raises:
        CurriculumError: a turn has no value, and its column no missing value.
    """
    turns = list(zip(steps.ids("trajectory").tolist(), steps.turn.tolist(), strict=True))
    for note in notes:
        for name, values in note.columns.items():
            steps = _with_column(steps, name, [_value(note, name, values, turn) for turn in turns])
    return steps


def _value(note: Notes, name: str, values: Mapping[Place, Extra], turn: Place) -> Extra:
    if turn in values:
        return values[turn]
    if name not in note.missing:
        raise CurriculumError(
            f"turn {turn[1]} of {turn[0]} has no value in the column {name!r}, which names no missing value"
        )
    return note.missing[name]


def _with_column(steps: Steps, name: str, values: list[Extra]) -> Steps:
    if name not in KEYS:
        return replace(steps, extra={**steps.extra, name: converted(name, values)})
    coder = Coder()
    codes = coder.encode(values)
    return replace(steps, extra={**steps.extra, name: codes}, names={**steps.names, name: tuple(coder.names)})
