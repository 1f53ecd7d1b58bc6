"""SPEAR: outcome advantages that remember how good the policy has been, and stored episodes measured by that memory.

`spear` is the estimator of an iteration; its state collects the mean score of every group. `spear_replay` gives stored
episodes the advantage that they have today: their score less the middle of what groups have lately scored.

    result = spear(steps, state=state)
    state = result.state                              # store the episodes with an advantage above zero
    again = spear_replay(stored, state=state)         # now and then: rows to keep, values, weight of their loss

Left out on purpose: the store of episodes, when to replay it (the published code waits until it holds some thousand
episodes and empties it then), and the loss of the replay, which is training's self-imitation.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Scale, Singleton, check_choice, check_number
from turnwise.credit.episodes import Episodes
from turnwise.credit.errors import BadOption
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps

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
    """Return the outcome less the mean of its task, the same for all turns, and remember the means of all tasks.

        E[i] = sum over t of r[i, t] + bonus[i]         bonus[i] = min(T[i] / 10, 1) * (cos(pi * c / C) + 1) / 2
        A[i, t] = E[i] - mean over the task

    where c counts the calls before this one and C is `bonus_calls`; from call C on, and with C = 0, there is no bonus.

        >>> steps = Steps.from_columns(task=["t", "t"], trajectory=[0, 1], turn=[0, 0], reward=[1.0, 0.0])
        >>> result = spear(steps)
        >>> result.values.tolist(), result.state["means"].tolist(), result.state["calls"]
        ([0.5, -0.5], [0.5], 1)

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty.
        scale: "none" (mean only), "std" or "mad" (median over median absolute deviation).
        bonus_calls: over how many calls a reward for using tools, up to 1 for ten turns, fades out; the paper has 100
            for tool use. Zero gives none.
        history: how many group means are remembered, the latest.
        singleton: a group of one gives "zero" or its "raw" score.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward, taken from that turn's reward.
        state: what the last call gave back; None at first.

    Returns:
        Advantages with the parts "episode" and "bonus" (of the score); `state` is a dict with "means" and "stds",
        float64 [up to history], of the groups' scores without the bonus, and "calls".

    Raises:
        BadOption: an option has an impossible value, or `state` is not one of this function's.

    Source: Qin et al. 2025, arXiv 2509.22601, after its public code. Our reading: the means are taken without the
    bonus, so that stored episodes are measured by what they scored.
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
    """Return the advantage that stored episodes have by the memory of `spear`, keeping those that are not below it.

        b = percentile of the remembered group means
        A[i, t] = E[i] - b        with scale="std" over (percentile of the remembered group deviations + eps)
        keep[i, t] = A[i, t] >= 0
        weight[i, t] = weight * (1 - cos(pi * min(c, C) / C)) / 2        c calls of `spear` so far, C = warmup

        >>> stored = Steps.from_columns(task=[0, 1], trajectory=[0, 0], turn=[0, 0], reward=[1.0, 0.25])
        >>> memory = {"means": np.array([0.25, 0.5, 1.0]), "stds": np.zeros(3), "calls": 100}
        >>> result = spear_replay(stored, state=memory)
        >>> result.values.tolist(), result.keep.tolist(), result.weight.round(9).tolist()
        ([0.5, -0.25], [True, False], [0.5, 0.5])

    Args:
        steps: the table of the stored episodes; tasks do not matter.
        state: what `spear` gave back. It is not changed.
        percentile: from 0 to 100.
        scale: "none" or "std".
        warmup: calls of `spear` over which the weight rises (the paper has 200, and 100 for ALFWorld); zero gives full
            weight at once.
        weight: the weight at the end.
        eps: added to the spread.
        invalid_penalty: as it was given to `spear`.

    Returns:
        Advantages with the part "episode"; its report has the "baseline".

    Raises:
        BadOption: an option has an impossible value, or `state` remembers no group.

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
    """From one down to zero along half a cosine, over so many calls; zero after them, and where there are none."""
    return (float(np.cos(np.pi * calls / over)) + 1.0) / 2.0 if calls < over else 0.0
