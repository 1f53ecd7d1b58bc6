"""Lessons: what a run has learned in words, to be shown with its tasks.

An annotator proposes edits, the library applies them in order, and a group rule shows lessons as the hint of its
episodes. What was shown is stored with each trajectory, so its prompts can be rebuilt without the library.

Not included: retrieval by embeddings. Lessons are matched by the similarity of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from turncredit.agents.prompts.hints import similar
from turncredit.curriculum.errors import BadSetting
from turncredit.curriculum.states import State
from turncredit.registry import suggest

__all__ = ["Lesson", "LessonEdit", "LessonLibrary", "nearest", "similar"]

Operation = Literal["add", "update", "delete"]
LONGEST = 800
"""Characters of a lesson that are kept."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson."""

    id: str
    text: str
    kind: str = "experience"
    """Such as "experience", "golden", "warning", "protocol" or "attempt"."""
    key: str = ""
    """What it is about: a task, or the text of a state; empty: everything."""
    score: float = 0.0
    """Worth; the least worthy leave first."""
    iteration: int = 0
    """Number of finished iterations when it was written."""


@dataclass(frozen=True, slots=True)
class LessonEdit:
    """A change of the library.

    Attributes:
        operation: "add"; "update", which adds where the id is unknown; or "delete".
        text: of the lesson; an addition or update without text is ignored.
        id: of the lesson; empty for an addition.
        kind: of the lesson.
        key: what it is about.
        score: its worth.
    """

    operation: Operation
    text: str = ""
    id: str = ""
    kind: str = "experience"
    key: str = ""
    score: float = 0.0


@dataclass(slots=True)
class LessonLibrary:
    """The lessons of a run.

    Attributes:
        most: largest number of lessons of a kind.
        alike: similarity of two texts from which they are one lesson; the higher score stays.
        lessons: in the order in which they were written.
    """

    most: int = 100
    alike: float = 0.85
    lessons: tuple[Lesson, ...] = ()
    _count: int = field(default=0, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return an empty library with some options.

        Raises:
            BadSetting: there is no such option, or a value is out of range.
        """
        for name in options:
            if name not in ("most", "alike"):
                raise BadSetting(f"sampling.lessons has no option {name!r}{suggest(name, ('most', 'alike'))}")
        return cls(**options)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadSetting: one is out of range.
        """
        if self.most < 1 or not 0 < self.alike <= 1:
            raise BadSetting(f"lessons need most >= 1 and alike in (0, 1]; got most={self.most}, alike={self.alike}")

    def apply(self, edits: Iterable[LessonEdit], iteration: int) -> None:
        """Apply edits in their order.

        A new lesson like another of its kind and key raises that one's score. Where a kind has too many, the least
        worthy leaves, of equal ones the oldest.

        Args:
            edits: the changes.
            iteration: number of finished iterations.
        """
        for edit in edits:
            ids = {lesson.id for lesson in self.lessons}
            if edit.operation == "delete":
                self.lessons = tuple(lesson for lesson in self.lessons if lesson.id != edit.id)
            elif edit.operation == "update" and edit.id in ids and edit.text:
                self._replace(edit, iteration)
            elif edit.text.strip():
                self._add(edit, iteration)

    def _replace(self, edit: LessonEdit, iteration: int) -> None:
        self.lessons = tuple(
            replace(lesson, text=edit.text[:LONGEST], score=edit.score, iteration=iteration)
            if lesson.id == edit.id
            else lesson
            for lesson in self.lessons
        )

    def _add(self, edit: LessonEdit, iteration: int) -> None:
        text = edit.text.strip()[:LONGEST]
        for lesson in self.lessons:
            if (lesson.kind, lesson.key) == (edit.kind, edit.key) and similar(lesson.text, text) >= self.alike:
                better = replace(lesson, score=max(lesson.score, edit.score))
                self.lessons = tuple(better if other is lesson else other for other in self.lessons)
                return
        lesson = Lesson(f"L{self._count}", text, edit.kind, edit.key, edit.score, iteration)
        self._count += 1
        self.lessons = (*self.lessons, lesson)
        same = [other for other in self.lessons if other.kind == edit.kind]
        if len(same) > self.most:
            least = min(same, key=lambda other: other.score)  # the first of equals is the oldest
            self.lessons = tuple(other for other in self.lessons if other is not least)

    def state(self) -> State:
        """Return the lessons, as JSON can hold them."""
        return {"count": self._count, "lessons": [asdict(lesson) for lesson in self.lessons]}

    def load_state(self, state: State) -> None:
        """Continue with the lessons of a checkpoint."""
        self._count = state["count"]
        self.lessons = tuple(Lesson(**lesson) for lesson in state["lessons"])


def nearest(lessons: Sequence[Lesson], key: str, count: int, *, alike: float = 0.0) -> list[Lesson]:
    """Return the lessons whose key is most like a text, the most alike first, of equal ones the worthiest.

    Args:
        lessons: to choose from.
        key: the text.
        count: most lessons.
        alike: least similarity; a lesson about everything is always near enough, and comes last.
    """
    ranked = [(similar(lesson.key, key) if lesson.key else alike, lesson) for lesson in lessons]
    near = [pair for pair in ranked if pair[0] >= alike]
    near.sort(key=lambda pair: (-pair[0], -pair[1].score, pair[1].id))
    return [lesson for _, lesson in near[:count]]
