"""HCAPO: the outcome plus the return of each turn, weighted by how much the turn explains the end of its episode."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import (
    Groups,
    Scale,
    Unit,
    compact,
    discounted_returns,
    standardise,
    unit_weights,
)
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.outcome.answers import THRESHOLD, solved
from turncredit.credit.outcome.grpo import episode_term
from turncredit.credit.steps import Floats, Steps, need
from turncredit.credit.transitions import next_turns, previous_turns


def hcapo(
    steps: Steps,
    *,
    gamma: float = 0.95,
    w: float = 1.0,
    temperature: float = 5.0,
    clip: float = 0.2,
    smoothing: float = 0.0,
    protect: bool = True,
    threshold: float = THRESHOLD,
    scale: Scale = "std",
    unit: Unit = "trajectory",
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's score normalised within its task plus the turn's hindsight value, normalised likewise.

        P[i, t]   = exp(hindsight[i, t] / temperature)
        rho[i, t] = P[i, t] / mean of P over the turns of i, within 1 - clip and 1 + clip
        Q[i, t]   = rho[i, t] * R[i, t]                   R[i, t] = sum over k of gamma^k * r[i, t + k]
        S[i, t]   = (1 - smoothing) * Q[i, t] + smoothing * Q[i, t + 1]          S = Q at the last turn
        A[i, t]   = norm(E over trajectories of the task) + w * norm(S over turns of the task)
        norm(x)   = (x - mean) / (std + eps)

    `hindsight` is the mean log-probability of the turn's tokens under the policy when its prompt also tells how the
    episode ended: turns that seem likely in this light count for more than others of the episode. With `protect`, a
    turn of a successful episode loses nothing by the second term.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "a", "b"], turn=[0, 1, 0], reward=[0, 1.0, 0],
        ...                            hindsight=[-1.0, 0.0, 0.0])
        >>> hcapo(steps, gamma=1.0, scale="none").parts["step"].round(6).tolist()
        [0.400332, 0.599668, -0.5]

    Args:
        steps: the table; needs `hindsight`.
        gamma: discount per turn, in [0, 1].
        w: factor of the second term.
        temperature: divides the log-probabilities; the larger, the nearer rho is to 1.
        clip: how far rho may be from 1, in [0, 1].
        smoothing: share of the next turn's value, in [0, 1]: a preparation gets part of what it prepared.
        protect: raise the second term to zero in episodes that succeeded.
        threshold: episodes with a higher score succeeded.
        scale, unit, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" and "step" (protected, before w); the report has the mean distance of rho
        from 1, the share of turns whose rho was clipped, and the share that was protected.

    Source: Tan et al. 2026, arXiv 2603.08754, after two transcriptions of its equations and algorithm that agree. Our
    reading: mean and standard deviation of the second term are those of all turns of the task, as in the algorithm
    (beside the equation they are those "at time step t"), with trajectories as units; and the discounted return
    of a table with rewards before the end. The paper's smoothing is 0.5 where there is any.
    """
    options = GroupOptions(scale, unit, eps=eps, invalid_penalty=invalid_penalty)
    for name, value in (("gamma", gamma), ("clip", clip), ("smoothing", smoothing)):
        check_number(name, value, 0.0, 1.0)
    check_number("w", w, 0.0)
    check_number("temperature", temperature, 0.0)
    if temperature == 0.0:
        raise BadOption("temperature must be > 0, got 0; a large one keeps rho near 1")
    check_flag("protect", protect)
    check_number("threshold", threshold)
    need(steps, "hcapo", "hindsight")

    def estimate(table: Steps) -> Advantages:
        episode, report = episode_term(table, options)
        member = compact(table.trajectory)
        raw = _ratios(table, temperature)
        ratio = np.clip(raw, 1.0 - clip, 1.0 + clip)
        paid = options.penalised_reward(table)
        returns, terms = (ratio * discounted_returns(table, gamma, reward=part) for part in (paid, np.abs(paid)))
        task = compact(table.task)
        values = Groups(
            _smoothed(table, returns, smoothing),
            task,
            unit_weights(task, table.trajectory, unit),
            size_of_terms=_smoothed(table, terms, smoothing),
        )
        step = standardise(values, scale=scale, eps=eps)
        saved = protect & solved(table, threshold)[member] & (step < 0.0)
        report |= {
            "hindsight": float(np.abs(ratio - 1.0).mean()),
            "hindsight_clipped": float((ratio != raw).mean()),
            "hindsight_protected": float(saved.mean()),
        }
        return combined(table, options, {"episode": episode, "step": np.where(saved, 0.0, step)}, report, w=w)

    return without_copies(steps, estimate)


def _ratios(steps: Steps, temperature: float) -> Floats:
    """Return P of each turn over its mean in the trajectory, float64 [N]."""
    member = compact(steps.trajectory)
    sharpened = steps.column("hindsight") / temperature
    largest = np.full(int(member.max()) + 1, -np.inf)
    np.maximum.at(largest, member, sharpened)
    likely = np.exp(sharpened - largest[member])  # at most 1, and 1 at some turn: the mean is never 0
    ratios: Floats = likely / Groups(likely, member).centre()[member]
    return ratios


def _smoothed(steps: Steps, value: Floats, share: float) -> Floats:
    """Return each value mixed with that of the trajectory's next turn, float64 [N]; the last one as it is."""
    after = next_turns(previous_turns(steps))
    return np.where(after >= 0, (1.0 - share) * value + share * value[after], value)
