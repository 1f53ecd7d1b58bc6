"""SeeUPO: one outcome advantage for all turns of an episode, for updates from the last turn to the first."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Singleton, Unit, discounted_returns, positions, unit_weights
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Ints, Steps


def seeupo(
    steps: Steps,
    *,
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the outcome minus the mean of its task, normalised over the batch, for all turns of an episode.

        E[i] = sum over t of r[i, t]                D[i] = E[i] - mean over the task
        A[i, t] = (D[i] - mean) / (std + eps)       over the batch

    The spread is that of the batch, so an advantage depends on the whole table.

        >>> steps = Steps.from_columns(task=["t", "t"], trajectory=[0, 1], turn=[0, 0], reward=[1.0, 0.0])
        >>> seeupo(steps, ddof=0, eps=0.0).values.tolist()
        [1.0, -1.0]

    Args:
        steps: the table.
        unit, singleton, ddof, eps, invalid_penalty: see `GroupOptions`; `unit`, `ddof` and `eps` for the batch,
            `singleton` for D.

    Returns:
        Advantages with the part "outcome" (D).

    Source: Hu et al. 2026, arXiv 2602.06554. Our reading of a secondary description; no code was available.
    """
    task = GroupOptions("none", "trajectory", singleton, invalid_penalty=invalid_penalty)
    batch = GroupOptions("std", unit, "zero", ddof, eps)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=task.penalised_reward(table))
        outcome, terms = (x[episodes.member] for x in (task.normalise(episodes.groups), episodes.size_of_terms))
        every = np.zeros(len(table), dtype=np.int64)
        weight = unit_weights(every, table.trajectory, unit)
        values = batch.normalise(Groups(outcome, every, weight, size_of_terms=terms))
        return Advantages.of(table, values, {"outcome": outcome}, episodes.counts)

    return without_copies(steps, estimate)


def update_passes(steps: Steps) -> list[Ints]:
    """Return the rows of each update pass in order: the last turns T - 1, then T - 2, ..., down to the first turns.

    >>> steps = Steps.from_columns(task=[0] * 3, trajectory=[0, 0, 1], turn=[0, 1, 0], reward=[0.0] * 3)
    >>> [rows.tolist() for rows in update_passes(steps)]
    [[1], [0, 2]]
    """
    number = positions(steps)
    order = np.argsort(-number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []


def later_ratios(steps: Steps, log_ratio: Floats) -> Floats:
    """Return the product of the probability ratios of each row's later turns in its trajectory, float64 [N].

        C[i, t] = product over k > t of exp(l[i, k])

        >>> steps = Steps.from_columns(task=[0] * 3, trajectory=[0] * 3, turn=[0, 1, 2], reward=[0.0] * 3)
        >>> later_ratios(steps, np.log([8.0, 2.0, 0.5])).round(9).tolist()
        [1.0, 0.5, 1.0]

    Args:
        steps: the table.
        log_ratio: float64 [N], log-probability of each turn under the new policy less that under the old, nats; zero
            where the turn has not been updated yet.
    """
    return np.exp(discounted_returns(steps, 1.0, reward=log_ratio) - log_ratio)
