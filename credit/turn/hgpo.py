"""HGPO: the turn's return normalised among turns with the same recent history, averaged over history lengths."""

from dataclasses import replace
from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import (
    Compat,
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    compact,
    discounted_returns,
    unit_weights,
)
from turncredit.credit.option_checks import check_choice, check_flag, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, check_beside, combined, without_copies
from turncredit.credit.outcome.grpo import episode_term
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need
from turncredit.credit.transitions import history_keys, previous_turns, turns_behind
from turncredit.credit.turn.gigpo import anchors, step_term

Ladder = Literal["code", "paper"]
Drop = Literal["alone", "zero", "none"]


def hgpo(
    steps: Steps,
    *,
    history: int = 2,
    alpha: float = 1.0,
    base: bool = False,
    gamma: float = 0.95,
    scale: Scale = "std",
    weights: Ladder = "code",
    drop: Drop = "alone",
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    compat: Compat | None = None,
    normalize_by_length: bool = False,
) -> Advantages:
    """Return the weighted mean of the turn's normalised returns in nested groups: same state, same last two states, ...

        R[i, t] = sum over k of gamma^k * r[i, t + k]
        A_k[i, t] = norm(R over turns of the task that share their states t - k, ..., t)         k = 0 ... history
        A[i, t] = sum over k of w_k A_k / sum over k of w_k              w_k = (k + 2)^alpha, "code"
                                                                         w_k = (k + 1)^alpha, "paper"

    Longer histories give closer comparisons of fewer turns and have more weight. A turn near the start of its episode
    has only the histories that fit. A turn whose state no other trajectory shares gets zero, unless `base` adds the
    episode's normalised score.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], state=["hall", "door", "wall", "door"])
        >>> result = hgpo(steps, scale="none", history=1)
        >>> result.values.tolist(), result.parts["history 0"].tolist(), result.parts["history 1"].tolist()
        ([0.0, 0.5, 0.0, -0.5], [0.0, 0.5, 0.0, -0.5], [0.0, 0.0, 0.0, 0.0])

    Args:
        steps: the table; needs `state`.
        history: K, the number of earlier states in the longest history. 0 uses the state alone: GiGPO's step term.
        alpha: weight of longer histories; 0 weights all equally.
        base: add the episode's score normalised within its task as the coarsest level, with weight 1. The other levels
            then have weight (k + 2)^alpha under both values of `weights`. (Our reading: the paper does not define it.)
        gamma: discount per turn, in [0, 1].
        weights: weight of the state alone: 2^alpha as in the published "code", or 1^alpha as in the "paper".
        drop: levels of a turn that do not enter its mean. "alone": those whose history no other trajectory (no other
            row, under unit="turn") shares. "zero": also those with a value of zero, as in the published code. "none":
            no level.
        compat: "verl-agent" reproduces that trainer: drop="zero", unit="turn", singleton="raw", penalty_in="return",
            weights="code", ddof=1 for the base and 0 for the other levels; copies count as rows, and histories follow
            the order of rows instead of `turn`. Other values of these options are refused.
        normalize_by_length: under `base`, divide an episode's score by its number of turns.
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in: as in `gigpo`.

    Returns:
        Advantages with the parts "history 0", "history 1", ... (and "episode" under `base`, "penalty" under
        penalty_in="advantage"), before weighting, zero where the turn has no such level; the report has GiGPO's counts
        and, for each level, the number of turns that share their history with another trajectory.

    Source: He et al. 2026, arXiv 2602.22817. The published code counts rows instead of trajectories, drops levels
    with a value of zero, reads time from the order of rows, and scales up rounding noise.
    """
    options = GroupOptions(
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in, normalize_by_length
    ).with_preset(compat)
    check_number("history", history, 0, whole=True)
    check_number("alpha", alpha, 0.0)
    check_number("gamma", gamma, 0.0, 1.0)
    check_choice("weights", weights, Ladder)
    check_choice("drop", drop, Drop)
    for name, value, default, fixed in (("drop", drop, "alone", "zero"), ("weights", weights, "code", "code")):
        check_beside(compat, name, value, default, fixed)
    check_beside(compat, "ddof", ddof, 1, 1)
    check_flag("base", base)
    need(steps, "hgpo", "state")
    lowest = 2 if base or weights == "code" else 1
    level_options = replace(options, ddof=0) if compat else options

    def estimate(table: Steps) -> Advantages:
        mean = LevelMean(len(table), "zero" if compat else drop, eps if compat else 0.0)
        term, report = episode_term(table, options)
        if base:
            several = np.ones(len(table), dtype=np.bool_)
            if not compat:
                task = compact(table.task)
                several = (
                    Groups(table.reward, task, unit_weights(task, table.trajectory, options.unit)).size[task] > 1.0
                )
            mean.add("episode", term, several, 1.0)
        paid, late = options.penalised_reward(table), options.return_penalty(table)
        returns = discounted_returns(table, gamma, reward=paid) - late
        terms = discounted_returns(table, gamma, reward=np.abs(paid)) + late
        # The preset reads time from the order of rows, including copies.
        as_rows = np.argsort(table.trajectory, kind="stable") if compat else None
        before = previous_turns(table, order=as_rows)
        behind = turns_behind(before, history)
        for k, key in enumerate(history_keys(anchors(table), before, history)):
            rows = np.flatnonzero(behind >= k)
            level = compact(key[rows])
            weight = unit_weights(level, table.trajectory[rows], options.unit)
            groups = Groups(returns[rows], level, weight, size_of_terms=terms[rows])
            term, counts = step_term(groups, level_options)
            if k == 0:
                report |= counts
            alone = groups.size[level] == 1.0
            mean.add(f"history {k}", term, ~alone, float(k + lowest) ** alpha, rows)
            report[f"turns_with_peers_{k}"] = float((~alone).sum())
        values = mean.values
        report["step_signal"] = float((values != 0.0).mean()) if len(values) else 0.0
        return combined(table, options, mean.parts, report, values=values)

    return without_copies(steps, estimate, with_copies=compat is not None)


class LevelMean:
    """The weighted mean of a turn's levels, without the dropped ones.

    Args:
        rows: N.
        drop: see `hgpo`.
        eps: added to the sum of weights, as the published code does.
    """

    def __init__(self, rows: int, drop: Drop, eps: float) -> None:
        """Start without levels."""
        self.parts: dict[str, Floats] = {}
        self._weights: dict[str, Floats] = {}
        self._rows, self._drop, self._eps = rows, drop, eps

    def add(self, name: str, term: Floats, shared: Bools, weight: float, rows: Ints | None = None) -> None:
        """Add a level.

        Args:
            name: name of the part.
            term: float64 [M], the normalised returns.
            shared: bool [M], whether other trajectories share the level.
            weight: weight of the level.
            rows: int64 [M], the rows that have the level; None for all.
        """
        chosen = np.arange(self._rows) if rows is None else rows
        counts = {"alone": shared, "zero": shared & (term != 0.0), "none": np.ones(len(term), dtype=np.bool_)}[
            self._drop
        ]
        self.parts[name], self._weights[name] = np.zeros(self._rows), np.zeros(self._rows)
        self.parts[name][chosen] = term
        self._weights[name][chosen] = weight * counts

    @property
    def values(self) -> Floats:
        """float64 [N], the means; zero where no level counts."""
        out, total = np.zeros(self._rows), np.full(self._rows, self._eps)
        for weight in self._weights.values():
            total += weight
        total[total <= self._eps] = 1.0
        for name, weight in self._weights.items():
            out += self.parts[name] * (weight / total)
        return out
