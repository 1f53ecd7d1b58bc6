"""Rewards by name, as the environment pays them at every turn.

A rule pays what a search or an answer is worth, and says what of the past decides what it will still pay: that belongs
to the state key. Most rules pay the answer alone, and need nothing of the past.

    em         1 for an exact match               format    Search-R1's with format scores
    subem      1 if a right answer is contained   e-grpo    1, or alpha times the entity share (of no group)
    f1         F1                                 otc       exact match times the productivity of its searches
    caf        F1 exp(-b n)                       graphrag  caf, and the attenuated reward at each search

Left out on purpose: what an episode that never answers is worth under "format": its end comes from outside.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnwise.envs.errors import UnknownOption
from turnwise.envs.search import rewards
from turnwise.envs.search.questions import Question
from turnwise.registry import suggest

__all__ = ["REWARD_RULES", "EpisodeRecord", "RewardRule", "make_rule"]


@dataclass(slots=True)
class EpisodeRecord:
    """An episode so far, as rewards look at it.

    Attributes:
        question: what is asked.
        start: the first observation.
        said: all that the agent said and was told since, in turn.
        thoughts: what the agent said alone.
        answer: its answer; None before there is one.
        searches: how many searches were done.
        formed: every action so far was one.
        found: a right answer stands in what was found.
    """

    question: Question
    start: str = ""
    said: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    answer: str | None = None
    searches: int = 0
    formed: bool = True
    found: bool = False

    @property
    def correct(self) -> bool:
        """The answer matches a right one exactly."""
        return rewards.exact_match(self.answer, self.question.answers)

    def parts(self) -> dict[str, Any]:
        """Return what the rewards of all rules are made of, under names that the functions over groups take."""
        thoughts = "\n".join(self.thoughts)
        return {
            "correct": self.correct,
            "contains": rewards.contains(self.answer, self.question.answers),
            "f1": rewards.f1(self.answer, self.question.answers),
            "calls": self.searches,
            "entity_share": rewards.entity_share(thoughts, self.question.entities),
            "formed": self.formed,
            "well_formed": rewards.well_formed("".join(self.said)),
            "retrieved": self.found,
        }


@dataclass(frozen=True, slots=True)
class RewardRule:
    """A rule of rewards.

    Attributes:
        name: of the rule.
        answer: what the answer is worth.
        search: what the search just done is worth.
        past: what of the past decides later rewards; "" for nothing.
        graded: the score of an answer is its F1; else it is right or not.
        loose: an answer that contains a right one is right.
        thinks: it pays for Search-R1's order of tags, thoughts among them, so it needs that surface.
    """

    name: str
    answer: Callable[[EpisodeRecord], float]
    search: Callable[[EpisodeRecord], float] = lambda played: 0.0
    past: Callable[[EpisodeRecord], str] = lambda played: ""
    graded: bool = False
    loose: bool = False
    thinks: bool = False

    def right(self, played: EpisodeRecord) -> bool:
        """Return whether the task is won."""
        if self.loose:
            return rewards.contains(played.answer, played.question.answers)
        return played.correct

    def score(self, played: EpisodeRecord) -> float:
        """Return the task's own score, in [0, 1]."""
        if self.right(played):
            return 1.0
        return rewards.f1(played.answer, played.question.answers) if self.graded else 0.0


def _count(played: EpisodeRecord) -> str:
    return f"searches={played.searches}"


def _em(two_answers: bool = False) -> RewardRule:
    """1 for an exact match.

    two_answers: Search-R1's own rule: the answer is the last of the whole text, the instructions with their example
        included, and there have to be two of them; else it is what the answer tags of the last action hold.
    """
    if not two_answers:
        return RewardRule("em", lambda played: float(played.correct))

    def whole(played: EpisodeRecord) -> str:
        return played.start + "".join(played.said)

    def pay(played: EpisodeRecord) -> float:
        return float(rewards.exact_match(rewards.extract(whole(played), least=2), played.question.answers))

    return RewardRule("em", pay, past=lambda played: f"answers={min(whole(played).count('</answer>'), 2)}")


def _subem() -> RewardRule:
    return RewardRule(
        "subem", lambda played: float(rewards.contains(played.answer, played.question.answers)), loose=True
    )


def _f1() -> RewardRule:
    return RewardRule("f1", lambda played: rewards.f1(played.answer, played.question.answers), graded=True)


def _format(structure: float = 0.2, final: float = 0.1, retrieval: float = 0.0, score: float = 1.0) -> RewardRule:
    def pay(played: EpisodeRecord) -> float:
        formed = rewards.well_formed("".join(played.said))
        return rewards.with_format(
            played.correct,
            played.answer is not None,
            formed,
            played.found,
            structure=structure,
            final=final,
            retrieval=retrieval,
            score=score,
        )

    def past(played: EpisodeRecord) -> str:
        formed = rewards.well_formed("".join(played.said), whole=False)
        return f"formed={int(formed)}" + (f" found={int(played.found)}" if retrieval and formed else "")

    return RewardRule("format", pay, past=past, thinks=True)


def _e_grpo(alpha: float = 0.3) -> RewardRule:
    rewards.e_grpo([], [], [], alpha=alpha)

    def pay(played: EpisodeRecord) -> float:
        if not played.formed:
            return 0.0
        share = rewards.entity_share("\n".join(played.thoughts), played.question.entities)
        return 1.0 if played.correct else alpha * share

    def past(played: EpisodeRecord) -> str:
        found = rewards.entities_in("\n".join(played.thoughts), played.question.entities)
        return f"thought={sorted(found)}" if played.formed else "formed=0"

    return RewardRule("e-grpo", pay, past=past)


def _otc(smooth: float = 4.0, alpha: float = 1.0) -> RewardRule:
    rewards.otc_alone(0, True, smooth=smooth, alpha=alpha)
    return RewardRule(
        "otc",
        lambda played: rewards.otc_alone(played.searches, played.correct, smooth=smooth, alpha=alpha),
        past=_count,
    )


def _caf(cost: float = 0.1) -> RewardRule:
    rewards.cost_aware_f1(0.0, 0, cost=cost)

    def pay(played: EpisodeRecord) -> float:
        return rewards.cost_aware_f1(rewards.f1(played.answer, played.question.answers), played.searches, cost=cost)

    return RewardRule("caf", pay, past=_count, graded=True)


def _graphrag(first: float = 0.2, decay: float = 0.5, most: int = 4, cost: float = 0.1) -> RewardRule:
    base = _caf(cost)
    rewards.attenuated(0, first=first, decay=decay, most=most)

    def step(played: EpisodeRecord) -> float:
        now, before = (
            rewards.attenuated(calls, first=first, decay=decay, most=most)
            for calls in (played.searches, played.searches - 1)
        )
        return now - before

    return RewardRule("graphrag", base.answer, search=step, past=_count, graded=True)


REWARD_RULES: Final[dict[str, Callable[..., RewardRule]]] = {
    "em": _em,
    "subem": _subem,
    "f1": _f1,
    "format": _format,
    "e-grpo": _e_grpo,
    "otc": _otc,
    "caf": _caf,
    "graphrag": _graphrag,
}


def make_rule(name: str, options: Mapping[str, Any] | None = None) -> RewardRule:
    """Return the rule of a name with some of its constants changed.

    Raises:
        UnknownOption: there is no such rule, it has no such constant, or a value makes no sense.
    """
    if name not in REWARD_RULES:
        raise UnknownOption(f"unknown reward {name!r}{suggest(str(name), REWARD_RULES)}")
    given = dict(options or {})
    known = list(inspect.signature(REWARD_RULES[name]).parameters)
    for key, value in given.items():
        if key not in known:
            raise UnknownOption(f"the reward {name!r} has no option {key!r}{suggest(str(key), known)}")
        if not isinstance(value, bool if key == "two_answers" else int | float):
            raise UnknownOption(f"the option {key!r} of the reward {name!r} is {value!r}; a number was wanted")
    try:
        return REWARD_RULES[name](**given)
    except ValueError as error:
        raise UnknownOption(f"the reward {name!r} cannot be made: {error}") from error
