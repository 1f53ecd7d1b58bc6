"""SPEAR: outcome advantages with a memory of group scores, and advantages of stored episodes relative to that memory.

`spear` is the rule of an iteration; its state collects the mean score of every group. `spear_replay` gives stored
episodes their current advantage: their score minus the median of recent group means.

    result = spear(steps, state=state)
    state = result.state                              # store the episodes with an advantage above zero
    again = spear_replay(stored, state=state)         # now and then: rows to keep, values, weight of their loss
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import Scale, Singleton
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps

ReplayScale = Literal["none", "std"]
BONUS_A_TURN = 0.1


def spear(
    steps: Steps,
    *,
    scale: Scale = "none",
    bonus_calls: int = 0,
    history: int = 10240,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
    state: object = None,
) -> Advantages:
    """Return the outcome minus the mean of its task, and remember the means of all tasks.

        E[i] = sum over t of r[i, t] + bonus[i]         bonus[i] = min(T[i] / 10, 1) * (cos(pi * c / C) + 1) / 2
        A[i, t] = E[i] - mean over the task

    where c counts the calls before this one and C is `bonus_calls`; from call C on, and with C = 0, there is no bonus.

        >>> steps = Steps.from_columns(task=["t", "t"], trajectory=[0, 1], turn=[0, 0], reward=[1.0, 0.0])
        >>> result = spear(steps)
        >>> result.values.tolist(), result.state["means"].tolist(), result.state["calls"]
        ([0.5, -0.5], [0.5], 1)

    Args:
        steps: the table.
        bonus_calls: number of calls over which a bonus for turns, up to 1 for ten turns, fades out; the paper uses 100.
            0 gives no bonus.
        history: number of group means to remember.
        state: the state that the previous call returned; None at first.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" and "bonus" (of the score); `state` is a dict with "means" and "stds",
        float64 [up to history], of the groups' scores without the bonus, and "calls".

    Raises:
        BadOption: `state` is not a state of this function.

    Source: Qin et al. 2025, arXiv 2509.22601, after its public code. Our reading: the means exclude the
    bonus, so that stored episodes are compared by score.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    check_number("bonus_calls", bonus_calls, 0, whole=True)
    check_number("history", history, 1, whole=True)
    memory = _memory(state)

    def estimate(table: Steps) -> Advantages:
        paid = options.penalised_reward(table)
        plain = Episodes.of(table, reward=paid)
        bonus = np.minimum(BONUS_A_TURN * plain.turns, 1.0) * _fading(memory["calls"], bonus_calls)
        extra = np.zeros(len(table))
        extra[plain.first] = bonus
        episodes = Episodes.of(table, reward=paid + extra)
        value = options.normalise(episodes.groups)
        found = {"means": plain.groups.mean(), "stds": plain.groups.deviation(ddof)}
        kept: dict[str, Any] = {name: np.append(memory[name], new)[-history:] for name, new in found.items()}
        calls = memory["calls"] + 1
        parts = {"episode": value, "bonus": bonus}
        return episodes.advantages(value, parts, episodes.counts, state={**kept, "calls": calls})

    return without_copies(steps, estimate, state=state)


def spear_replay(
    steps: Steps,
    *,
    state: object,
    percentile: float = 50.0,
    scale: ReplayScale = "none",
    warmup: int = 200,
    weight: float = 1.0,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the advantages of stored episodes relative to the memory of `spear`; negative ones are dropped.

        b = percentile of the remembered group means
        A[i, t] = E[i] - b        divided by (percentile of the remembered deviations + eps) under scale="std"
        keep[i, t] = A[i, t] >= 0
        weight[i, t] = weight * (1 - cos(pi * min(c, C) / C)) / 2        c calls of `spear` so far, C = warmup

        >>> stored = Steps.from_columns(task=[0, 1], trajectory=[0, 0], turn=[0, 0], reward=[1.0, 0.25])
        >>> memory = {"means": np.array([0.25, 0.5, 1.0]), "stds": np.zeros(3), "calls": 100}
        >>> result = spear_replay(stored, state=memory)
        >>> result.values.tolist(), result.keep.tolist(), result.weight.round(9).tolist()
        ([0.5, -0.25], [True, False], [0.5, 0.5])

    Args:
        steps: the table of the stored episodes; tasks have no effect.
        state: the state that `spear` returned.
        percentile: in [0, 100].
        scale: "none" or "std".
        warmup: number of calls of `spear` over which the weight rises (200 in the paper, 100 for ALFWorld).
        weight: final weight.
        eps, invalid_penalty: as in `spear`.

    Returns:
        Advantages with the part "episode"; the report has the "baseline".

    Raises:
        BadOption: `state` has no group.

    Source: as `spear`.
    """
    options = GroupOptions(eps=eps, invalid_penalty=invalid_penalty)
    check_choice("scale", scale, ReplayScale)
    check_number("percentile", percentile, 0.0, 100.0)
    check_number("warmup", warmup, 0, whole=True)
    check_number("weight", weight, 0.0)
    memory = _memory(state)
    if len(steps) and not len(memory["means"]):
        raise BadOption("spear_replay needs a state with at least one group; pass the state that spear returned")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        baseline = float(np.percentile(memory["means"], percentile)) if len(memory["means"]) else 0.0
        spread = float(np.percentile(memory["stds"], percentile)) + eps if scale == "std" else 1.0
        values = ((episodes.score - baseline) / spread)[episodes.member]
        factor = np.full(len(table), weight * (1.0 - _fading(memory["calls"], warmup)))
        parts = {"episode": values.copy()}
        return Advantages.of(table, values, parts, {"baseline": baseline}, keep=values >= 0.0, weight=factor)

    return without_copies(steps, estimate)


def _memory(state: object) -> dict[str, Any]:
    """What a state remembers, checked; nothing for None."""
    if state is None:
        return {"means": np.zeros(0), "stds": np.zeros(0), "calls": 0}
    if not isinstance(state, Mapping) or not {"means", "stds", "calls"} <= state.keys():
        raise BadOption(f"state must be what spear returned (means, stds, calls), got {state!r}")
    means, stds = (np.asarray(state[name], dtype=np.float64) for name in ("means", "stds"))
    if means.ndim != 1 or means.shape != stds.shape or not np.isfinite(np.append(means, stds)).all():
        raise BadOption("state must hold equally many means and stds, all finite")
    check_number("state['calls']", state["calls"], 0, whole=True)
    return {"means": means, "stds": stds, "calls": int(state["calls"])}


def _fading(calls: int, over: int) -> float:
    """Return a factor that falls from one to zero along half a cosine over a number of calls; zero afterwards."""
    return (float(np.cos(np.pi * calls / over)) + 1.0) / 2.0 if calls < over else 0.0
