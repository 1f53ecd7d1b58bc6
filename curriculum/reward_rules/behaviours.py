"""Rewards of what an agent does on its way: calls, formats, tools, repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import compact, group_sums, groups_of
from turncredit.credit.option_checks import check_number
from turncredit.credit.steps import Bools, Floats, Steps, need
from turncredit.curriculum.reward_rules.outcomes import WIN, Outcomes


def prs(steps: Steps, *, parsed: float = 0.1, called: float = 0.2, answer: float = 0.7) -> Steps:
    """Return the table in which an episode is paid stage by stage, each only if those before it were passed.

        parsed                              all answers could be read
        + called                            and all actions were admissible
        + answer * outcome                  and then the outcome counts

    Args:
        steps: the table; needs `action` (None where an answer could not be read) and `valid`.
        parsed: reward of the first stage.
        called: reward of the second stage.
        answer: factor of the outcome in the third.

    Source: VSPO's progressive reward shaping, arXiv 2512.07478; our reading of the abstract and a note.
    """
    for name, value in (("parsed", parsed), ("called", called), ("answer", answer)):
        check_number(name, value, 0.0)
    need(steps, "prs", "action", "valid")
    episodes = Outcomes("prs", steps)
    read = _everywhere(episodes.episodes, np.array([action is not None for action in steps.ids("action")], dtype=bool))
    fine = read & _everywhere(episodes.episodes, ~steps.invalid)
    return episodes.paid(np.where(read, parsed, 0.0) + np.where(fine, called + answer * episodes.outcome, 0.0))


def otc(steps: Steps, *, smoothing: float = 4.0, weight: float = 1.0, win: float = WIN) -> Steps:
    """Return the table in which a win is worth more the fewer turns it took.

        r = weight * outcome * cos(turns * pi / (2 turns + smoothing))          lost: 0

    Args:
        steps: the table.
        smoothing: about the number of turns whose reward is halved.
        weight: factor of the reward.
        win: outcome from which an episode counts as won.

    Source: OTC, arXiv 2504.14870, the form for PPO from a third party's code and memory. Turns stand for calls of
    tools, and the last turn is none.
    """
    check_number("smoothing", smoothing, 0.0, open_low=True)
    check_number("weight", weight, 0.0)
    check_number("win", win)
    episodes = Outcomes("otc", steps, win)
    calls = episodes.episodes.turns - 1.0
    factor = np.cos(calls * np.pi / (2.0 * calls + smoothing))
    return episodes.paid(np.where(episodes.won, weight * episodes.outcome * factor, 0.0))


def gcpo(
    steps: Steps,
    *,
    bonus: float = 0.5,
    threshold: float = 0.1,
    weight: float = 0.0,
    length: float = 1000.0,
    win: float = WIN,
) -> Steps:
    """Return the table in which the users of an optional tool are paid where it helps and charged where it hurts.

        D = wins with the tool / its users - wins without / the others
        users:  r + bonus * sign(D)  if |D| > threshold;      all:  + weight * min(L / length, 1)

    A group in which all or none used the tool gets no bonus.

    Args:
        steps: the table; needs `used`, one flag a trajectory; `tokens` for the reward of length.
        bonus: size of the bonus.
        threshold: difference of success from which it is paid.
        weight: of the reward of length.
        length: tokens from which it is whole.
        win: outcome from which an episode counts as won.

    Source: GeometryZero (GCPO), arXiv 2506.07160; our reading of the abstract.
    """
    check_number("bonus", bonus, 0.0)
    check_number("threshold", threshold, 0.0, 1.0)
    check_number("weight", weight, 0.0)
    check_number("length", length, 0.0, open_low=True)
    check_number("win", win)
    episodes = Outcomes("gcpo", steps, win)
    users = episodes.of("used") > 0
    shares = [_share(episodes, side) for side in (users, ~users)]
    gain = np.where(np.isfinite(shares[0] + shares[1]), shares[0] - shares[1], 0.0)
    change = np.where(users & (np.abs(gain) > threshold), bonus * np.sign(gain), 0.0)
    if weight:
        change = change + weight * np.minimum(episodes.length("tokens") / length, 1.0)
    return episodes.with_last(change)


def _share(episodes: Outcomes, side: Bools) -> Floats:
    """Share of won episodes of one side in the group of each episode, float64 [J]; NaN where the side is empty."""
    wins = group_sums(episodes.task, (side & episodes.won).astype(np.float64), episodes.groups)
    size = group_sums(episodes.task, side.astype(np.float64), episodes.groups)
    share = np.where(size > 0, wins / np.maximum(size, 1.0), np.nan)
    return np.asarray(share[episodes.task], dtype=np.float64)


def ada_grpo(steps: Steps, *, iteration: int, total: int) -> Steps:
    """Return the table in which rare formats of a group count more, less so toward the end of the run.

        r * (1 + (G / F - 1) (1 + cos(pi iteration / total)) / 2)        F = episodes of the group in this format

    Args:
        steps: the table; needs `format`, one value a trajectory.
        iteration: number of finished iterations.
        total: iterations of the run.

    Source: ARM (Ada-GRPO), arXiv 2505.20258, as its code has it. At first a frequent right format is punished by the
    baseline of the group.
    """
    need(steps, "ada_grpo", "format")
    episodes = Outcomes("ada_grpo", steps)
    names = [repr(value) for value in episodes.at_last("format")]
    codes = {name: code for code, name in enumerate(sorted(set(names)))}
    kind = compact(episodes.task, np.array([codes[name] for name in names], dtype=np.int64))
    same = group_sums(kind, np.ones(len(kind)), groups_of(kind))[kind]
    factor = rarity(episodes.size().astype(np.float64), same, iteration / max(1, total))
    return episodes.paid(episodes.score * factor)


def rarity(size: Floats, same: Floats, progress: float) -> Floats:
    """Return the factor of an episode in whose group `same` of `size` episodes have its format, float64 [J].

    >>> [rarity(np.array([4.0, 4.0]), np.array([3.0, 1.0]), progress).round(3).tolist() for progress in (0.0, 1.0)]
    [[1.333, 4.0], [1.0, 1.0]]
    """
    return np.asarray(1.0 + 0.5 * (size / np.maximum(same, 1) - 1.0) * (1.0 + np.cos(np.pi * progress)))


def repetition(steps: Steps, *, constant: float = 0.0) -> Steps:
    """Return the table with a penalty for answers that fill their limit with a repeated tail.

        r - f          f = the column `repeated`: the share of the tokens from the first repeated cycle on
        r - constant   where f > 0, if a constant is set

    Args:
        steps: the table; needs `repeated` in [0, 1], one number a turn (`repeated_share`).
        constant: penalty instead of f.

    Source: MiroMind-M1 (CAMPO), arXiv 2507.14683, as its code has it.
    """
    check_number("constant", constant, 0.0)
    need(steps, "repetition", "repeated")
    share = np.asarray(steps.column("repeated"), dtype=np.float64)
    change = np.where(share > 0, constant, 0.0) if constant else share
    episodes = Outcomes("repetition", steps)
    order = steps.time_order
    return episodes.with_last(-group_sums(episodes.episodes.member[order], change[order], len(episodes.score)))


def repeated_share(tokens: Sequence[int]) -> float:
    """Return the share of an answer's tokens from the first of its exactly repeated last cycles on; 0 without one.

    Of all cycles that the answer ends with at least twice, the longest counts.

    >>> repeated_share([7, 1, 2, 1, 2]), repeated_share([1, 2, 3])
    (0.8, 0.0)
    """
    count = len(tokens)
    for cycle in range(count // 2, 0, -1):
        times = 1
        tail = tokens[count - cycle :]
        while (times + 1) * cycle <= count and tokens[count - (times + 1) * cycle : count - times * cycle] == tail:
            times += 1
        if times > 1:
            return times * cycle / count
    return 0.0


def reflection(steps: Steps, *, weight: float = 0.25, win: float = WIN) -> Steps:
    """Return the table with a reward for reflections that turn a wrong answer right, and a charge for the opposite.

        r + weight  if the first answer was wrong and the outcome is a win;      r - weight  the other way round

    Args:
        steps: the table; needs `first_right`, one flag a trajectory.
        weight: of the change.
        win: outcome from which an episode counts as won.

    Source: SRPO, arXiv 2506.01713; our reading of the abstract.
    """
    check_number("weight", weight, 0.0)
    check_number("win", win)
    episodes = Outcomes("reflection", steps, win)
    change = episodes.won.astype(np.float64) - (episodes.of("first_right") > 0)
    return episodes.with_last(weight * change)


def parallel(
    steps: Steps,
    *,
    iteration: int,
    window: int = 10,
    share: float = 0.2,
    bonus: float = 0.2,
    win: float = WIN,
) -> Steps:
    """Return the table in which a part of the iterations pays for thinking in parallel blocks.

        the last `share` of every `window` iterations:  won with a block 1 + bonus, won without 1, lost -1
        the others:                                     r as it was

    Args:
        steps: the table; needs `parallel`, one flag a trajectory: whether a parallel block was used.
        iteration: number of finished iterations.
        window: iterations of a cycle.
        share: of a cycle in which blocks are paid; 1: always.
        bonus: reward of a block.
        win: outcome from which an episode counts as won.

    Source: Parallel-R1, arXiv 2509.07980, by a detailed note.
    """
    check_number("window", window, 1, whole=True)
    check_number("share", share, 0.0, 1.0)
    check_number("bonus", bonus, 0.0)
    check_number("win", win)
    need(steps, "parallel", "parallel")
    if iteration % window < round(window * (1.0 - share)):
        return steps
    episodes = Outcomes("parallel", steps, win)
    used = episodes.of("parallel") > 0
    return episodes.paid(np.where(episodes.won, 1.0 + bonus * used, -1.0))


def _everywhere(episodes: Episodes, flag: Bools) -> Bools:
    """Whether a flag holds in every turn of an episode, bool [J]."""
    result = np.ones(len(episodes), dtype=np.bool_)
    np.logical_and.at(result, episodes.member, flag)
    return result
