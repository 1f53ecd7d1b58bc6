"""A question with its right answers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        id: task id.
        text: the question.
        answers: right answers; () for a query of which only the relevant passages are known.
        gold: ids of the passages that contain what is needed, in the order in which it is needed if that is known.
        entities: names that lead to the answer, without the answer.
        kind: kind of question, for tables of results.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    kind: str = "question"
