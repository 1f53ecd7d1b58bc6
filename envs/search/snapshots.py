"""An episode of search as data, and back: the way to save one (see `env`).

What follows from the task is not saved but made anew; the question is saved to be compared, so that a file with other
questions under the same ids shows itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from turnwise.envs.errors import BadSnapshot
from turnwise.envs.search.questions import Question
from turnwise.envs.search.reward_rules import EpisodeRecord
from turnwise.envs.snapshot import Fields

__all__ = ["played_of", "saved_played", "titles_of"]


def saved_played(played: EpisodeRecord) -> dict[str, Any]:
    """Return what was played, in what JSON can say; what the agent said alone is every second of what was said."""
    return {
        "question": asdict(played.question),
        "said": played.said,
        "answer": played.answer,
        "searches": played.searches,
        "formed": played.formed,
        "found": played.found,
    }


def played_of(saved: Fields, question: Question, start: str) -> EpisodeRecord:
    """Return what `saved_played` was given.

    Args:
        saved: what it gave.
        question: the task's here.
        start: the first observation here.

    Raises:
        BadSnapshot: it was of another question, or is no such thing.
    """
    if json.dumps(asdict(question), sort_keys=True) != json.dumps(saved.get("question", dict), sort_keys=True):
        raise BadSnapshot(f"the question {question.id!r} is not the same here as in the snapshot")
    said, searches = saved.texts("said"), saved.get("searches", int)
    if len(said) % 2:
        raise saved.wrong("said", "a list with what was said and what was answered, in turn")
    if not 0 <= searches <= len(said) // 2:
        raise saved.wrong("searches", "a whole number from 0 to that of the turns")
    return EpisodeRecord(
        question,
        start,
        said,
        said[::2],
        saved.maybe("answer", str),
        searches,
        saved.get("formed", bool),
        saved.get("found", bool),
    )


def titles_of(saved: Fields, name: str) -> dict[str, str]:
    """Return a mapping of texts to texts.

    Raises:
        BadSnapshot: it is something else.
    """
    found = saved.get(name, dict)
    if not all(isinstance(title, str) for title in found.values()):
        raise saved.wrong(name, "an object with the title of each passage")
    return found
