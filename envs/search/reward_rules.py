"""The environment's reward rules by name.

A rule defines the reward of a search and of an answer, and which part of the past affects later rewards, which becomes
part of the state key. Most rules reward only the answer and ignore the past.

    em         1 for an exact match               format    Search-R1's format scores
    subem      1 if a right answer is contained   e-grpo    1, or alpha times the entity share (without a group)
    f1         F1                                 otc       exact match times the productivity of its searches
    caf        F1 exp(-b n)                       graphrag  caf, and the attenuated reward at each search

Not included: the "format" reward of an episode without an answer, since the environment does not see that it ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.search import rewards
from turncredit.envs.search.questions import Question
from turncredit.registry import suggest

__all__ = ["REWARD_RULES", "EpisodeRecord", "SearchReward", "make_rule"]


@dataclass(slots=True)
class EpisodeRecord:
    """An episode so far, as reward rules see it.

    Attributes:
        question: the question.
        start: first observation.
        texts: all outputs and observations since, in turn.
        thoughts: outputs of the agent.
        answer: its answer; None if it has not answered.
        searches: number of searches.
        formed: whether all actions so far were valid.
        retrieved: whether a retrieved passage contains a right answer.
    """

    question: Question
    start: str = ""
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    answer: str | None = None
    searches: int = 0
    formed: bool = True
    retrieved: bool = False

    @property
    def correct(self) -> bool:
        """Whether the answer matches a right one exactly."""
        return rewards.exact_match(self.answer, self.question.answers)

    @property
    def entity_share(self) -> float:
        """Share of the question's entities that the thoughts so far have named; 0 for a question without any."""
        return rewards.entity_share("\n".join(self.thoughts), self.question.entities)

    def parts(self) -> dict[str, Any]:
        """Return the inputs of all reward functions, named like their parameters."""
        return {
            "correct": self.correct,
            "contains": rewards.contains(self.answer, self.question.answers),
            "f1": rewards.f1(self.answer, self.question.answers),
            "calls": self.searches,
            "entity_share": self.entity_share,
            "formed": self.formed,
            "well_formed": rewards.well_formed("".join(self.texts)),
            "retrieved": self.retrieved,
        }


@dataclass(frozen=True, slots=True)
class SearchReward:
    """A reward rule.

    Attributes:
        name: name of the rule.
        answer: reward of the answer.
        search: reward of the last search.
        past: the part of the past that affects later rewards; "" for nothing.
        graded: whether the score of a wrong answer is its F1 instead of 0.
        loose: whether an answer that contains a right one is right.
        thinks: whether it requires Search-R1's sequence of tags, including thoughts, and therefore the "tags" format.
    """

    name: str
    answer: Callable[[EpisodeRecord], float]
    search: Callable[[EpisodeRecord], float] = lambda record: 0.0
    past: Callable[[EpisodeRecord], str] = lambda record: ""
    graded: bool = False
    loose: bool = False
    thinks: bool = False

    def right(self, record: EpisodeRecord) -> bool:
        """Return whether the task is solved."""
        if self.loose:
            return rewards.contains(record.answer, record.question.answers)
        return record.correct

    def score(self, record: EpisodeRecord) -> float:
        """Return the task's score, in [0, 1]."""
        if self.right(record):
            return 1.0
        return rewards.f1(record.answer, record.question.answers) if self.graded else 0.0


def _count(record: EpisodeRecord) -> str:
    return f"searches={record.searches}"


def _em(two_answers: bool = False) -> SearchReward:
    """1 for an exact match.

    two_answers: whether to follow Search-R1's own script, which takes the last answer in the whole text, including the
        example in the instructions, and requires two of them.
    """
    if not two_answers:
        return SearchReward("em", lambda record: float(record.correct))

    def whole(record: EpisodeRecord) -> str:
        return record.start + "".join(record.texts)

    def pay(record: EpisodeRecord) -> float:
        return float(rewards.exact_match(rewards.extract(whole(record), least=2), record.question.answers))

    return SearchReward("em", pay, past=lambda record: f"answers={min(whole(record).count('</answer>'), 2)}")


def _subem() -> SearchReward:
    return SearchReward(
        "subem", lambda record: float(rewards.contains(record.answer, record.question.answers)), loose=True
    )


def _f1() -> SearchReward:
    return SearchReward("f1", lambda record: rewards.f1(record.answer, record.question.answers), graded=True)


def _format(structure: float = 0.2, final: float = 0.1, retrieval: float = 0.0, score: float = 1.0) -> SearchReward:
    def pay(record: EpisodeRecord) -> float:
        formed = rewards.well_formed("".join(record.texts))
        return rewards.with_format(
            record.correct,
            record.answer is not None,
            formed,
            record.retrieved,
            structure=structure,
            final=final,
            retrieval=retrieval,
            score=score,
        )

    def past(record: EpisodeRecord) -> str:
        formed = rewards.well_formed("".join(record.texts), whole=False)
        return f"formed={int(formed)}" + (f" found={int(record.retrieved)}" if retrieval and formed else "")

    return SearchReward("format", pay, past=past, thinks=True)


def _e_grpo(alpha: float = 0.3) -> SearchReward:
    rewards.e_grpo([], [], [], alpha=alpha)

    def pay(record: EpisodeRecord) -> float:
        if not record.formed:
            return 0.0
        share = rewards.entity_share("\n".join(record.thoughts), record.question.entities)
        return 1.0 if record.correct else alpha * share

    def past(record: EpisodeRecord) -> str:
        named = rewards.entities_in("\n".join(record.thoughts), record.question.entities)
        return f"thought={sorted(named)}" if record.formed else "formed=0"

    return SearchReward("e-grpo", pay, past=past)


def _otc(smooth: float = 4.0, alpha: float = 1.0) -> SearchReward:
    rewards.otc_alone(0, True, smooth=smooth, alpha=alpha)
    return SearchReward(
        "otc",
        lambda record: rewards.otc_alone(record.searches, record.correct, smooth=smooth, alpha=alpha),
        past=_count,
    )


def _caf(cost: float = 0.1) -> SearchReward:
    rewards.cost_aware_f1(0.0, 0, cost=cost)

    def pay(record: EpisodeRecord) -> float:
        return rewards.cost_aware_f1(rewards.f1(record.answer, record.question.answers), record.searches, cost=cost)

    return SearchReward("caf", pay, past=_count, graded=True)


def _graphrag(first: float = 0.2, decay: float = 0.5, most: int = 4, cost: float = 0.1) -> SearchReward:
    base = _caf(cost)
    rewards.attenuated(0, first=first, decay=decay, most=most)

    def step(record: EpisodeRecord) -> float:
        after, before = (
            rewards.attenuated(calls, first=first, decay=decay, most=most)
            for calls in (record.searches, record.searches - 1)
        )
        return after - before

    return SearchReward("graphrag", base.answer, search=step, past=_count, graded=True)


REWARD_RULES: Final[dict[str, Callable[..., SearchReward]]] = {
    "em": _em,
    "subem": _subem,
    "f1": _f1,
    "format": _format,
    "e-grpo": _e_grpo,
    "otc": _otc,
    "caf": _caf,
    "graphrag": _graphrag,
}


def make_rule(name: str, options: Mapping[str, object] | None = None) -> SearchReward:
    """Return the reward rule with a name, with some of its constants changed.

    Raises:
        UnknownOption: the rule or a constant does not exist, or a value is invalid.
    """
    if name not in REWARD_RULES:
        raise UnknownOption(f"unknown reward {name!r}{suggest(str(name), REWARD_RULES)}")
    arguments = dict(options or {})
    names = list(inspect.signature(REWARD_RULES[name]).parameters)
    for key, value in arguments.items():
        if key not in names:
            raise UnknownOption(f"the reward {name!r} has no option {key!r}{suggest(str(key), names)}")
        if not isinstance(value, bool if key == "two_answers" else int | float):
            raise UnknownOption(f"{key} of the reward {name!r} must be a number, got {value!r}")
    try:
        return REWARD_RULES[name](**arguments)
    except ValueError as error:
        raise UnknownOption(f"invalid options of the reward {name!r}: {error}") from error
