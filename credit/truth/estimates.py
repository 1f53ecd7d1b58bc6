"""True values and advantages of turns, estimated from the returns of forks.

    V(h_t)      = E[ sum over k >= t of gamma^(k-t) r_k | h_t, policy ]
    A*(t)       = Q(h_t, a_t) - V(h_t)

In an environment that is deterministic, the forks at turn t + 1 give Q of turn t; elsewhere forks that repeat the
action of turn t do. The episode's own continuation is in no estimate: a rule computes its credit from that outcome, so
truth and rule must not share it.

Not included: playing. Returns of forks can come from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turncredit.credit.columns import Bools, Floats, Ints
from turncredit.credit.errors import BadTable

__all__ = ["TrueCredit", "estimate", "fork_return", "smoothed_variance"]


@dataclass(frozen=True, eq=False)
class TrueCredit:
    """The truth about N turns, row by row.

    Args:
        value: float64 [N], the estimate of V before the turn; NaN where there were no forks.
        advantage: float64 [N], the estimate of the advantage; NaN where it cannot be estimated.
        error: float64 [N], its standard error; NaN where fewer than two forks were played on either side, and where all
            forks of all turns returned the same, which does not say how far apart returns can be.
        halves: float64 [2, N], the advantage from the forks with even and with odd numbers alone.
        forks: int64 [N], the number of forks at the turn.
        span: the range of the returns of all forks.
    """

    value: Floats
    advantage: Floats
    error: Floats
    halves: Floats
    forks: Ints
    span: float = 0.0

    def __len__(self) -> int:
        """Return the number of turns."""
        return len(self.value)

    @property
    def known(self) -> Bools:
        """Bool [N], whether the turn has an advantage with its error."""
        return np.isfinite(self.advantage) & np.isfinite(self.error)

    @property
    def significant(self) -> Bools:
        """Bool [N], whether the advantage is more than two standard errors away from zero."""
        return self.known & (np.abs(self.advantage) > 2.0 * self.error + TINY)


TINY = 1e-9
"""Advantages below this are rounding."""


def fork_return(rewards: Sequence[float], gamma: float) -> float:
    """Return the discounted sum of the rewards of a fork, from the turn at which it began.

    >>> fork_return([0.0, 0.0, 1.0], 0.5)
    0.25
    """
    total = 0.0
    for reward in reversed(rewards):
        total = reward + gamma * total
    return total


def estimate(
    reward: Sequence[float] | Floats,
    value_of: Sequence[int],
    next_of: Sequence[int],
    returns: Sequence[Sequence[float]],
    *,
    gamma: float,
    repeats: bool = False,
) -> TrueCredit:
    """Return the truth about N turns.

        V_t = mean of the returns of the forks at t
        A_t = r_t + gamma V_{t+1} - V_t           or, with repeats, A_t = Q_t - V_t
        se_t^2 = gamma^2 s_{t+1}^2 / K_{t+1} + s_t^2 / K_t

    with s^2 the variance of the returns by `smoothed_variance`, whose range is that of all forks together.

        >>> truth = estimate([0.0, 1.0], [0, 1], [1, -1], [[0.0, 1.0], [1.0, 1.0]], gamma=1.0)
        >>> truth.value.tolist(), truth.advantage.tolist(), truth.error.round(3).tolist()
        ([0.5, 1.0], [0.5, 0.0], [0.559, 0.312])

    Args:
        reward: float [N], the reward of each turn.
        value_of: int [N], index in `returns` of the forks at the turn.
        next_of: int [N], index of the forks at the next turn, -1 at the end of an episode, where the value is 0; or,
            with `repeats`, of the forks that repeat the turn's action, which every turn has.
        returns: the returns of each set of forks, in the order of the forks' numbers.
        gamma: discount per turn, in [0, 1].
        repeats: whether the forks of `next_of` repeat the turn, so that their returns include its reward.

    Raises:
        BadTable: the columns differ in length, or an index is out of range.
    """
    rewards = np.asarray(reward, dtype=np.float64)
    here, after = (np.asarray(column, dtype=np.int64) for column in (value_of, next_of))
    if not len(rewards) == len(here) == len(after):
        raise BadTable(f"{len(rewards)} rewards, {len(here)} and {len(after)} indices; they must be as many")
    if len(here) and (here.min() < 0 or max(here.max(), after.max()) >= len(returns) or after.min() < -1):
        raise BadTable(f"indices must be in 0 to {len(returns) - 1}, or -1 for the end of an episode")
    sets = [np.asarray(values, dtype=np.float64) for values in returns]
    every = np.concatenate(sets) if sets else np.zeros(0)
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 0.0)
    mean = _means(sets)
    both = [_means([values[half::2] for values in sets]) for half in (0, 1)]
    variance = np.asarray([_variance_of_mean(values, low, high) for values in sets], dtype=np.float64)
    factor, gain = (1.0, 0.0) if repeats else (gamma, 1.0)

    def advantage(means: Floats) -> Floats:
        ends = np.append(means, 0.0)  # index -1: the end
        result: Floats = gain * rewards + factor * ends[after] - means[here]
        return result

    spread = np.append(variance, 0.0)
    return TrueCredit(
        value=mean[here],
        advantage=advantage(mean),
        error=np.sqrt(factor**2 * spread[after] + variance[here]),
        halves=np.stack([advantage(means) for means in both]),
        forks=np.asarray([len(values) for values in sets], dtype=np.int64)[here],
        span=high - low,
    )


def smoothed_variance(returns: Sequence[float] | Floats, low: float, high: float) -> float:
    """Return the variance of the returns of K forks, which is above zero even where they all agree.

        m   = (sum of G_k + low / 2 + high / 2) / (K + 1)
        s^2 = (sum of (G_k - m)^2 + (low - m)^2 / 2 + (high - m)^2 / 2) / K

    Half a fork at each end of the range, in the variance alone: the usual variance of unanimous forks is zero, as if
    one more fork could not differ.

        >>> smoothed_variance([1.0, 1.0, 1.0, 1.0], 0.0, 1.0)
        0.1125

    Args:
        returns: float [K], at least one.
        low: lowest return that is possible, or that was seen anywhere.
        high: the highest one.

    Source: our own, after the prior of half a success and half a failure for a rate (H. Jeffreys, 1946).
    """
    values = np.asarray(returns, dtype=np.float64)
    count = len(values)
    middle = (float(values.sum()) + 0.5 * low + 0.5 * high) / (count + 1)
    squares = float(((values - middle) ** 2).sum()) + 0.5 * (low - middle) ** 2 + 0.5 * (high - middle) ** 2
    return squares / count


def _means(sets: Sequence[Floats]) -> Floats:
    """Return the mean of each set; NaN where it is empty."""
    return np.asarray([values.mean() if len(values) else np.nan for values in sets], dtype=np.float64)


def _variance_of_mean(returns: Floats, low: float, high: float) -> float:
    """Return the variance of the mean of some returns; NaN where it is unknown."""
    if len(returns) < 2 or high - low <= TINY:
        return np.nan
    return smoothed_variance(returns, low, high) / len(returns)
