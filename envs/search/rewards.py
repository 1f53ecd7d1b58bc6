"""Reward functions for answers, as pure functions of texts and counts.

    one episode                                          a group of episodes of one question
    normalise, exact_match, contains, f1                 e_grpo         entity share relative to the best of the group
    extract, well_formed, with_format                    otc            calls relative to the fewest that sufficed
    entity_share, otc_alone, attenuated, cost_aware_f1

The environment rewards single episodes, so it pays the part of E-GRPO and OTC that needs no group (`reward_rules`) and
reports the counts in `info["reward_parts"]`, from which the group functions compute the rest.

Sources: Search-R1 (arXiv:2503.09516); E-GRPO (arXiv:2510.24694); OTC (arXiv:2504.14870); GraphRAG-R1
(arXiv:2507.23581), whose constants a and b are not published; the defaults here are our own.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = [
    "attenuated",
    "contains",
    "cost_aware_f1",
    "e_grpo",
    "entities_in",
    "entity_share",
    "exact_match",
    "extract",
    "f1",
    "normalise",
    "otc",
    "otc_alone",
    "well_formed",
    "with_format",
]

_ARTICLE: Final = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ANSWER: Final = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_MARK: Final = re.compile(r"(</?(?:think|search|information|answer)>)")


def normalise(text: str) -> str:
    """Return a text in lower case, without punctuation, articles and repeated whitespace.

    >>> normalise(" The  U.S. Army! ")
    'us army'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str | None, golden: Iterable[str]) -> bool:
    """Return whether an answer equals a right one after normalization; False for None."""
    if answer is None:
        return False
    normalised = normalise(answer)
    return any(normalised == normalise(accepted) for accepted in golden)


def contains(answer: str | None, golden: Iterable[str]) -> bool:
    """Return whether an answer contains a right one after normalization (Search-R1's `subem`); False for None."""
    if answer is None:
        return False
    normalised = normalise(answer)
    # A right answer that is only an article would be contained in everything.
    return any(accepted in normalised if accepted else not normalised for accepted in map(normalise, golden))


def f1(answer: str | None, golden: Iterable[str]) -> float:
    """Return the best F1 between the words of an answer and of a right one.

    F1 = 2 P R / (P + R), where P is the fraction of the answer's words that are right and R the fraction of the right
    words that were given; repeated words count repeatedly. "yes", "no" and "noanswer" are right or wrong as a whole.
    """
    return max((_f1(answer, accepted) for accepted in golden), default=0.0) if answer is not None else 0.0


def _f1(answer: str, golden: str) -> float:
    predicted, right = normalise(answer), normalise(golden)
    if predicted != right and {predicted, right} & {"yes", "no", "noanswer"}:
        return 0.0
    predicted_words, right_words = predicted.split(), right.split()
    common = sum((Counter(predicted_words) & Counter(right_words)).values())
    return 2 * common / (len(predicted_words) + len(right_words)) if common else 0.0


def extract(text: str, *, least: int = 1) -> str | None:
    """Return the last answer between answer tags in a text; None if there are fewer than `least`.

    Search-R1 searches prompt and response together, and its prompt contains an example, so it uses `least=2`; ports
    that search the response alone use 1.

    >>> extract("<answer> Beijing </answer> ... <answer> Ada Marsh </answer>", least=2)
    'Ada Marsh'
    """
    answers = _ANSWER.findall(text)
    return answers[-1].strip() if answers and len(answers) >= least else None


_FOLLOWS: Final = {
    ("start", "<think>"): "thinking",
    ("answered by search", "<think>"): "thinking",
    ("thinking", "</think>"): "thought",
    ("thought", "<search>"): "searching",
    ("searching", "</search>"): "searched",
    ("searched", "<information>"): "reading",
    ("reading", "</information>"): "answered by search",
    ("thought", "<answer>"): "answering",
    ("answering", "</answer>"): "end",
}
_WITH_TEXT: Final = frozenset({"thinking", "searching", "reading", "answering"})


def well_formed(text: str, *, whole: bool = True) -> bool:
    """Return whether a response has Search-R1's order: think, search, information, think, ..., think, answer.

    Args:
        text: all outputs and observations, in turn.
        whole: whether the response must end with the answer; otherwise it may stop earlier.
    """
    state = "start"
    for piece in _MARK.split(text):
        if _MARK.fullmatch(piece):
            if (state, piece) not in _FOLLOWS:
                return False
            state = _FOLLOWS[state, piece]
        elif piece.strip() and state not in _WITH_TEXT:
            return False
    return state == "end" or not whole


def with_format(
    correct: bool,
    answered: bool,
    formed: bool,
    retrieved: bool = False,
    *,
    structure: float = 0.2,
    final: float = 0.1,
    retrieval: float = 0.0,
    score: float = 1.0,
) -> float:
    """Return Search-R1's reward with format scores (its v0.3 scripts).

    ============  ==========================================  ===================
    the answer    well formed                                 not well formed
    ============  ==========================================  ===================
    right         score                                       score - structure
    wrong         structure (+ retrieval where retrieved)     final
    missing       structure (+ retrieval where retrieved)     0
    ============  ==========================================  ===================

    Args:
        correct: whether the answer matches exactly.
        answered: whether there is an answer.
        formed: `well_formed` of the response.
        retrieved: whether a retrieved passage contains a right answer.
        structure, final, retrieval, score: the constants, in units of reward.
    """
    if answered and correct:
        return score if formed else score - structure
    if formed:
        return structure + (retrieval if retrieved else 0.0)
    return final if answered else 0.0


def entities_in(thoughts: str, entities: Iterable[str]) -> frozenset[str]:
    """Return the entities that occur verbatim in thoughts."""
    return frozenset(entity for entity in entities if entity and entity in thoughts)


def entity_share(thoughts: str, entities: Iterable[str]) -> float:
    """Return E-GRPO's fraction of entities that occur in thoughts, |found| / |entities|; 0 if there are none."""
    distinct = frozenset(entities)
    return len(entities_in(thoughts, distinct)) / len(distinct) if distinct else 0.0


def e_grpo(
    correct: Sequence[bool], shares: Sequence[float], formed: Sequence[bool], *, alpha: float = 0.3
) -> list[float]:
    """Return E-GRPO's rewards of a group.

    R_i = 1 if correct, 0 if the format or the length limit was violated, else alpha * share_i / max_j share_j (0 if the
    maximum is 0).

    Args:
        correct: for each episode, whether its answer is right.
        shares: for each episode, `entity_share`.
        formed: for each episode, whether it kept format and length limit; otherwise its reward is 0 even if correct.
        alpha: in [0, 1].

    Raises:
        ValueError: the lengths differ, or alpha is not in [0, 1].

    Source: arXiv:2510.24694.
    """
    _share("alpha", alpha)
    best = max(shares, default=0.0)
    return [
        0.0 if not fine else 1.0 if right else alpha * share / best if best else 0.0
        for right, share, fine in zip(correct, shares, formed, strict=True)
    ]


def otc_alone(calls: int, correct: bool, *, smooth: float = 4.0, alpha: float = 1.0) -> float:
    """Return OTC's reward of a single episode: alpha * cos(m pi / (2 m + c)) if correct, else 0.

    Args:
        calls: m, the number of searches.
        correct: whether the answer is right.
        smooth: c > 0, about the maximum number of calls in an episode.
        alpha: weight.

    Raises:
        ValueError: calls < 0 or smooth <= 0.

    Source: arXiv:2504.14870, the variant for PPO.
    """
    _calls(calls, smooth)
    return alpha * math.cos(calls * math.pi / (2 * calls + smooth)) if correct else 0.0


def otc(
    calls: Sequence[int],
    correct: Sequence[bool],
    best: int | None = None,
    *,
    smooth: float = 4.0,
    alpha: float = 1.0,
) -> tuple[list[float], int | None]:
    """Return OTC's rewards of a group, and the fewest calls that ever sufficed, to be passed as `best` next time.

    With m calls, and n the fewest calls of any right answer so far:

        f = m if n = 0 else 2 n m / (n + m);    r = 1 if m = n = 0, cos(m pi / (2 m + c)) if n = 0, sin(f pi / 2 n) else

    and the reward is alpha * r if the answer is right, else 0.

    Args:
        calls: m for each episode.
        correct: for each episode, whether its answer is right.
        best: n of earlier groups of the same question; None if no answer was right yet.
        smooth: c > 0.
        alpha: weight.

    Raises:
        ValueError: the lengths differ, calls < 0 or smooth <= 0.

    Source: arXiv:2504.14870, the variant for GRPO.
    """
    for count in calls:
        _calls(count, smooth)
    pairs = list(zip(calls, correct, strict=True))
    enough = [made for made, right in pairs if right] + ([] if best is None else [best])
    if not enough:
        return [0.0] * len(pairs), None
    fewest = min(enough)
    return [alpha * _productivity(made, fewest, smooth) if right else 0.0 for made, right in pairs], fewest


def _productivity(made: int, fewest: int, smooth: float) -> float:
    if fewest == 0:
        return 1.0 if made == 0 else math.cos(made * math.pi / (2 * made + smooth))
    return math.sin(2 * fewest * made / (fewest + made) * math.pi / (2 * fewest))


def attenuated(calls: int, *, first: float = 0.2, decay: float = 0.5, most: int = 4) -> float:
    """Return GraphRAG-R1's progressive reward of n well-formed searches: sum of a k^(j-1) for j = 1..min(n, most).

    Args:
        calls: n.
        first: a, the reward of the first search.
        decay: k in [0, 1].
        most: maximum number of rewarded searches.

    Raises:
        ValueError: calls < 0, or decay not in [0, 1].
    """
    _calls(calls, 1.0)
    _share("decay", decay)
    return sum(first * decay**call for call in range(min(calls, most)))


def cost_aware_f1(score: float, calls: int, *, cost: float = 0.1) -> float:
    """Return GraphRAG-R1's F1 * exp(-b n).

    Args:
        score: F1 in [0, 1].
        calls: n, the number of searches.
        cost: b >= 0.

    Raises:
        ValueError: calls < 0 or cost < 0.
    """
    _calls(calls, 1.0)
    if not cost >= 0:
        raise ValueError(f"cost must be >= 0, got {cost!r}")
    return score * math.exp(-cost * calls)


def _calls(calls: int, smooth: float) -> None:
    if calls < 0:
        raise ValueError(f"calls must be >= 0, got {calls!r}")
    if not smooth > 0:
        raise ValueError(f"smooth must be > 0, got {smooth!r}")


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
