"""Annotators that ask a model how good an episode, a turn, or one of two episodes is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

from turncredit.agents.trajectory import Group, Trajectory, sampling_seed
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.annotation import Ask, Notes, Place
from turncredit.curriculum.annotators.transcripts import transcript

Per = Literal["episode", "turn"]

SCORE = (
    "Rate how well the agent solved its task, from 0 (not at all) to {scale:g} (perfectly). "
    "Answer with the number alone."
)
TURN = (
    "Rate how much the agent's last action helped with its task, from 0 (not at all) to {scale:g} (most). "
    "Answer with the number alone."
)
FIRST_RIGHT = "Was the first answer that the agent gave or tried already right?"
PAIR = "Which agent did better? Answer with 1 or 2 alone."


async def judge(
    groups: Sequence[Group],
    *,
    ask: Ask,
    column: str = "judge",
    per: Per = "episode",
    prompt: str = "",
    scale: float = 10.0,
    missing: float = 0.5,
    max_tokens: int = 16,
) -> Notes:
    """Return a model's score of each episode, or of each turn, in [0, 1].

        score = first number of the answer / scale, clipped to [0, 1]

    Args:
        groups: the episodes.
        ask: the model.
        column: where the scores go: "judge", or "metric" for rules that read that.
        per: what is scored; a turn is shown with those before it.
        prompt: the instruction; {scale} is the scale. Empty: a plain one.
        scale: largest number that the model may give.
        missing: score without an answer that can be read.
        max_tokens: tokens of an answer at most.
    """
    check_choice("per", per, Per)
    check_number("scale", scale, 0.0, open_low=True)
    check_number("missing", missing, 0.0, 1.0)
    check_number("max_tokens", max_tokens, 1, whole=True)
    instruction = _filled(prompt or (SCORE if per == "episode" else TURN), scale)

    async def scored(member: Trajectory, last: int | None) -> float | None:
        text = f"{transcript(member, last)}\n\n{instruction}"
        answer = await ask([{"role": "user", "content": text}], max_tokens=max_tokens)
        return None if answer is None else number_in(answer, scale)

    members = [member for group in groups for member in group.finished]
    if per == "episode":
        scores = await asyncio.gather(*(scored(member, None) for member in members))
        values: dict[Place, float] = {
            (member.id, turn): score
            for member, score in zip(members, scores, strict=True)
            if score is not None
            for turn in range(len(member.turns))
        }
    else:
        places = [(member, turn) for member in members for turn in range(len(member.turns))]
        scores = await asyncio.gather(*(scored(member, turn) for member, turn in places))
        values = {
            (member.id, turn): score for (member, turn), score in zip(places, scores, strict=True) if score is not None
        }
    return Notes({column: values}, {column: missing})


async def pairwise(
    groups: Sequence[Group], *, ask: Ask, column: str = "preferred", prompt: str = PAIR, max_tokens: int = 8
) -> Notes:
    """Return for each episode whether a model prefers it to the reference of its group: 1, -1, or 0 for the reference.

    The reference is one member, chosen by a hash of its id. An episode is preferred if it is so in both orders.

    Args:
        groups: the episodes.
        ask: the model.
        column: where the preferences go.
        prompt: the instruction.
        max_tokens: tokens of an answer at most.

    Source: Writing-Zero (BRPO), arXiv 2506.00103.
    """
    check_number("max_tokens", max_tokens, 1, whole=True)

    async def first_wins(one: Trajectory, other: Trajectory) -> bool | None:
        text = f"Agent 1\n{transcript(one)}\n\nAgent 2\n{transcript(other)}\n\n{prompt}"
        answer = await ask([{"role": "user", "content": text}], max_tokens=max_tokens)
        digit = None if answer is None else re.search(r"[12]", answer)
        return None if digit is None else digit.group() == "1"

    async def preference(member: Trajectory, reference: Trajectory) -> int | None:
        if member is reference:
            return 0
        ahead, behind = await asyncio.gather(first_wins(member, reference), first_wins(reference, member))
        return None if ahead is None or behind is None else (1 if ahead and not behind else -1)

    pairs = []
    for group in groups:
        if group.finished:
            reference = min(group.finished, key=lambda member: sampling_seed(member.id))
            pairs += [(member, reference) for member in group.finished]
    preferences = await asyncio.gather(*(preference(*pair) for pair in pairs))
    values: dict[Place, int] = {
        (member.id, turn): value
        for (member, _), value in zip(pairs, preferences, strict=True)
        if value is not None
        for turn in range(len(member.turns))
    }
    return Notes({column: values}, {column: 0})


async def verdict(
    groups: Sequence[Group],
    *,
    ask: Ask,
    column: str = "first_right",
    question: str = FIRST_RIGHT,
    missing: int = 0,
    max_tokens: int = 8,
) -> Notes:
    """Return a model's answer to a question about each episode: 1 for yes, 0 for no.

    Args:
        groups: the episodes.
        ask: the model.
        column: column of the answers.
        question: what is asked; by default, whether the first answer was right.
        missing: value without an answer that begins with yes or no.
        max_tokens: tokens of an answer at most.
    """
    check_number("missing", missing, 0, 1, whole=True)
    check_number("max_tokens", max_tokens, 1, whole=True)
    members = [member for group in groups for member in group.finished]
    texts = [f"{transcript(member)}\n\n{question} Answer with yes or no alone." for member in members]
    answers = await asyncio.gather(*(ask([{"role": "user", "content": text}], max_tokens=max_tokens) for text in texts))
    values: dict[Place, int] = {}
    for member, answer in zip(members, answers, strict=True):
        word = re.match(r"\W*(yes|no)\b", answer or "", flags=re.IGNORECASE)
        if word is not None:
            value = int(word.group(1).lower() == "yes")
            values |= {(member.id, turn): value for turn in range(len(member.turns))}
    return Notes({column: values}, {column: missing})


def number_in(answer: str, scale: float) -> float | None:
    """Return the first number of an answer as a share of the scale, in [0, 1]; None without one.

    >>> number_in("I would say 7 of 10", 10.0), number_in("12", 10.0), number_in("well done", 10.0)
    (0.7, 1.0, None)
    """
    digits = re.search(r"-?\d+(\.\d+)?", answer)
    return None if digits is None else min(1.0, max(0.0, float(digits.group()) / scale))


def _filled(prompt: str, scale: float) -> str:
    try:
        return prompt.format(scale=scale)
    except (KeyError, IndexError, ValueError) as error:
        raise BadOption(f"prompt may contain {{scale}} and no other braces; got {prompt!r}") from error
