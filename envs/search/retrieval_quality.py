"""What a perfect reader would make of given passages: the share of questions that retrieval leaves answerable.

found = oracle_answer(question, [corpus[id] for id in question.gold])
exact_match(found, question.answers)
"""

from __future__ import annotations

from collections.abc import Iterable

from turnwise.envs.search.questions import Question
from turnwise.envs.search.rewards import normalise
from turnwise.tools.retrieval import Passage

__all__ = ["oracle_answer", "recall"]


def oracle_answer(question: Question, passages: Iterable[Passage]) -> str | None:
    """Return the first right answer whose words stand in the passages one after the other; None if none does.

    Both are normalised. An answer that nobody can copy out, such as "yes", is not found: the oracle reads, it does not
    conclude.
    """
    read = " ".join(normalise(f"{one.title} {one.text}") for one in passages)
    for answer in question.answers:
        words = normalise(answer)
        if words and f" {words} " in f" {read} ":
            return answer
    return None


def recall(question: Question, found: Iterable[str]) -> float:
    """Return the share of a question's gold passages whose ids were found; nan where it names none."""
    gold = set(question.gold)
    return len(gold & set(found)) / len(gold) if gold else float("nan")
