"""GRAFT: the gain in state value of each turn, with values iterated over the graph of all episodes of a task."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import (
    Groups,
    PenaltyIn,
    Scale,
    Unit,
    compact,
    discounted_returns,
    exact_sums,
    groups_of,
    standardise,
    trajectory_scores,
    unit_weights,
)
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need
from turncredit.credit.transitions import next_turns, previous_turns

SETTLED = 1e-13
"""A task's values have converged when a sweep changes none by more than this share of the range of its outcomes."""


def graft(
    steps: Steps,
    *,
    gamma: float = 0.95,
    gae_lambda: float = 0.0,
    scale: Scale = "std",
    sweeps: int = 2000,
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Advantages:
    """Return each turn's gain in state value, normalised over the turns of its task.

        V(s)    = gamma * mean of V(s') over the turns of the task in state s        V(end of i) = sum over t of r[i, t]
        D[i, t] = gamma * V(s[i, t + 1]) - V(s[i, t])
        G[i, t] = sum over k of (gamma * gae_lambda)^k * D[i, t + k]
        A[i, t] = (G - mean) / (std + eps)                                           over the turns of the task

    The mean over turns weights actions and next states by how often they occurred. V is iterated over all states at
    once until it converges.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "pit"])
        >>> graft(steps, gamma=1.0, scale="none").parts["gain"].tolist()
        [0.5, 0.0, -0.5, 0.0]

    Args:
        steps: the table; needs `state`. A turn leads to the state of the trajectory's next turn, the last turn to an
            end whose value is the episode's outcome.
        gamma: discount per turn, in [0, 1].
        gae_lambda: 0 uses each turn's own gain; larger values add later gains of the episode, 1 all of them.
        sweeps: maximum number of iterations; cycles without discount converge slowly. The report has the largest change
            of the last one.
        scale, unit, ddof, eps, invalid_penalty, penalty_in: see `GroupOptions`. penalty_in="reward" lowers the outcome,
            "return" the turn's own gain.

    Returns:
        Advantages with the parts "value" (V of the turn's state), "gain" (G) and "step" (and "penalty" under
        penalty_in="advantage").

    Source: the method's name and its two formulas, after a secondary description; no code was available. Our reading:
    outcomes are undiscounted sums, and the normalisation counts trajectories.
    """
    options = GroupOptions(scale, unit, "zero", ddof, eps, invalid_penalty, penalty_in)
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("gae_lambda", gae_lambda, 0.0, 1.0)
    check_number("sweeps", sweeps, 1, whole=True)
    need(steps, "graft", "state")

    def estimate(table: Steps) -> Advantages:
        paid, late = options.penalised_reward(table), options.return_penalty(table)
        here, there, left = state_values(table, gamma, sweeps, reward=paid)
        largest = np.maximum(np.abs(here), np.abs(there))
        gain = discounted_returns(table, gamma * gae_lambda, reward=gamma * there - here) - late
        terms = discounted_returns(table, gamma * gae_lambda, reward=largest) + late
        task = compact(table.task)
        groups = Groups(gain, task, unit_weights(task, table.trajectory, unit), size_of_terms=terms)
        step = standardise(groups, scale=scale, ddof=ddof, eps=eps)
        report = {"tasks": float(groups_of(task)), "last_change": left}
        return combined(table, options, {"value": here, "gain": gain, "step": step}, report, values=step)

    return without_copies(steps, estimate)


def state_values(steps: Steps, gamma: float, sweeps: int, *, reward: Floats) -> tuple[Floats, Floats, float]:
    """Return the values of the states before and after each turn, and the last change.

    Args:
        steps: a table without copies; needs `state`.
        gamma, sweeps: see `graft`.
        reward: float64 [N], whose sums are the outcomes.

    Returns:
        float64 [N] twice, in units of reward, and the largest change of the last sweep as a share of the range.
    """
    after = next_turns(previous_turns(steps))
    scores, _, member = trajectory_scores(steps, reward=reward)
    task = compact(steps.task)
    low, high = np.zeros(groups_of(task)), np.zeros(groups_of(task))
    np.minimum.at(low, task, scores[member])
    np.maximum.at(high, task, scores[member])
    span = np.where(high > low, high - low, 1.0)
    tail = compact(task, steps.column("state"))
    nodes = groups_of(tail)
    head = np.where(after >= 0, tail[after], nodes + member)
    home = np.zeros(nodes, dtype=np.int64)
    home[tail] = task
    # Values as shares of the task's range, so that their sums can be exact; zero is the share -low / span.
    share = np.zeros(nodes + len(scores))
    share[nodes + member] = ((scores[member] - low[task]) / span[task]).clip(0.0, 1.0)
    share[:nodes] = zero = (-low / span)[home]
    left = _sweep(share, tail, head, home, (1.0 - gamma) * zero, gamma, sweeps)
    return low[task] + span[task] * share[tail], low[task] + span[task] * share[head], left


def _sweep(share: Floats, tail: Ints, head: Ints, home: Ints, constant: Floats, gamma: float, sweeps: int) -> float:
    """Bring `share` to its fixed point, in place: share[s] = gamma * mean of share[s'] + constant[s].

    A task whose values have converged is not updated again, so that its result does not depend on other tasks.
    """
    nodes = len(home)
    pair, many = np.unique(tail * len(share) + head, return_counts=True)
    tail, head, many = pair // len(share), pair % len(share), many.astype(np.float64)
    leaving = np.bincount(tail, weights=many, minlength=nodes)
    active = np.ones(nodes, dtype=np.bool_)
    moved = np.zeros(nodes)
    for _ in range(sweeps):
        new = gamma * exact_sums(tail, many * share[head], nodes) / leaving + constant
        np.abs(new - share[:nodes], out=moved, where=active)
        share[:nodes][active] = new[active]
        worst = np.zeros(int(home.max()) + 1)
        np.maximum.at(worst, home, moved)
        still: Bools = worst[home] > SETTLED
        if not still.any():
            break
        if (active & ~still).any():
            active &= still
            edge = active[tail]
            tail, head, many = tail[edge], head[edge], many[edge]
            moved[~active] = 0.0
    return float(moved.max())
