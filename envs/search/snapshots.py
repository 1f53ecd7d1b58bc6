"""Converts an episode of search to JSON data and back.

What can be derived from the task is not stored. The question is stored for comparison, so that a file with other
questions under the same ids is detected.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from turncredit.envs.errors import BadSnapshot
from turncredit.envs.search.questions import Question
from turncredit.envs.search.reward_rules import EpisodeRecord
from turncredit.envs.snapshot import Fields

__all__ = ["record_from_json", "record_to_json", "titles_of"]


def record_to_json(record: EpisodeRecord) -> dict[str, object]:
    """Return an episode as JSON data."""
    return {
        "question": asdict(record.question),
        "said": record.texts,
        "answer": record.answer,
        "searches": record.searches,
        "formed": record.formed,
        "found": record.retrieved,
    }


def record_from_json(saved: Fields, question: Question, start: str) -> EpisodeRecord:
    """Return the episode in JSON data.

    Args:
        saved: data from `record_to_json`.
        question: the task's question here.
        start: the first observation here.

    Raises:
        BadSnapshot: the data is invalid, or belongs to another question.
    """
    if json.dumps(asdict(question), sort_keys=True) != json.dumps(saved.get("question", dict), sort_keys=True):
        raise BadSnapshot(f"question {question.id!r} differs from the one in the snapshot")
    texts, searches = saved.texts("said"), saved.get("searches", int)
    if len(texts) % 2:
        raise saved.wrong("said", "a list of outputs and observations, in turn")
    if not 0 <= searches <= len(texts) // 2:
        raise saved.wrong("searches", "a whole number, at most the number of turns")
    return EpisodeRecord(
        question,
        start,
        texts,
        texts[::2],
        saved.maybe("answer", str),
        searches,
        saved.get("formed", bool),
        saved.get("found", bool),
    )


def titles_of(saved: Fields, name: str) -> dict[str, str]:
    """Return a mapping of strings to strings.

    Raises:
        BadSnapshot: the data is invalid.
    """
    titles = saved.get(name, dict)
    if not all(isinstance(title, str) for title in titles.values()):
        raise saved.wrong(name, "an object that maps passage ids to titles")
    return titles
