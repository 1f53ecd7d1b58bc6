"""Generalised advantage estimation over flat sequences of turns or tokens."""

import numpy as np

from turncredit.credit.numerics import discounted_sums
from turncredit.credit.steps import Floats, Ints


def lambda_advantages(reward: Floats, value: Floats, owner: Ints, gamma: float, lam: float) -> Floats:
    """Return generalised advantages, float64 [N].

        d_t = r_t + gamma * V_{t+1} - V_t            V = 0 after the last element
        A_t = d_t + gamma * lam * A_{t+1}

    Args:
        reward: float64 [N], owner after owner, each in order of time.
        value: float64 [N], value before each element.
        owner: int64 [N], the sequence of each element; sequences are contiguous.
        gamma: discount per element, in [0, 1].
        lam: decay of temporal differences, in [0, 1].
    """
    following = np.zeros(len(value))
    if len(value):
        following[:-1] = np.where(owner[1:] == owner[:-1], value[1:], 0.0)
    return discounted_sums(reward + gamma * following - value, owner, gamma * lam)
