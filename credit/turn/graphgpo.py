"""GraphGPO: progress toward the goal in the graph of all states that the episodes of a task visited."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import (
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    compact,
    groups_of,
    penalties,
    trajectory_scores,
    unit_weights,
)
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.outcome.grpo import episode_term
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need
from turncredit.credit.transitions import next_states, next_turns, previous_turns
from turncredit.credit.turn.gigpo import anchors, step_term


def graphgpo(
    steps: Steps,
    *,
    gamma: float = 0.1,
    goal: float = 10.0,
    w: float = 1.0,
    episode_w: float = 1.0,
    progress: bool = False,
    solved_above: float = 0.0,
    unreachable: float | None = None,
    scale: Scale = "std",
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Advantages:
    """Return the episode's normalised score plus the turn's progress, normalised among turns from the same state.

        d(s)    = fewest steps from s to the goal, over all transitions of the task's episodes
        R[i, t] = goal * gamma^d(s')                     s' the state that followed      (progress=False)
        R[i, t] = goal * gamma^(d(s') - d(s) + 1)                                        (progress=True)
        A[i, t] = episode_w * norm(E over trajectories of the task) + w * norm(R over turns that share the state)
        norm(x) = (x - mean) / (std + eps)

    The goal is where the last turn of each solved episode led. Turns of a failed episode that follow the path of a
    solved one get credit, and detours of a solved episode do not.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "pit"])
        >>> graphgpo(steps, scale="none").parts["step"].tolist()
        [0.495, 0.0, -0.495, 0.0]

    Args:
        steps: the table; needs `state`. Without `next_state` a turn leads to the state of the next turn, and the last
            turn of an unsolved episode nowhere.
        gamma: discount per step of distance, in [0, 1]; usually small, unlike a discount of rewards.
        goal: R of a turn that reaches the goal, in units of reward.
        w, episode_w: factors of the two terms.
        progress: use the reduction of the distance instead of the distance. Among turns from one state only the scale
            differs.
        solved_above: an episode with a higher score (without penalties) is solved.
        unreachable: distance of a state from which no transition leads to the goal; None takes the largest
            finite distance of the task plus one. A task without a solved episode gives no step-level signal.
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in: as in `gigpo`. Under penalty_in="reward" and
            "return" the penalty is also subtracted from the turn's R.

    Returns:
        Advantages with the parts "episode" and "step" (and "penalty" under penalty_in="advantage"), before their
        factors.

    Source: Cheng et al. 2026, arXiv 2605.26684, and its published code, from which we differ where it counts rows
    instead of trajectories and gives a group of one its raw reward; `unit="turn", singleton="raw",
    penalty_in="return"` follow it.
    """
    options = GroupOptions(scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in)
    check_number("gamma", gamma, 0.0, 1.0)
    for name, number in (("goal", goal), ("w", w), ("episode_w", episode_w)):
        check_number(name, number, 0.0)
    check_number("solved_above", solved_above)
    if unreachable is not None:
        check_number("unreachable", unreachable, 1.0)
    check_flag("progress", progress)
    need(steps, "graphgpo", "state")

    def estimate(table: Steps) -> Advantages:
        episode, report = episode_term(table, options)
        here, there = goal_distances(table, solved_above, unreachable)
        hops = np.maximum(there - here + 1.0, 0.0) if progress else there
        late = 0.0 if penalty_in == "advantage" else penalties(table, invalid_penalty)
        anchor = anchors(table)
        weight = unit_weights(anchor, table.trajectory, unit)
        groups = Groups(goal * gamma**hops - late, anchor, weight, size_of_terms=np.full(len(table), goal) + late)
        step, counts = step_term(groups, options)
        values = episode_w * episode + w * step
        return combined(table, options, {"episode": episode, "step": step}, {**report, **counts}, values=values)

    return without_copies(steps, estimate)


def goal_distances(steps: Steps, solved_above: float = 0.0, unreachable: float | None = None) -> tuple[Floats, Floats]:
    """Return the distances to the goal before and after each turn, float64 [N] each, in steps.

    Args:
        steps: a table without copies; needs `state`.
        solved_above, unreachable: see `graphgpo`.
    """
    after = next_turns(previous_turns(steps))
    scores, _, member = trajectory_scores(steps)
    reached = (after < 0) & (scores[member] > solved_above)
    led = next_states(steps, after)
    node = compact(np.tile(steps.task, 2), np.append(steps.column("state"), led) + 1)
    tail, head = node[: len(steps)], node[len(steps) :]
    known = (led >= 0) & ~reached
    hops = _hops(tail, head, reached, known)
    task = compact(steps.task)
    if unreachable is None:
        farthest = np.zeros(groups_of(task))
        np.maximum.at(farthest, task, hops[tail])
        beyond = farthest[task] + 1.0
    else:
        beyond = np.full(len(steps), float(unreachable))
    here = np.where(hops[tail] > 0, hops[tail], beyond)
    there = np.where(known & (hops[head] > 0), hops[head], beyond)
    return here, np.where(reached, 0.0, there)


def _hops(tail: Ints, head: Ints, reached: Bools, known: Bools) -> Ints:
    """Fewest transitions from each node to the goal, int64 [nodes]; zero where there is no path.

    Breadth-first search backwards from the goals of all tasks at once.
    """
    count = max(groups_of(tail), groups_of(head))
    edges = np.flatnonzero(known)
    edges = edges[np.argsort(head[edges], kind="stable")]
    first = np.searchsorted(head[edges], np.arange(count + 1))
    hops = np.zeros(count, dtype=np.int64)
    front, level = np.unique(tail[reached]), 1
    while len(front):
        hops[front] = level
        many = first[front + 1] - first[front]
        into = np.repeat(first[front] - np.append(0, np.cumsum(many)[:-1]), many) + np.arange(int(many.sum()))
        found = tail[edges[into]]
        front, level = np.unique(found[hops[found] == 0]), level + 1
    return hops
