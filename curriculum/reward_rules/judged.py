"""Rewards that take what a judge said of an episode, from columns that an annotator or the environment fills in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turncredit.credit.numerics import group_sums
from turncredit.credit.option_checks import check_number
from turncredit.credit.steps import Steps
from turncredit.curriculum.reward_rules.outcomes import WIN, Outcomes


def knowrl(steps: Steps, *, enough: float = 10.0, refusal: float = 1.0, win: float = WIN) -> Steps:
    """Return the table in which a wrong answer is worth more the more of its facts are supported.

        won:      1 + r
        refused:  refusal
        else:     -1 + supported / facts * (1 if facts > enough else exp(1 - enough / facts))

    Args:
        steps: the table; needs `facts`, `supported` and `refused`, one number a trajectory each.
        enough: number of facts from which their number does not count.
        refusal: reward of an answer that admits not to know.
        win: outcome from which an episode counts as won.

    Source: KnowRL, arXiv 2506.19807, and its code as read; the rewards 2, 1 and -1 of right answers, refusals and wrong
        answers by a description of others.
    """
    check_number("enough", enough, 0.0)
    check_number("refusal", refusal)
    check_number("win", win)
    episodes = Outcomes("knowrl", steps, win)
    facts, supported, refused = (episodes.of(name) for name in ("facts", "supported", "refused"))
    number = np.maximum(facts, 1e-9)
    few = np.where(facts > enough, 1.0, np.exp(np.clip(1.0 - enough / number, -700.0, 1.0)))
    wrong = -1.0 + np.where(facts > 0, supported / number * few, 0.0)
    outcome = np.where(episodes.won, 1.0 + episodes.score, np.where(refused > 0, refusal, wrong))
    return episodes.paid(outcome)


def genrm_pairs(steps: Steps, *, largest: float = 0.6) -> Steps:
    """Return the table in which an episode earns 1 if a judge prefers it to the group's reference, else -1.

        r = preferred,  0 for the reference;   0 for all where |sum of r| / G > largest
        keep = r is not 0: neither the reference nor a group of that kind is trained on

    Args:
        steps: the table; needs `preferred`: 1, -1, or 0 for the reference, one number a trajectory.
        largest: imbalance above which a group earns nothing.

    Source: Writing-Zero (BRPO), arXiv 2506.00103, by a note and a public reimplementation. There the reward is the
    advantage: the credit rule is `raw`.
    """
    check_number("largest", largest, 0.0, 1.0)
    episodes = Outcomes("genrm_pairs", steps)
    preferred = episodes.of("preferred")
    balance = np.abs(group_sums(episodes.task, preferred, episodes.groups)[episodes.task]) / episodes.size()
    reward = np.where(balance > largest + 1e-12, 0.0, preferred)
    paid = episodes.paid(reward)
    keep = (reward != 0.0)[episodes.episodes.member]
    return replace(paid, extra={**paid.extra, "keep": keep[paid.source]})


def rlmt(steps: Steps) -> Steps:
    """Return the table in which an episode earns its judge's score, and without a valid answer the least of its group.

    Args:
        steps: the table; needs `judge`, one number a trajectory.

    Source: RLMT, arXiv 2509.20357; the reward of answers without their format is our reading.
    """
    episodes = Outcomes("rlmt", steps)
    score = episodes.of("judge")
    if "valid" not in steps:
        return episodes.paid(score)
    valid = np.asarray(episodes.at_last("valid"), dtype=np.bool_)
    low, _ = episodes.extremes(score)
    return episodes.paid(np.where(valid, score, low))


def pta(steps: Steps, *, weight: float = 0.3) -> Steps:
    """Return the table with a reward for the plan of an episode.

        r + weight * plan_score

    Args:
        steps: the table; needs `plan_score`, one number a trajectory: a judge's, or the share of won forks.
        weight: of the plan.

    Source: PTA-GRPO, arXiv 2510.01833; our reading of the abstract.
    """
    check_number("weight", weight, 0.0)
    episodes = Outcomes("pta", steps)
    return episodes.with_last(weight * episodes.of("plan_score"))


def listener(steps: Steps, *, weight: float = 0.5, win: float = WIN) -> Steps:
    """Return the table with a reward for thoughts that convince a frozen model of a right answer.

        won:  r + weight * (2 c - 1)          c = the column `confidence`

    Args:
        steps: the table; needs `confidence`, in [0, 1], one number a trajectory.
        weight: of the listener.
        win: outcome from which an episode counts as won; lost ones keep their reward.

    Source: listener-augmented GRPO, arXiv 2506.22832; our reading of the abstract.
    """
    check_number("weight", weight, 0.0)
    check_number("win", win)
    episodes = Outcomes("listener", steps, win)
    return episodes.with_last(np.where(episodes.won, weight * (2.0 * episodes.of("confidence") - 1.0), 0.0))


def e_grpo(steps: Steps, *, share: float = 0.3, win: float = WIN) -> Steps:
    """Return the table in which a lost episode earns a part for the entities of the question that its thoughts name.

        won:  1        lost:  share * g / (largest g of the group)        no valid answer:  0

    Args:
        steps: the table; needs `entities`, the share of the question's entities named so far.
        share: reward of the lost episode that names most.
        win: outcome from which an episode counts as won.

    Source: E-GRPO, arXiv 2510.24694; `share` is from memory.
    """
    check_number("share", share, 0.0, 1.0)
    check_number("win", win)
    episodes = Outcomes("e_grpo", steps, win)
    named = np.asarray(episodes.at_last("entities"), dtype=np.float64)
    _, largest = episodes.extremes(named)
    part = share * np.divide(named, largest, out=np.zeros(len(named)), where=largest > 0)
    if "valid" in steps:
        part = np.where(np.asarray(episodes.at_last("valid"), dtype=np.bool_), part, 0.0)
    return episodes.paid(np.where(episodes.won, 1.0, part))
