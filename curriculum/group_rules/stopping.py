"""Groups that stop: when they teach nothing (DAPO), or another episode is not worth its price (V0.5, XRPO); probes."""

from __future__ import annotations

import math
from statistics import stdev

from turncredit.credit.option_checks import check_number
from turncredit.credit.student_t import student_quantile
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import asked_for, comparable


def dapo(group: OpenGroup) -> Growth:
    """Drop a group whose finished episodes all have the same reward, or of which fewer than two finished.

    A group of one episode is kept.

    At most size episodes in one round; those of the group that takes its place are counted there.

    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, dynamic sampling.
    """
    if not group.round or group.size == 1:
        return Growth()
    return Growth(drop=len(group.members) < 2 or group.even)


def probe(group: OpenGroup) -> Growth:
    """Drop a group that was drawn to see how its task is played, and not to train on: one with the option "probe".

    At most size episodes in one round; what they came to is in the task's record. `sampling.max_drops` must be as large
    as the pool, since groups beyond it are trained on.

    Source: Leng et al. 2025 (MMR1), code of LengSicong/MMR1, which plays the whole pool every few iterations.
    """
    return Growth(drop=group.round > 0 and bool(group.options.get("probe")))


def v05(group: OpenGroup, *, least: int = 4, cost: float = 0.0039, prior: float = 0.0, step: int = 1) -> Growth:
    """Play another episode while it makes the estimate of the task's value better by more than it costs.

        D2 = max(0, (m - V)^2 - 1/k)                m = mean of the k outcomes so far, each 1 or -1
        MSE(k) = D2/k / (D2 + 1/k)                  of the mixture of m and the prior V
        another one while  MSE(k) - MSE(k + 1) > cost

    V is the mean outcome of the task's earlier episodes in this run. Where it agrees with the group, nothing more is
    played.

    At most size episodes in 1 + size - least rounds: `least` in the first one, and `step` in each further one.

    Args:
        group: the group so far; its size is the most episodes.
        least: episodes of the first round, and the fewest that are judged.
        cost: of an episode, in squares of the outcome.
        prior: V of a task that was never played.
        step: episodes of a further round.

    Raises:
        BadOption: least < 3, for which the mixture is useless, cost < 0, a prior outside [-1, 1], or step < 1.

    Source: Zhang et al. 2026 (V0.5), arXiv 2603.10848, from a description. V is a value model's there. The mixture is
    the baseline of the credit rule of this name.
    """
    check_number("least", least, 3, whole=True)
    check_number("cost", cost, 0)
    check_number("prior", prior, -1, 1)
    check_number("step", step, 1, whole=True)
    episodes = group.record.get("episodes", 0.0)
    value = 2 * group.record.get("wins", 0.0) / episodes - 1 if episodes else prior
    k = len(group.members)
    worth = math.inf if k < least else _error(group, value, k) - _error(group, value, k + 1)
    return _grow(group, least, step, more=worth > cost)


def _error(group: OpenGroup, value: float, k: int) -> float:
    """Return MSE(k), with D2 from all members."""
    n = len(group.members)
    bias = max(0.0, (2 * len(group.winners) / n - 1 - value) ** 2 - 1 / n)
    return bias / k / (bias + 1 / k)


def xrpo(group: OpenGroup, *, least: int = 4, price: float = 0.05, confidence: float = 0.95, step: int = 1) -> Growth:
    """Play another episode while it narrows the interval of the task's mean reward by at least a price.

        h(n) = t[n - 1] s / sqrt(n)                 half-width of Student's interval, s = standard deviation (ddof 1)
        another one while  h(n) - h(n + 1) >= price

    Groups whose members all have the same reward are complete: s is 0.

    At most size episodes in 1 + size - least rounds: `least` in the first one, and `step` in each further one.

    Args:
        group: the group so far; its size is the most episodes.
        least: episodes of the first round, and the fewest that are judged.
        price: of an episode, in units of the reward.
        confidence: of the interval.
        step: episodes of a further round.

    Raises:
        BadOption: least < 2, price <= 0, a confidence outside (0, 1), or step < 1.

    Source: Bamba et al. 2025 (XRPO), arXiv 2510.06672, in part from a description. There, a budget of all tasks goes,
    episode by episode, to the task with the largest fall of h; a group knows no others, so here each pays the same
    price, which spends the budget alike where the price is right. Not included: the bonus of tasks with few
    episodes, which compares tasks as well, solved examples in the prompts of lost ones, and the novelty of winners in
    their advantage.
    """
    check_number("least", least, 2, whole=True)
    check_number("price", price, 0, open_low=True)
    check_number("confidence", confidence, 0.01, 0.999)
    check_number("step", step, 1, whole=True)
    n = len(group.members)
    if n < least:
        return _grow(group, least, step, more=True)
    spread = stdev(member.reward for member in group.members)
    fall = _half_width(spread, n, confidence) - _half_width(spread, n + 1, confidence)
    return _grow(group, least, step, more=comparable(fall - price) >= 0)


def _half_width(spread: float, n: int, confidence: float) -> float:
    return student_quantile(confidence, n - 1) * spread / math.sqrt(n)


def _grow(group: OpenGroup, least: int, step: int, *, more: bool) -> Growth:
    """Return the first `least` episodes or some more, never above the size of the group."""
    short = least - len(group.members)
    count = min(short if short > 0 else step, group.size - asked_for(group))
    return Growth((MoreEpisodes(count),)) if more and count > 0 else Growth()
