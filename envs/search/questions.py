"""Questions, and files of them in FlashRAG's form.

    {"id": "nq_0", "question": "...", "golden_answers": ["..."], "gold_doc_ids": ["17"], "metadata": {"type": "..."}}

Only question and answers are needed; an id that is missing is made of the number of the line. `answer` (a text or a
list), as NQ-open and HotpotQA write, is read in the place of `golden_answers`. `entities` (in the record or its
metadata) are names on the way to the answer, for rewards that count them.
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
    """What is asked.

    Attributes:
        id: of the task.
        text: the question.
        answers: each of them is right.
        gold: ids of the passages that hold what is needed, in the order in which it is needed where that is known.
        entities: names that lead to the answer, the answer not among them.
        kind: kind of question, for tables per kind.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    gold: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    kind: str = "question"


def load_questions(path: str | os.PathLike[str], *, strict: bool = True) -> tuple[list[Question], int]:
    """Return the questions of a file of JSON lines, in its order, and how many records were left out.

    Args:
        path: the file.
        strict: stop at a record that is torn, has no question or no answer, or repeats an id; else leave it out.

    Raises:
        NoGames: there is no such file, or no question in it.
        GameFileError: a record is broken (file, line, what).
    """
    found: dict[str, Question] = {}
    skipped = 0
    for line, record in _records(path, strict=strict):
        question = None if record is None else _question(record, f"line_{line}")
        problem = "no question, or no answer" if question is None else ""
        if question is not None and question.id in found:
            problem = f"the id {question.id!r} a second time"
        if problem and strict:
            raise GameFileError(str(path), line, f"a record with {problem}", "strict=False leaves it out")
        if problem or question is None:
            skipped += 1
        else:
            found[question.id] = question
    if not found:
        raise NoGames(f"no questions in {path}: each line is an object with 'question' and 'golden_answers'")
    return list(found.values()), skipped


def _records(path: str | os.PathLike[str], *, strict: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield line number and object of each line that is not blank; None for what is no object, where not strict.

    Raises:
        NoGames: the file cannot be opened.
        GameFileError: a line is torn, and strict.
    """
    try:
        with Path(path).open("rb") as file:
            for line, raw in enumerate(file, start=1):
                if not raw.strip():
                    continue
                record, problem = _parse(raw)
                if problem and strict:
                    raise GameFileError(str(path), line, problem, "strict=False leaves such lines out")
                yield line, record
    except (OSError, ValueError) as error:
        raise NoGames(f"{path} cannot be read: {error}") from error


def _parse(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    try:
        record = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return None, f"no JSON object: {error}"
    if not isinstance(record, dict):
        return None, f"no JSON object but {type(record).__name__}"
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
    """Return the texts of a list, or the one text; numbers are written out, what is blank is left out."""
    values = value if isinstance(value, list | tuple) else [value]
    kept = [str(one) for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
    return tuple(text for text in kept if text.strip())
