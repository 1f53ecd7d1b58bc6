"""Which members of a complete group are trained on: by reward, by process scores, by length, by chance or by number.

Each of these rules plays what was drawn, in one round. Members that are not kept are counted or not as the method has
it: where they are, they stay in the baseline of those that are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from turncredit.agents.trajectory import Trajectory
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.growth import Growth, OpenGroup
from turncredit.curriculum.members import balanced, column, comparable, dice, ids, ordered

Length = Literal["tokens", "turns"]
Baseline = Literal["kept", "all"]


def pods(group: OpenGroup, *, keep: int = 4, baseline: Baseline = "kept") -> Growth:
    """Train on the `keep` members whose rewards have the largest variance.

        the k smallest and the keep - k largest rewards, for the best k

    At most size episodes in one round.

    Args:
        group: the group so far.
        keep: members that are trained on; of fewer, all.
        baseline: whose rewards credit sees: of the members that are kept, or of all.

    Raises:
        BadOption: keep < 2, or an unknown baseline.

    Source: Xu et al. 2025 (PODS, max-variance down-sampling), arXiv 2504.13818. Of equally good choices, the one with
    more small rewards; of equal rewards, the member with the smaller number.
    """
    check_number("keep", keep, 2, whole=True)
    check_choice("baseline", baseline, Baseline)
    if len(group.members) <= keep:
        return Growth()
    choices = [_ends(group, k, keep) for k in range(keep + 1)]
    chosen = max(reversed(choices), key=_spread)
    return Growth(keep=ids(chosen), counted=ids(chosen) if baseline == "kept" else None)


def _ends(group: OpenGroup, smallest: int, keep: int) -> list[Trajectory]:
    """Return the members with the smallest rewards, and of the others those with the largest."""
    members = sorted(ordered(group.members), key=lambda member: comparable(member.reward))
    others = sorted(ordered(members[smallest:]), key=lambda member: -comparable(member.reward))
    return [*members[:smallest], *others[: keep - smallest]]


def _spread(members: Sequence[Trajectory]) -> float:
    """Return the sum of the squared distances of rewards from their mean."""
    mean = fmean(member.reward for member in members)
    return comparable(math.fsum((member.reward - mean) ** 2 for member in members))


def prof(group: OpenGroup, *, keep: int = 4, score: str = "process", baseline: Baseline = "kept") -> Growth:
    """Train on winners whose turns scored high and losers whose turns scored low, half of each where there are enough.

        s = mean of the column `score` over the turns of a member
        winners by falling s, losers by rising s: the first a and the first keep - a
        a = clip(keep // 2, keep - losers, winners)

    The reward stays the outcome; scores only choose.

    At most size episodes in one round.

    Args:
        group: the group so far.
        keep: members that are trained on; of fewer, all.
        score: column of the turns.
        baseline: whose rewards credit sees: of the members that are kept, or of all.

    Raises:
        BadOption: keep < 2, or an unknown baseline.
        CurriculumError: a turn has no number in the column.

    Source: Ye et al. 2025 (PROF), arXiv 2509.03403, from its description; the training code is not in its repository.
    """
    check_number("keep", keep, 2, whole=True)
    check_choice("baseline", baseline, Baseline)
    scores = {member.id: comparable(fmean(column(member, score) or [0.0])) for member in group.members}
    if len(group.members) <= keep:
        return Growth()
    winners = sorted(ordered(group.winners), key=lambda member: -scores[member.id])
    losers = sorted(ordered(group.losers), key=lambda member: scores[member.id])
    chosen = ids(balanced(winners, losers, keep))
    return Growth(keep=chosen, counted=chosen if baseline == "kept" else None)


def rorecomp(group: OpenGroup, *, share: float = 0.5, length: Length = "tokens") -> Growth:
    """Train on the shortest winners and the longest losers, so that answers become shorter.

        the ceil(share * winners) shortest winners and the ceil(share * losers) longest losers

    All members are counted. Where all won, or none did, all are kept.

    At most size episodes in one round.

    Args:
        group: the group so far.
        share: of each class that is trained on.
        length: what is short: sampled tokens, or turns.

    Raises:
        BadOption: a share outside (0, 1], or an unknown length.

    Source: Li et al. 2025 (RoRecomp), arXiv 2509.25958, from its abstract and reviews. Not included: batches of the
    members that were left out, which need a store of episodes.
    """
    check_number("share", share, 0, 1, open_low=True)
    check_choice("length", length, Length)
    if not group.winners or not group.losers:
        return Growth()
    winners = sorted(ordered(group.winners), key=lambda member: _length(member, length))
    losers = sorted(ordered(group.losers), key=lambda member: -_length(member, length))
    classes = (winners, losers)
    return Growth(keep=ids(member for members in classes for member in members[: math.ceil(share * len(members))]))


def _length(member: Trajectory, unit: Length) -> int:
    return member.response_tokens if unit == "tokens" else len(member.turns)


def dagrpo(group: OpenGroup, *, distance: float = 0.1, score: str = "") -> Growth:
    """Train on members that differ from some member with the other outcome.

        keep i  iff  |s_i - s_j| >= distance for some j with the other outcome
        s = exp(mean log-probability of the sampled tokens), or the mean of a column over the turns

    All members are counted. Where nobody differs enough, nobody is kept; where all won, or none did, all are.

    At most size episodes in one round.

    Args:
        group: the group so far.
        distance: of scores, between 0 and 1.
        score: column of the turns with scores from 0 to 1; "": the probability of a token.

    Raises:
        BadOption: a distance outside [0, 1].
        CurriculumError: a turn has no number in the column.

    Source: Xie et al. 2025 (DaGRPO), arXiv 2512.06337, from its abstract, where a judge scores pairs. Not included:
    anchors for lost groups; `scaf_grpo` before it in the list gives one.
    """
    check_number("distance", distance, 0, 1)
    scores = {member.id: _score(member, score) for member in group.members}
    if not group.winners or not group.losers:
        return Growth()
    chosen = ids(
        member
        for members, others in ((group.winners, group.losers), (group.losers, group.winners))
        for member in members
        if any(abs(scores[member.id] - scores[other.id]) >= distance - 1e-9 for other in others)
    )
    return Growth(keep=chosen)


def _score(member: Trajectory, name: str) -> float:
    """Return the mean of a column, or the geometric mean probability of a token."""
    if name:
        return fmean(column(member, name) or [0.0])
    logprobs = [value for turn in member.sampled for value in turn.logprobs]
    return math.exp(math.fsum(logprobs) / len(logprobs)) if logprobs else 0.0


def drkernel_prs(group: OpenGroup, *, low: float = 0.3, width: float = 0.1, score: str = "coverage") -> Growth:
    """Train on all losers, and on winners by chance: the more their last turn covers, the more often.

        P(keep a winner) = clip((coverage - low) / width, 0, 1)

    All members are counted. Of winners alone, it may be that nobody is kept.

    At most size episodes in one round.

    Args:
        group: the group so far.
        low: coverage up to which a winner is never kept.
        width: coverage above that from which on a winner is always kept.
        score: column of the last turn.

    Raises:
        BadOption: width <= 0.
        CurriculumError: the last turn of a winner has no number in the column.

    Source: arXiv 2602.05885 (Dr. Kernel, profiling-based rejection sampling), and its code; the coverage is the share
    of the running time that the agent's own kernel takes. There, turns are sampled, and a large speed-up is kept too.
    """
    check_number("low", low)
    check_number("width", width, 0, open_low=True)
    rolls = dice(group).random(len(group.winners))
    lucky = [
        winner
        for winner, roll in zip(ordered(group.winners), rolls, strict=True)
        if roll < ((column(winner, score) or [low])[-1] - low) / width
    ]
    return Growth(keep=ids([*lucky, *group.losers]))


def ttrl(group: OpenGroup, *, share: float = 0.5) -> Growth:
    """Train on the first members, and count them all, so that many vote on the reward and few are updated on.

        the first ceil(share * members)

    At most size episodes in one round.

    Args:
        group: the group so far.
        share: of the members that are trained on.

    Raises:
        BadOption: a share outside (0, 1].

    Source: Zuo et al. 2025 (TTRL), arXiv 2504.16084, and its code, with 64 votes and 32 members; the reward itself is
    a reward rule.
    """
    check_number("share", share, 0, 1, open_low=True)
    chosen = ordered(group.members)[: math.ceil(share * len(group.members))]
    return Growth(keep=ids(chosen)) if chosen else Growth()
