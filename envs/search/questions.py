"""Questions, and files with questions in FlashRAG's format.

    {"id": "nq_0", "question": "...", "golden_answers": ["..."], "gold_doc_ids": ["17"], "metadata": {"type": "..."}}

Only the question and its answers are required; the default id is derived from the line number. `answer` (a string or a
list, as in NQ-open and HotpotQA) is accepted instead of `golden_answers`. `entities`, in the record or its metadata,
are names on the way to the answer, for rewards that count them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.envs.errors import GameFileError, NoGames

__all__ = ["Question", "load_questions"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        id: task id.
        text: the question.
        answers: right answers.
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


def load_questions(path: str | os.PathLike[str], *, strict: bool = True) -> tuple[list[Question], int]:
    """Return the questions in a JSON-lines file, and the number of skipped records.

    Args:
        path: the file.
        strict: raise for a record that is invalid, has no question or answer, or repeats an id; False skips it.

    Raises:
        NoGames: the file cannot be read, or contains no question.
        GameFileError: a record is invalid; names the file, the line and the problem.
    """
    found: dict[str, Question] = {}
    skipped = 0
    for line, record in _records(path, strict=strict):
        question = None if record is None else _question(record, f"line_{line}")
        problem = "it has no question or no answer" if question is None else ""
        if question is not None and question.id in found:
            problem = f"duplicate id {question.id!r}"
        if problem and strict:
            raise GameFileError(str(path), line, f"invalid record: {problem}", "strict=False skips it")
        if problem or question is None:
            skipped += 1
        else:
            found[question.id] = question
    if not found:
        raise NoGames(f"no questions in {path}; each line must be an object with 'question' and 'golden_answers'")
    return list(found.values()), skipped


def _records(path: str | os.PathLike[str], *, strict: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield line number and object of each non-empty line; None for an invalid line, if not strict.

    Raises:
        NoGames: the file cannot be read.
        GameFileError: a line is invalid, and strict is set.
    """
    try:
        with Path(path).open("rb") as file:
            for line, raw in enumerate(file, start=1):
                if not raw.strip():
                    continue
                record, problem = _parse(raw)
                if problem and strict:
                    raise GameFileError(str(path), line, problem, "strict=False skips it")
                yield line, record
    except (OSError, ValueError) as error:
        raise NoGames(f"{path} cannot be read: {error}") from error


def _parse(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    try:
        record = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return None, f"invalid JSON: {error}"
    if not isinstance(record, dict):
        return None, f"expected a JSON object, got {type(record).__name__}"
    return record, ""


def _question(record: Mapping[str, Any], name: str) -> Question | None:
    text = record.get("question")
    answers = _texts(record.get("golden_answers", record.get("answer")))
    if not isinstance(text, str) or not text.strip() or not answers:
        return None
    meta = record.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    given = record.get("id")
    return Question(
        id=str(given) if isinstance(given, str | int) and not isinstance(given, bool) and given != "" else name,
        text=text,
        answers=answers,
        gold=_texts(record.get("gold_doc_ids")),
        entities=_texts(record.get("entities", meta.get("entities"))),
        kind=meta["type"] if isinstance(meta.get("type"), str) and meta["type"] else "question",
    )


def _texts(value: object) -> tuple[str, ...]:
    """Return the non-empty strings in a value or list; numbers are converted."""
    values = value if isinstance(value, list | tuple) else [value]
    kept = [str(one) for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
    return tuple(text for text in kept if text.strip())
