"""Annotators that write lessons: what made the difference between won and lost episodes, in words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from turncredit.agents.prompts.hints import without_hint
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.annotation import Ask, Notes
from turncredit.curriculum.annotators.transcripts import transcript
from turncredit.curriculum.lessons import Lesson, LessonEdit
from turncredit.tools.bounded_input import parse_json

SUMMARY = "Summarize in at most {words} words what the agent did step by step, and what it missed. It {outcome}."
COMPARISON = (
    "Above are summaries of several attempts at one task. Say what made the difference between the successful and the "
    'failed ones, as at most {count} general lessons, each a line of the form "Name: one sentence".'
)
MERGE = (
    "Above are the lessons so far, each with its id, and new proposals. Answer with a JSON list of changes: "
    '[{"operation": "add" | "update" | "delete", "id": "...", "text": "..."}]. Merge what says the same.'
)
CAUSE = "In one sentence of general advice: what should the agent have done differently?"


async def training_free_grpo(
    groups: Sequence[Group], *, ask: Ask, lessons: Sequence[Lesson] = (), count: int = 1, words: int = 80
) -> Notes:
    """Return edits of the lessons: what distinguishes the won from the lost episodes of each mixed group.

    Each episode is summarized, each group's summaries are compared, and all proposals are merged into the lessons: G +
    1 questions a mixed group, and one for all of them. Where the merge cannot be read, the proposals are added.

    Args:
        groups: the episodes.
        ask: the model.
        lessons: of the run so far.
        count: lessons of a group.
        words: of a summary.

    Source: Training-Free GRPO, arXiv 2510.08191, after its public code. There a deletion without a text is ignored.
    """
    check_number("count", count, 1, whole=True)
    check_number("words", words, 1, whole=True)
    mixed = [group for group in groups if len({member.won for member in group.finished}) > 1]
    proposals = await asyncio.gather(*(_compared(group, ask, count, words) for group in mixed))
    texts = [line for lines in proposals for line in lines]
    if not texts:
        return Notes()
    before = "\n".join(f"[{lesson.id}] {lesson.text}" for lesson in lessons if lesson.kind == "experience")
    question = f"Lessons so far:\n{before or 'none'}\n\nProposals:\n" + "\n".join(texts) + f"\n\n{MERGE}"
    answer = await ask([{"role": "user", "content": question}], max_tokens=1024)
    edits = None if answer is None else edits_in(answer)
    return Notes(edits=tuple(LessonEdit("add", text) for text in texts) if edits is None else edits)


async def _compared(group: Group, ask: Ask, count: int, words: int) -> list[str]:
    async def summary(member: Trajectory) -> str | None:
        outcome = "succeeded" if member.won else "failed"
        text = f"{transcript(member)}\n\n{SUMMARY.format(words=words, outcome=outcome)}"
        answer = await ask([{"role": "user", "content": text}], max_tokens=4 * words)
        return None if answer is None else f"Attempt that {outcome}: {answer.strip()}"

    summaries = await asyncio.gather(*(summary(member) for member in group.finished))
    text = "\n\n".join(line for line in summaries if line is not None)
    if not text:
        return []
    question = f"{text}\n\n{COMPARISON.format(count=count)}"
    answer = await ask([{"role": "user", "content": question}], max_tokens=128 * count)
    return [] if answer is None else [line.strip() for line in answer.splitlines() if ":" in line][:count]


async def reflect(groups: Sequence[Group], *, ask: Ask, most: int = 8, words: int = 60) -> Notes:
    """Return a warning for each lost episode, about the state in which it made its last choice.

    Args:
        groups: the episodes.
        ask: the model.
        most: most warnings of an iteration, of the groups in their order and at most one a group.
        words: of a warning.

    Source: the warnings of SLEA-RL, arXiv 2603.18079; the question is ours.
    """
    check_number("most", most, 1, whole=True)
    check_number("words", words, 1, whole=True)
    lost = [next((member for member in group.finished if not member.won and member.turns), None) for group in groups]
    members = [member for member in lost if member is not None][:most]

    async def warning(member: Trajectory) -> LessonEdit | None:
        text = f"{transcript(member)}\n\nThe agent failed. {CAUSE}"
        answer = await ask([{"role": "user", "content": text}], max_tokens=4 * words)
        if answer is None or not answer.strip():
            return None
        return LessonEdit("add", answer, kind="warning", key=without_hint(member.turns[-1].observation), score=1.0)

    edits = await asyncio.gather(*(warning(member) for member in members))
    return Notes(edits=tuple(edit for edit in edits if edit is not None))


def attempts(groups: Sequence[Group], *, most: int = 16) -> Notes:
    """Return the lost attempts of an iteration as lessons about their tasks, for the group rule `self_reflection`.

    Args:
        groups: the episodes.
        most: most attempts of an iteration, one a group.

    Source: R3's in-context self-refinement, arXiv 2601.19620.
    """
    check_number("most", most, 1, whole=True)
    lost = [
        (group.task, member)
        for group in groups
        for member in [next((other for other in group.finished if not other.won and other.turns), None)]
        if member is not None
    ]
    return Notes(
        edits=tuple(LessonEdit("add", transcript(member), kind="attempt", key=task) for task, member in lost[:most])
    )


def edits_in(answer: str) -> tuple[LessonEdit, ...] | None:
    """Return the changes that an answer lists as JSON; None if it cannot be read.

    >>> [edit.operation for edit in edits_in('So: [{"operation": "DELETE", "id": "L3"}]') or ()]
    ['delete']

    Args:
        answer: text that contains a list of objects with operation, id and text.
    """
    start, end = answer.find("["), answer.rfind("]")
    try:
        records = parse_json(answer[start : end + 1], "the answer")
    except ValueError:
        return None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        return None
    edits = []
    for record in records:
        operation = str(record.get("operation", "")).lower()
        text, name = str(record.get("text") or record.get("content") or ""), str(record.get("id") or "")
        if operation in ("add", "update", "delete"):
            edits.append(LessonEdit(operation, text, re.sub(r"[\[\]]", "", name)))  # type: ignore[arg-type]
    return tuple(edits)
