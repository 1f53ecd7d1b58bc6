"""Reads files of questions, in FlashRAG's format or another of `question_formats`.

    {"id": "nq_0", "question": "...", "golden_answers": ["..."], "gold_doc_ids": ["17"], "metadata": {"type": "..."}}

Only the question and its answers are required; the default id is derived from the line number. `entities`, in the
record or its metadata, are names on the way to the answer, for rewards that count them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from turncredit.envs.errors import GameFileError, NoGames
from turncredit.envs.search.question import Question
from turncredit.envs.search.question_formats import QUESTION_FORMATS
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Record, read_records

__all__ = ["Question", "load_questions"]


def load_questions(path: str | os.PathLike[str], *, strict: bool = True) -> tuple[list[Question], int]:
    """Return the questions in a file, and the number of records that were left out.

    Questions that their data set marks as unanswerable are left out. Queries of BEIR get the relevant passages in
    the folder `qrels` beside the file; they have no answers.

    Args:
        path: JSON lines, a JSON list, CSV, TSV or Parquet.
        strict: raise for a record that is invalid, has no question or answer, or repeats an id; False leaves it out.

    Raises:
        NoGames: the file cannot be read, or contains no question.
        GameFileError: a record is invalid; names the file, the line and the problem.
    """
    questions: dict[str, Question] = {}
    left_out = unanswerable = 0
    try:
        for record in read_records(Path(path)):
            try:
                question = _read(record)
                if question is not None and question.id in questions:
                    raise InputError(f"duplicate id {question.id!r}")
            except InputError as error:
                if strict:
                    raise GameFileError(
                        str(path), record.line, f"{record.prefix}invalid record: {error}", "strict=False skips it"
                    ) from error
                left_out += 1
                continue
            if question is None:
                unanswerable += 1
            else:
                questions[question.id] = question
        answered = _with_passages(Path(path), list(questions.values()))
    except (OSError, InputError) as error:
        raise NoGames(f"{path} cannot be read: {error}") from error
    if not questions:
        reason = f"all {unanswerable} are marked as unanswerable" if unanswerable else "it holds no valid record"
        raise NoGames(f"no questions in {path}: {reason}; a record has for example 'question' and 'golden_answers'")
    return answered, left_out + unanswerable


def _read(record: Record) -> Question | None:
    if record.problem:
        raise InputError(record.problem)
    return QUESTION_FORMATS.read(record.fields, f"line_{record.number}")


def _with_passages(path: Path, questions: list[Question]) -> list[Question]:
    """Return queries of BEIR with their relevant passages; those that have none in qrels are left out.

    Raises:
        NoGames: there are no relevant passages.
    """
    if all(question.answers for question in questions):
        return questions
    relevant = _relevant(path.parent / "qrels")
    judged = [
        question if question.answers else replace(question, gold=relevant[question.id])
        for question in questions
        if question.answers or question.id in relevant
    ]
    if not judged:
        raise NoGames(
            f"{path} has queries without answers, as in BEIR, and {path.parent}/qrels has no passages for them"
        )
    return judged


def _relevant(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the ids of the relevant passages of each query, the most relevant first."""
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for file in sorted(folder.glob("*.tsv*")):
        for record in read_records(file):
            query, passage = (str(record.fields.get(name, "")) for name in ("query-id", "corpus-id"))
            try:
                score = float(record.fields.get("score", 1))
            except (TypeError, ValueError):
                score = 0.0
            if query and passage and score > 0:
                scores[query][passage] = score
    return {query: tuple(sorted(passages, key=lambda id: -passages[id])) for query, passages in scores.items()}
