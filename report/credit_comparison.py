"""Several credit rules on the same stored turns: what each sees, and where they agree."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.credit_settings import CreditSettings, credit_settings
from turncredit.report.errors import ReportError
from turncredit.report.stored_groups import of_task, read_groups, require_turns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turncredit.agents.trajectory import Group
    from turncredit.credit import Advantages, Steps

RULES = "gigpo,hgpo,salt,grpo"
"""Rules that are compared where none are named; the run's own rule comes before them."""
REFERENCE = "grpo"
"""The rule that others are compared with, if it is one of them; else the first one."""
COUNTS = (
    "groups",
    "groups_of_one",
    "groups_without_spread",
    "step_groups",
    "step_groups_of_one",
    "step_groups_without_spread",
)
"""What rules report that is shown."""
NEAR = 0.95
"""Correlation from which no rule was ever better than the other in our ablations (docs/results.md)."""


@dataclass(frozen=True, slots=True)
class TrajectoryFacts:
    """Counts over the stored trajectories that do not depend on a credit rule.

    `groups_with_equal_rewards` compares the environment's rewards, before any penalty for invalid actions.
    `ambiguous_texts` are texts of a task that several states share, and `ambiguous_turns` the turns that saw one;
    `varying_states` are states seen under several texts, and `varying_turns` their turns.
    """

    groups: int
    groups_of_one: int
    groups_with_equal_rewards: int
    trajectories: int
    won: int
    failed: int
    turns: int
    states: int
    shared_states: int
    turns_in_shared_states: int
    ambiguous_texts: int
    ambiguous_turns: int
    varying_states: int
    varying_turns: int


@dataclass(frozen=True, slots=True)
class RuleStatistics:
    """Statistics of one rule's advantages.

    `signal` is the share of turns with a nonzero advantage; `step_signal` the share whose advantage has a part of the
    turn's own, beside that of its trajectory. `report` holds the rule's own counts.
    """

    signal: float
    step_signal: float
    dropped: int
    mean: float
    spread: float
    least: float
    most: float
    report: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """Credit rules side by side; `left_out` says why a rule has no column."""

    facts: TrajectoryFacts
    numbers: Mapping[str, RuleStatistics]
    correlation: Mapping[str, Mapping[str, float | None]]
    left_out: Mapping[str, str]
    steps: Steps = field(repr=False)
    results: Mapping[str, Advantages] = field(repr=False)

    @property
    def same_as(self) -> dict[str, str]:
        """For each rule the first one that gives the same numbers: the same advantages, and the same counts."""
        same: dict[str, str] = {}
        for name in self.numbers:
            distinct = (earlier for earlier in same if same[earlier] == earlier)
            same[name] = next((earlier for earlier in distinct if self._equal(name, earlier)), name)
        return same

    def _equal(self, first: str, second: str) -> bool:
        import numpy as np

        left, right = self.results[first], self.results[second]
        close = bool(np.allclose(left.values, right.values, rtol=0.0, atol=1e-9))
        equal = close and bool((left.keep == right.keep).all() and (left.weight == right.weight).all())
        return equal and _counts(self.numbers[first]) == _counts(self.numbers[second])

    @property
    def verdict(self) -> str:
        """A sentence about rules that can hardly train different policies; "" for a single rule."""
        same_as = self.same_as
        names = [name for name, first in same_as.items() if name == first]
        if len(names) < 2:
            return "All rules give the same numbers here." if len(self.numbers) > 1 else ""
        reference = same_as.get(REFERENCE, names[0])
        row = self.correlation[reference]
        others = [(name, row[name]) for name in names if name != reference]
        near = [name for name, value in others if value is not None and value >= NEAR]
        if not near:
            return f"No rule agrees with {reference} to {NEAR:g} or more: they may train different policies."
        return f"With a correlation of {NEAR:g} or more, these can hardly train another policy than {reference}: " + (
            f"{', '.join(near)}."
        )

    def as_dict(self) -> dict[str, object]:
        """Return the comparison as plain values for JSON."""
        return {
            "facts": asdict(self.facts),
            "rules": {name: asdict(numbers) for name, numbers in self.numbers.items()},
            "correlation": {name: dict(row) for name, row in self.correlation.items()},
            "left_out": dict(self.left_out),
            "same_as": self.same_as,
            "verdict": self.verdict,
        }


def compare_credit(
    path: str | os.PathLike[str],
    credit: str | Sequence[str] | None = None,
    *,
    options: Mapping[str, object] | None = None,
    anchor: str | None = None,
    task: str | None = None,
    iteration: int | None = None,
) -> RuleComparison:
    """Return several credit rules side by side on stored trajectories.

    Args:
        path: a run folder, or a file of trajectories.
        credit: names of credit rules; None: the run's rule and the usual ones.
        options: options of the rules, which replace those of the run.
        anchor: "state", "observation" or "history"; None: the run's.
        task: only tasks whose id contains this text.
        iteration: number of the iteration of a run folder; None: the newest.

    Raises:
        ReportError: there are no such trajectories, or no rule can be applied.
        StoreError: the path holds no trajectories.
        CreditError: an unknown rule, or an option with an impossible value.
    """
    from turncredit.training.run_folder.paths import trajectory_file

    file = trajectory_file(Path(path), iteration)
    settings = credit_settings(file, credit, options, anchor, RULES)
    everyone = read_groups(file, credited=True)
    groups = of_task(everyone, file, task)
    require_turns(groups, file)
    return compare_rules(groups, settings, everyone)


def compare_rules(
    groups: Sequence[Group], settings: CreditSettings, everyone: Sequence[Group] | None = None
) -> RuleComparison:
    """Return the advantages that several credit rules give the same turns.

    Args:
        groups: as stored; failed episodes are excluded.
        settings: the rules. A rule that needs a column which the trajectories lack is left out, with the reason.
        everyone: all groups of the iteration, among which advantages are computed: some rules compare groups with each
            other. None: `groups`.

    Raises:
        ReportError: no rule can be applied.
    """
    from turncredit.agents.steps import steps_of

    steps = steps_of(groups, anchor=settings.anchor, only_common=True)
    whole = steps if everyone is None else steps_of(everyone, anchor=settings.anchor, only_common=True)
    results, left_out = advantages_of(whole, settings)
    if whole is not steps:
        turns = steps.ids("trajectory").tolist(), steps.turn.tolist()
        results = {name: result.aligned(*turns) for name, result in results.items()}
    numbers = {name: _statistics(steps, result) for name, result in results.items()}
    return RuleComparison(_facts(groups, steps), numbers, _correlation(results), left_out, steps, results)


def advantages_of(steps: Steps, settings: CreditSettings) -> tuple[dict[str, Advantages], dict[str, str]]:
    """Return the advantages that each rule gives, and why a rule that lacks a column gives none.

    Raises:
        ReportError: no rule can be applied.
    """
    from turncredit.credit import BadTable

    results: dict[str, Advantages] = {}
    left_out: dict[str, str] = {}
    for name in settings.rules:
        try:
            results[name] = settings.advantages(name, steps)
        except BadTable as error:
            left_out[name] = str(error)
    if not results:
        raise ReportError(f"no credit rule can be applied to these trajectories: {'; '.join(left_out.values())}")
    return results, left_out


def _counts(numbers: RuleStatistics) -> tuple[object, ...]:
    """Return what a rule says beside its advantages."""
    return round(numbers.step_signal, 9), *(numbers.report.get(key) for key in COUNTS)


def _statistics(steps: Steps, result: Advantages) -> RuleStatistics:
    values = result.values
    return RuleStatistics(
        signal=_share(values != 0.0),
        step_signal=_step_level(steps, result),
        dropped=int((~result.keep).sum()),
        mean=float(values.mean()) if len(values) else 0.0,
        spread=float(values.std()) if len(values) else 0.0,
        least=float(values.min()) if len(values) else 0.0,
        most=float(values.max()) if len(values) else 0.0,
        report={name: float(value) for name, value in result.report.items()},
    )


def _share(mask: NDArray[np.bool_]) -> float:
    return float(mask.mean()) if len(mask) else 0.0


def _step_level(steps: Steps, result: Advantages) -> float:
    """Return the share of turns with a step-level signal.

    That is what the rule reports, else the turns whose part "step" is nonzero. For a rule with neither, a turn counts
    if its advantage differs from the part "base", or, without that part, if it is nonzero and the turns of its
    trajectory have different advantages.
    """
    import numpy as np

    if "step_signal" in result.report:
        return float(result.report["step_signal"])
    if "step" in result.parts:
        return _share(np.abs(result.parts["step"]) > 1e-12)
    if "base" in result.parts:
        return _share(np.abs(result.values - result.parts["base"]) > 1e-12)
    member = np.unique(steps.trajectory, return_inverse=True)[1].reshape(-1)
    low, high = np.full(len(steps) + 1, np.inf), np.full(len(steps) + 1, -np.inf)
    np.minimum.at(low, member, result.values)
    np.maximum.at(high, member, result.values)
    return _share((high[member] - low[member] > 1e-12) & (result.values != 0.0))


def _correlation(results: Mapping[str, Advantages]) -> dict[str, dict[str, float | None]]:
    """Return Pearson's correlation over the turns for each pair of rules; None where one of them is constant."""
    import numpy as np

    centred = {name: result.values - result.values.mean() for name, result in results.items() if len(result)}
    length = {name: float(np.sqrt((x * x).sum())) for name, x in centred.items()}
    out: dict[str, dict[str, float | None]] = {name: {} for name in results}
    for first in results:
        for second in results:
            scale = length.get(first, 0.0) * length.get(second, 0.0)
            ok = scale > 0.0 and math.isfinite(scale)
            out[first][second] = float((centred[first] * centred[second]).sum() / scale) if ok else None
    return out


def _facts(groups: Sequence[Group], steps: Steps) -> TrajectoryFacts:
    finished = [trajectory for group in groups for trajectory in group.finished]
    equal = sum(len({t.reward for t in group.finished}) == 1 for group in groups if len(group.finished) > 1)
    by_state = shared_states(steps)
    texts = _ambiguous([[(turn.observation, turn.state) for t in g.finished for turn in t.turns] for g in groups])
    states = _ambiguous([[(turn.state, turn.observation) for t in g.finished for turn in t.turns] for g in groups])
    return TrajectoryFacts(
        groups=len(groups),
        groups_of_one=sum(len(group.finished) == 1 for group in groups),
        groups_with_equal_rewards=equal,
        trajectories=len(finished),
        won=sum(trajectory.won for trajectory in finished),
        failed=sum(len(group.trajectories) - len(group.finished) for group in groups),
        turns=len(steps),
        states=len(by_state),
        shared_states=sum(len(members) > 1 for members, _ in by_state.values()),
        turns_in_shared_states=sum(turns for members, turns in by_state.values() if len(members) > 1),
        ambiguous_texts=texts[0],
        ambiguous_turns=texts[1],
        varying_states=states[0],
        varying_turns=states[1],
    )


def shared_states(steps: Steps) -> dict[tuple[int, int], tuple[set[int], int]]:
    """Return the trajectories that were in each (task, state), and the number of turns that began there."""
    visits: dict[tuple[int, int], tuple[set[int], int]] = {}
    if "state" not in steps:
        return visits
    for task, state, trajectory in zip(
        steps.task.tolist(), steps.column("state").tolist(), steps.trajectory.tolist(), strict=True
    ):
        members, turns = visits.get((task, state), (set(), 0))
        members.add(trajectory)
        visits[task, state] = (members, turns + 1)
    return visits


def _ambiguous(groups: Sequence[Sequence[tuple[str, str]]]) -> tuple[int, int]:
    """Count the first items that occur with several second items within a group, and how often they occur."""
    number = turns = 0
    for pairs in groups:
        partners: dict[str, set[str]] = {}
        times: dict[str, int] = {}
        for first, second in pairs:
            partners.setdefault(first, set()).add(second)
            times[first] = times.get(first, 0) + 1
        several = [first for first, others in partners.items() if len(others) > 1]
        number += len(several)
        turns += sum(times[first] for first in several)
    return number, turns
