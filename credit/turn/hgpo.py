"""HGPO: the turn's standing among turns with the same recent history, averaged over histories of growing length.

Left out on purpose: actions. A history is a sequence of states, as in the paper; `salt` compares transitions.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import (
    Compat,
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    check_choice,
    check_flag,
    check_number,
    compact,
    discounted_returns,
    unit_weights,
)
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, check_beside, combined, without_copies
from turnwise.credit.outcome.grpo import episode_term
from turnwise.credit.steps import Bools, Floats, Ints, Steps, need
from turnwise.credit.transitions import history_keys, previous_turns, turns_behind
from turnwise.credit.turn.gigpo import anchors, step_term

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
    """Return the weighted mean of the turn's standings in nested groups: same state, same last two states, and so on.

        R[i, t] = sum over k of gamma^k * r[i, t + k]
        A_k[i, t] = norm(R over turns of the task that share their states t - k, ..., t)         k = 0 ... history
        A[i, t] = sum over k of w_k A_k / sum over k of w_k              w_k = (k + 2)^alpha, "code"
                                                                         w_k = (k + 1)^alpha, "paper"

    Longer histories make better comparisons of fewer turns, and so weigh more. A turn near the start has only the
    histories that fit. Where no other trajectory shares even the state there is nothing to compare: the turn gets zero,
    unless `base` brings the episode's standing in.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], state=["hall", "door", "wall", "door"])
        >>> result = hgpo(steps, scale="none", history=1)
        >>> result.values.tolist(), result.parts["history 0"].tolist(), result.parts["history 1"].tolist()
        ([0.0, 0.5, 0.0, -0.5], [0.0, 0.5, 0.0, -0.5], [0.0, 0.0, 0.0, 0.0])

    Args:
        steps: the table; needs `state`. `valid`, if there, brings the penalty.
        history: K, how many earlier states the longest history holds. 0 leaves the state alone: GiGPO's step term.
        alpha: how much longer histories weigh; 0 weighs all alike.
        base: whether the episode's standing within its task takes part as the coarsest level, with weight 1. The
            longer levels then weigh (k + 2)^alpha under either choice of `weights`, since both count from the coarsest
            level in use. (Our reading: the paper does not say what the base would weigh on its scale.)
        gamma: discount per turn, in [0, 1].
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation), at every level.
        weights: "code", the default, gives the state alone 2^alpha, as the published code does; "paper" 1^alpha.
        drop: which levels of a turn stay out of its mean. "alone": where no other trajectory shares the history (no
            other row, under `unit="turn"`), for there the comparison says nothing. "zero": also where the standing is
            zero, as the published code does, although an equal standing is information. "none": no level that fits.
        invalid_penalty, penalty_in: as in `gigpo`.
        unit: "trajectory" counts each trajectory once in each mean and spread; "turn" counts every row.
        singleton: under `base`, a task with one trajectory gives "zero" or its "raw" score.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        compat: "verl-agent" reproduces that trainer: drop="zero", unit="turn", singleton="raw", penalty_in="return",
            weights="code", ddof=1 for the base and 0 for the other levels; copies count as rows, and the order of rows
            is taken for the order of time when histories are read. Another choice of these is refused.
        normalize_by_length: under `base`, divide an episode's score by its number of turns.

    Returns:
        Advantages with the parts "history 0", "history 1", ... (and "episode" under `base`, "penalty" under
        penalty_in="advantage"), before weighing and zero where the turn has no such level; its report has GiGPO's
        counts of groups of both kinds, the state alone being the step group, and counts turns with company level by
        level.

    Raises:
        MissingColumn: there is no `state`.
        BadOption: an option has an impossible value.

    Source: He et al. 2026, arXiv 2602.22817. We differ from the published code where it counts rows instead of
    trajectories, drops equal standings, takes rows for time, and scales up rounding noise.
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
    level_rule = replace(options, ddof=0) if compat else options

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
        # Rows in order of the table, trajectory by trajectory, copies among them: what that trainer takes for time.
        as_rows = np.argsort(table.trajectory, kind="stable") if compat else None
        before = previous_turns(table, order=as_rows)
        behind = turns_behind(before, history)
        for k, key in enumerate(history_keys(anchors(table), before, history)):
            rows = np.flatnonzero(behind >= k)
            level = compact(key[rows])
            weight = unit_weights(level, table.trajectory[rows], options.unit)
            groups = Groups(returns[rows], level, weight, size_of_terms=terms[rows])
            term, counts = step_term(groups, level_rule)
            if k == 0:
                report |= counts
            alone = groups.size[level] == 1.0
            mean.add(f"history {k}", term, ~alone, float(k + lowest) ** alpha, rows)
            report[f"turns_with_company_{k}"] = float((~alone).sum())
        values = mean.values
        report["step_signal"] = float((values != 0.0).mean()) if len(values) else 0.0
        return combined(table, options, mean.parts, report, values=values)

    return without_copies(steps, estimate, with_copies=compat is not None)


class LevelMean:
    """The weighted mean of a turn's levels, without those that are to be dropped.

    Args:
        rows: N.
        drop: see `hgpo`.
        eps: added to the sum of weights, as the published code does.
    """

    def __init__(self, rows: int, drop: Drop, eps: float) -> None:
        """Start without any level."""
        self.parts: dict[str, Floats] = {}
        self._weights: dict[str, Floats] = {}
        self._rows, self._drop, self._eps = rows, drop, eps

    def add(self, name: str, term: Floats, company: Bools, weight: float, rows: Ints | None = None) -> None:
        """Take a level in.

        Args:
            name: the level's part.
            term: float64 [M], the standings.
            company: bool [M], whether others share the level with the row.
            weight: of the level.
            rows: int64 [M], the rows that have the level; None for all.
        """
        chosen = np.arange(self._rows) if rows is None else rows
        counts = {"alone": company, "zero": company & (term != 0.0), "none": np.ones(len(term), dtype=np.bool_)}[
            self._drop
        ]
        self.parts[name], self._weights[name] = np.zeros(self._rows), np.zeros(self._rows)
        self.parts[name][chosen] = term
        self._weights[name][chosen] = weight * counts

    @property
    def values(self) -> Floats:
        """float64 [N], the means; zero where no level counts, and exactly the level's standing where one does."""
        out, total = np.zeros(self._rows), np.full(self._rows, self._eps)
        for weight in self._weights.values():
            total += weight
        total[total <= self._eps] = 1.0
        for name, weight in self._weights.items():
            out += self.parts[name] * (weight / total)
        return out
