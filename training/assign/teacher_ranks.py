"""Which of several won episodes of teachers a group is trained on: those that explain their answer best to the policy.

AMPO ranks the traces of teachers by how much more probable the reference answer becomes for the policy after the trace.
An environment names no answer, so the reference is what ended the trace: the action of its last turn, with which it
won.

Not included: traces of teachers that lost, which no group is trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit.columns import Floats
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.play.played import Played
from turncredit.training.sampling.grown_groups import PlayedGroup
from turncredit.training.sampling.sampling_metrics import growth_metrics

__all__ = ["answer_gains", "with_best_teachers"]

Score = Callable[[Batch], Floats]
"""Returns the policy's log-probability (nats) of every token of a batch, float64 [B, L]."""
Decode = Callable[[Sequence[int]], str]


def with_best_teachers(played: Played, score: Score, decode: Decode) -> Played:
    """Return the groups of an iteration with as many episodes of teachers as their rules asked for, the best ones.

    Args:
        played: the groups; `Growth.best` says how many of the kept episodes of teachers stay.
        score: of the policy that is about to be trained.
        decode: returns the text of token ids.
    """
    surplus = {number: lessons for number, group in enumerate(played.sampled) if (lessons := _surplus(group))}
    if not surplus:
        return played
    everyone = [lesson for lessons in surplus.values() for lesson in lessons]
    gains = dict(zip((lesson.id for lesson in everyone), answer_gains(everyone, score, decode).tolist(), strict=True))
    sampled = list(played.sampled)
    for number, lessons in surplus.items():
        best = sampled[number].growth.best or 0
        ranked = sorted(lessons, key=lambda lesson: -gains[lesson.id])  # stable: the first of equal ones
        sampled[number] = _without(sampled[number], frozenset(lesson.id for lesson in ranked[best:]))
    return replace(played.without_some(sampled), metrics={**played.metrics, **growth_metrics(sampled)})


def answer_gains(lessons: Sequence[Trajectory], score: Score, decode: Decode) -> Floats:
    """Return by how much each episode raises the probability of its own answer; float64 [N].

        gain = mean over the tokens t of the answer of  p(t | the episode up to it) - p(t | the first prompt)

    p is the policy's probability of a token after those of the answer before it. The answer are the tokens of the last
    turn from the one on in which its action begins: what is thought before it belongs to the episode.

    Args:
        lessons: finished episodes with tokens of the policy.
        score: of the policy.
        decode: returns the text of token ids.

    Source: Yuan et al. 2025 (AMPO), arXiv 2510.02227, and its code, where the answer is that of the data set.
    """
    rows = []
    for lesson in lessons:
        first, last = lesson.turns[0], lesson.turns[-1]
        begin = _action_begins(last, decode)
        answer = last.response[begin:]
        after = replace(last, prompt=last.prompt + last.response[:begin])
        rows += [_row(lesson, "after", after, answer), _row(lesson, "before", first, answer)]
    batch = pack([Group(row.task, (row,)) for row in rows], merge=False)
    tokens = np.maximum(batch.mask.sum(axis=1), 1)
    probabilities = np.where(batch.mask, np.exp(score(batch)), 0.0).sum(axis=1) / tokens
    after_episode, before_episode = probabilities.reshape(-1, 2).T
    return np.asarray(after_episode - before_episode)


def _surplus(played: PlayedGroup) -> list[Trajectory]:
    """Return the kept episodes of teachers if there are more than the group is to have."""
    growth = played.growth
    if played.dropped or growth.best is None or growth.keep is None:
        return []
    lessons = [member for member in played.group.finished if member.teacher and member.id in growth.keep]
    return lessons if len(lessons) > growth.best else []


def _without(played: PlayedGroup, names: frozenset[str]) -> PlayedGroup:
    """Return a group that neither credit nor the loss sees some members of."""
    keep, counted = ((None if ids is None else ids - names) for ids in (played.growth.keep, played.growth.counted))
    return replace(played, growth=replace(played.growth, keep=keep, counted=counted))


def _row(lesson: Trajectory, suffix: str, turn: Turn, answer: tuple[int, ...]) -> Trajectory:
    """Return an episode of one turn, whose answer is to be scored."""
    asked = replace(turn, response=answer, logprobs=(0.0,) * len(answer), switches=(), experts=None)
    return replace(lesson, id=f"{lesson.id}/{suffix}", turns=(asked,))


def _action_begins(turn: Turn, decode: Decode) -> int:
    """Return the token of an answer in which its action begins; 0 if the action is not a part of its text."""
    start = decode(turn.response).rfind(turn.action or "") if turn.action else 0
    if start <= 0:
        return 0
    low, high = 0, len(turn.response)  # texts of longer beginnings are longer
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if len(decode(turn.response[:middle])) <= start else (low, middle)
    return low - 1
