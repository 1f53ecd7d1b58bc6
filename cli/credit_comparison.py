"""Several estimators on the same stored turns: what each sees, where they agree, and which states tell turns apart.

Left out on purpose: printing and pictures (`turnwise.cli.credit`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from turnwise.cli.errors import UserError, choose, near

if TYPE_CHECKING:
    from turnwise.agents.trajectory import Group
    from turnwise.credit import Advantages, Steps
    from turnwise.training.steps import Anchor


@dataclass(frozen=True, slots=True)
class TrajectoryFacts:
    """What the file holds, whatever the estimator.

    `texts_with_several_states` counts the texts of a task that stand for more than one state, and the turns that saw
    one; `states_with_several_texts` the reverse.
    """

    groups: int
    groups_of_one: int
    groups_without_spread: int
    trajectories: int
    won: int
    failed: int
    turns: int
    states: int
    shared_states: int
    turns_in_shared_states: int
    texts_with_several_states: int
    turns_of_such_texts: int
    states_with_several_texts: int
    turns_of_such_states: int


@dataclass(frozen=True, slots=True)
class RuleStatistics:
    """What one estimator made of the turns.

    `signal` is the share of turns with an advantage other than zero; `step_signal` the share in which the turn itself
    has a say, beside its trajectory. `report` holds the estimator's own counts.
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
    """Estimators side by side; `left_out` says why an estimator has no column."""

    facts: TrajectoryFacts
    numbers: Mapping[str, RuleStatistics]
    correlation: Mapping[str, Mapping[str, float | None]]
    left_out: Mapping[str, str]
    steps: Steps = field(repr=False)
    results: Mapping[str, Advantages] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values for JSON."""
        return {
            "facts": asdict(self.facts),
            "estimators": {name: asdict(numbers) for name, numbers in self.numbers.items()},
            "correlation": {name: dict(row) for name, row in self.correlation.items()},
            "left_out": dict(self.left_out),
        }


def compare(
    groups: Sequence[Group], estimators: Sequence[str], anchor: Anchor, options: Mapping[str, Any]
) -> RuleComparison:
    """Return what the estimators make of the same turns.

    Args:
        groups: as stored; failed episodes are left out.
        estimators: names. One that needs a column which stored trajectories do not have is left out, with the reason.
        anchor: "state" or "observation".
        options: given to every estimator that has them.

    Raises:
        UserError: an unknown estimator, an option that none has, or no estimator that can do it.
        CreditError: an option has an impossible value.
    """
    from turnwise.credit import estimators as known
    from turnwise.training.steps import steps_of

    entries = known()
    for name in estimators:
        choose("estimator", name, entries)
    _check_options(options, {name: entries[name].options for name in estimators})
    steps = steps_of(groups, anchor=anchor)
    results: dict[str, Advantages] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(estimators):
        mine = {key: value for key, value in options.items() if key in entries[name].options}
        outcome = _estimate(name, mine, steps)
        if isinstance(outcome, str):
            left_out[name] = outcome
        else:
            results[name] = outcome
    if not results:
        raise UserError(f"No estimator can read these trajectories: {'; '.join(left_out.values())}.")
    numbers = {name: _numbers(steps, result) for name, result in results.items()}
    return RuleComparison(_facts(groups, steps), numbers, _correlation(results), left_out, steps, results)


def _check_options(options: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> None:
    everything = {option for names in known.values() for option in names}
    for option in options:
        if option not in everything:
            raise UserError(f"None of {', '.join(known)} has an option {option!r}.{near(option, everything)}")


def _estimate(name: str, options: Mapping[str, Any], steps: Steps) -> Advantages | str:
    """The result of an estimator, or why there is none."""
    import numpy as np

    from turnwise.credit import BadTable, get

    entry = get(name, **options)
    absent = [column for column in entry.needs if column in type(steps).__annotations__ and column not in steps.columns]
    if absent:
        return f"{name} needs {' and '.join(repr(column) for column in absent)}, which stored trajectories do not have"
    more: dict[str, Any] = {"rng": np.random.default_rng(0)} if entry.draws else {}
    try:
        return entry(steps, **more)
    except BadTable as error:
        return str(error)


def _numbers(steps: Steps, result: Advantages) -> RuleStatistics:
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


def _share(mask: Any) -> float:
    return float(mask.mean()) if len(mask) else 0.0


def _step_level(steps: Steps, result: Advantages) -> float:
    """The share of turns with a say of their own: what the estimator reports, or those with a step term.

    Of an estimator with neither, a turn counts that has another advantage than its trajectory's base, or, where none is
    named, one that is not zero while the turns of its trajectory got different ones.
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
    """Pearson's correlation of the advantages of two estimators over the turns; None where one is constant."""
    import numpy as np

    centred = {name: result.values - result.values.mean() for name, result in results.items() if len(result)}
    length = {name: float(np.sqrt((x * x).sum())) for name, x in centred.items()}
    out: dict[str, dict[str, float | None]] = {name: {} for name in results}
    for one in results:
        for two in results:
            scale = length.get(one, 0.0) * length.get(two, 0.0)
            ok = scale > 0.0 and math.isfinite(scale)
            out[one][two] = float((centred[one] * centred[two]).sum() / scale) if ok else None
    return out


def _facts(groups: Sequence[Group], steps: Steps) -> TrajectoryFacts:
    finished = [trajectory for group in groups for trajectory in group.finished]
    flat = sum(len({t.reward for t in group.finished}) == 1 for group in groups if len(group.finished) > 1)
    by_state = shared_states(steps)
    texts = _several([[(turn.observation, turn.state) for t in g.finished for turn in t.turns] for g in groups])
    states = _several([[(turn.state, turn.observation) for t in g.finished for turn in t.turns] for g in groups])
    return TrajectoryFacts(
        groups=len(groups),
        groups_of_one=sum(len(group.finished) == 1 for group in groups),
        groups_without_spread=flat,
        trajectories=len(finished),
        won=sum(trajectory.won for trajectory in finished),
        failed=sum(len(group.trajectories) - len(group.finished) for group in groups),
        turns=len(steps),
        states=len(by_state),
        shared_states=sum(len(members) > 1 for members, _ in by_state.values()),
        turns_in_shared_states=sum(turns for members, turns in by_state.values() if len(members) > 1),
        texts_with_several_states=texts[0],
        turns_of_such_texts=texts[1],
        states_with_several_texts=states[0],
        turns_of_such_states=states[1],
    )


def shared_states(steps: Steps) -> dict[tuple[int, int], tuple[set[int], int]]:
    """Return the trajectories that were in each (task, state), and the number of turns that began there."""
    found: dict[tuple[int, int], tuple[set[int], int]] = {}
    if steps.state is None:
        return found
    for task, state, trajectory in zip(
        steps.task.tolist(), steps.state.tolist(), steps.trajectory.tolist(), strict=True
    ):
        members, turns = found.get((task, state), (set(), 0))
        members.add(trajectory)
        found[task, state] = (members, turns + 1)
    return found


def _several(groups: Sequence[Sequence[tuple[str, str]]]) -> tuple[int, int]:
    """How many first items go with more than one second item within a group, and how often these occur."""
    number = turns = 0
    for pairs in groups:
        partners: dict[str, set[str]] = {}
        times: dict[str, int] = {}
        for one, two in pairs:
            partners.setdefault(one, set()).add(two)
            times[one] = times.get(one, 0) + 1
        several = [one for one, others in partners.items() if len(others) > 1]
        number += len(several)
        turns += sum(times[one] for one in several)
    return number, turns
