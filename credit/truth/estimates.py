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

__all__ = ["TrueCredit", "estimate", "fork_return"]


@dataclass(frozen=True, eq=False)
class TrueCredit:
    """The truth about N turns, row by row.

    Args:
        value: float64 [N], the estimate of V before the turn; NaN where there were no forks.
        advantage: float64 [N], the estimate of the advantage; NaN where it cannot be estimated.
        error: float64 [N], its standard error; NaN where fewer than two forks were played on either side.
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

    with s^2 the variance (ddof 1) of the returns.

        >>> truth = estimate([0.0, 1.0], [0, 1], [1, -1], [[0.0, 1.0], [1.0, 1.0]], gamma=1.0)
        >>> truth.value.tolist(), truth.advantage.tolist(), truth.error.tolist()
        ([0.5, 1.0], [0.5, 0.0], [0.5, 0.0])

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
    mean, variance = _moments(sets)
    both = [_moments([values[half::2] for values in sets])[0] for half in (0, 1)]
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
        span=float(np.ptp(np.concatenate(sets))) if any(map(len, sets)) else 0.0,
    )


def _moments(sets: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the mean of each set, and the variance of that mean; NaN where there are too few."""
    mean = np.asarray([values.mean() if len(values) else np.nan for values in sets], dtype=np.float64)
    variance = [values.var(ddof=1) / len(values) if len(values) > 1 else np.nan for values in sets]
    return mean, np.asarray(variance, dtype=np.float64)
