"""RTMC: the mean return of the action in the state minus the mean return of the state."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, PenaltyIn, Unit, compact, discounted_returns, groups_of, unit_weights
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.steps import Floats, Ints, Steps, need

Visits = Literal["every", "first"]
RtmcScale = Literal["none", "std"]


def rtmc(
    steps: Steps,
    *,
    gamma: float = 0.95,
    visits: Visits = "every",
    prior: float = 0.0,
    scale: RtmcScale = "none",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
) -> Advantages:
    """Return the mean return of the turn's action in its state minus the mean return of the state.

        R[i, t] = sum over k of gamma^k * r[i, t + k]
        Q(s, a) = mean of R over the turns of the task in state s with action a
        V(s)    = mean of R over the turns of the task in state s
        U(s)    = (n(s) * V(s) + prior * mean of E) / (n(s) + prior)         E[i] = sum over t of r[i, t]
        A[i, t] = Q(s[i, t], a[i, t]) - U(s[i, t])                           over std of A + eps, if scaled

    Turns with the same action in the same state get the same advantage, even if their episodes end differently. n(s) is
    the number of trajectories in the state, or of turns under unit="turn", and the mean of E is over the trajectories
    of the task. The std is over the turns of the task; nothing is subtracted, so that signs stay.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "c"], turn=[0, 0, 0],
        ...                            reward=[1.0, 0, 0], state=["hall"] * 3, action=["go", "go", "stay"])
        >>> rtmc(steps).values.round(6).tolist()
        [0.166667, 0.166667, -0.333333]

    Args:
        steps: the table; needs `state` and `action`.
        gamma: discount per turn, in [0, 1].
        visits: "first" takes the return of an action in a state from the first time that a trajectory chose it there;
            "every" from each time.
        prior: number of imaginary visits of each state with the task's mean outcome, for states that few visited.
        scale: "std" divides by the standard deviation, "none" does not.
        ddof, eps, unit, invalid_penalty, penalty_in: see `GroupOptions`.

    Returns:
        Advantages with the parts "action" (Q) and "state" (U), whose difference they are before the division (and
        "penalty" under penalty_in="advantage"); the report has the share of turns in whose state other actions were
        tried.

    Source: Wang et al. 2026, arXiv 2604.11037, of which we read the abstract, two descriptions of the equations, and
    a port for coding agents. Theirs is visits="first", prior=2, unit="turn", gamma=0.99, and scale="std" with ddof=0 as
    an option. Our reading: trajectories as units and every visit by default. The paper's states are
    signatures of what an agent has read, changed and tested so far; here they are the keys of the environment.
    """
    check_choice("scale", scale, RtmcScale)
    options = GroupOptions(scale, unit, "zero", ddof, eps, invalid_penalty, penalty_in)
    check_number("gamma", gamma, 0.0, 1.0)
    check_choice("visits", visits, Visits)
    check_number("prior", prior, 0.0)
    need(steps, "rtmc", "state", "action")

    def estimate(table: Steps) -> Advantages:
        state = compact(table.task, table.column("state"))
        action = compact(state, table.column("action"))
        paid, late = options.penalised_reward(table), options.return_penalty(table)
        returns = discounted_returns(table, gamma, reward=paid) - late
        terms = discounted_returns(table, gamma, reward=np.abs(paid)) + late
        source = _first_visits(table, action) if visits == "first" else np.arange(len(table))
        counted = np.flatnonzero(source == np.arange(len(table)))
        weight = unit_weights(state[counted], table.trajectory[counted], unit)  # one for both: V is the mean of Q
        by_action, by_state = (
            Groups(returns[counted], key[counted], weight, size_of_terms=terms[counted]) for key in (action, state)
        )
        row = np.searchsorted(counted, source)
        q, v = by_action.row_centres()[row], by_state.row_centres()[row]
        if prior:
            episodes = Episodes.of(table, reward=paid)
            visitors = by_state.size[state]
            outcome = episodes.groups.mean()[episodes.task[episodes.member]]
            v = (visitors * v + prior * outcome) / (visitors + prior)
        choice = np.bincount(state)[state] > np.bincount(action)[action]  # another action was tried in the state
        report = {"states": float(groups_of(state)), "choices": float(choice.mean())}
        values = q - v if scale == "none" else _scaled(table, q - v, options)
        return combined(table, options, {"action": q, "state": v}, report, values=values)

    return without_copies(steps, estimate)


def _first_visits(steps: Steps, action: Ints) -> Ints:
    """Return the row at which each row's trajectory chose the action in its state for the first time, int64 [N]."""
    order = steps.time_order
    cell = compact(action, steps.trajectory)
    _, first = np.unique(cell[order], return_index=True)
    return order[first][cell]


def _scaled(steps: Steps, value: Floats, options: GroupOptions) -> Floats:
    """Return the values divided by their deviation in the task, float64 [N]; zero where there is none."""
    task = compact(steps.task)
    groups = Groups(value, task, unit_weights(task, steps.trajectory, options.unit))
    spread = groups.deviation(options.ddof)[task]
    return np.divide(value, spread + options.eps, out=np.zeros(len(value)), where=spread > 0.0)
