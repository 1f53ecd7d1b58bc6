"""Measures of retrieval: what an ideal reader answers from given passages, and recall of gold passages.

found = oracle_answer(question, [corpus[id] for id in question.gold])
exact_match(found, question.answers)
"""

from __future__ import annotations

from collections.abc import Iterable

from turncredit.envs.search.questions import Question
from turncredit.envs.search.rewards import normalise
from turncredit.tools.retrieval import Passage

__all__ = ["oracle_answer", "recall"]


def oracle_answer(question: Question, passages: Iterable[Passage]) -> str | None:
    """Return the first right answer whose words occur consecutively in the passages; None if there is none.

    Texts are normalized. Answers that cannot be copied from a passage, such as "yes", are never found.
    """
    read = " ".join(normalise(f"{passage.title} {passage.text}") for passage in passages)
    for answer in question.answers:
        words = normalise(answer)
        if words and f" {words} " in f" {read} ":
            return answer
    return None


def recall(question: Question, ids: Iterable[str]) -> float:
    """Return the fraction of a question's gold passages that were found; nan if it has none."""
    gold = set(question.gold)
    return len(gold & set(ids)) / len(gold) if gold else float("nan")
