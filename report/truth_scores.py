"""Credit rules scored against the truth: which of them find the turns that mattered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from turncredit.report.credit_comparison import REFERENCE, advantages_of
from turncredit.report.credit_settings import CreditSettings
from turncredit.report.errors import ReportError

if TYPE_CHECKING:
    from turncredit.credit import Advantages, Steps
    from turncredit.credit.truth import Density, Interval, TrueCredit
    from turncredit.credit.truth.metrics import Draws
    from turncredit.training.truth.measuring import TruthTable

GradientScores = Callable[[Mapping[str, "Advantages"], "TrueCredit"], Mapping[str, Mapping[str, "Draws"]]]
"""Returns the measures of the second family of each rule; see `turncredit.training.truth.gradients`."""

ENOUGH = 0.5
"""Reliability below which the order of the rules is mostly noise."""


@dataclass(frozen=True, slots=True)
class RuleTruth:
    """A rule beside the truth.

    `rank_true` is `rank` without the noise of the truth, an estimate. `differences` are the scores minus those of the
    reference, paired, with intervals that hold for all rules at once; the reference has none. `same_as` names the rule
    whose row stands for this one, since it says a positive multiple of the same; for most rules that is itself.
    """

    name: str
    scores: Mapping[str, Interval]
    rank_true: float | None
    differences: Mapping[str, Interval]
    same_as: str
    advantages: Advantages = field(repr=False)

    def beyond_noise(self, measure: str) -> bool:
        """Return whether a measure differs from that of the reference beyond the noise."""
        difference = self.differences.get(measure)
        if difference is None or difference.low is None or difference.high is None:
            return False
        return difference.low > 0.0 or difference.high < 0.0


@dataclass(frozen=True, slots=True)
class TruthScores:
    """Rules against the truth, best first; `left_out` says why a rule is missing."""

    rules: tuple[RuleTruth, ...]
    reference: str
    left_out: Mapping[str, str]
    reliability: float | None
    density: Density
    turns: int
    """Turns whose advantage is known with its error."""
    histories: int
    forks: int
    chance: bool
    gamma: float
    invalid_penalty: float
    truth: TrueCredit = field(repr=False)
    steps: Steps = field(repr=False)

    @property
    def enough(self) -> bool:
        """Whether there are forks enough for the order of the rules to mean something."""
        return self.reliability is not None and self.reliability >= ENOUGH

    @property
    def rows(self) -> tuple[RuleTruth, ...]:
        """One rule for all that say the same, the reference first, then best first."""
        rows = [rule for rule in self.rules if rule.same_as == rule.name]
        return tuple(sorted(rows, key=lambda rule: rule.name != self.reference))

    @property
    def same(self) -> dict[str, list[str]]:
        """The rules that say the same as that of a row, by its name."""
        return {
            row.name: names
            for row in self.rows
            if (names := [rule.name for rule in self.rules if rule.same_as == row.name != rule.name])
        }

    def as_dict(self) -> dict[str, object]:
        """Return the scores as plain values for JSON, and the truth turn by turn."""
        names, steps = self.steps.names, self.steps
        rows = zip(
            steps.trajectory.tolist(),
            steps.turn.tolist(),
            *(column.tolist() for column in (self.truth.value, self.truth.advantage, self.truth.error)),
            self.truth.forks.tolist(),
            strict=True,
        )
        return {
            "turns": self.turns,
            "histories": self.histories,
            "forks": self.forks,
            "chance": self.chance,
            "gamma": self.gamma,
            "invalid_penalty": self.invalid_penalty,
            "reliability": self.reliability,
            "density": asdict(self.density),
            "rules": {
                rule.name: {name: asdict(score) for name, score in rule.scores.items()} | {"rank_true": rule.rank_true}
                for rule in self.rules
            },
            "reference": self.reference,
            "same_as": {rule.name: rule.same_as for rule in self.rules},
            "differences": {
                rule.name: {name: asdict(difference) for name, difference in rule.differences.items()}
                for rule in self.rules
            },
            "left_out": dict(self.left_out),
            "truth": [
                {
                    "trajectory": names["trajectory"][trajectory],
                    "turn": turn,
                    "value": _finite(value),
                    "advantage": _finite(advantage),
                    "error": _finite(error),
                    "forks": forks,
                }
                for trajectory, turn, value, advantage, error, forks in rows
            ],
        }


def score_rules(
    table: TruthTable,
    settings: CreditSettings,
    *,
    gamma: float,
    invalid_penalty: float,
    gradients: GradientScores | None = None,
) -> TruthScores:
    """Return how well credit rules agree with the truth about the same turns.

    Args:
        table: the turns with their forks.
        settings: the rules with their options; one that cannot be applied is left out with the reason.
        gamma: discount of the true returns.
        invalid_penalty: penalty of an invalid action in the true returns.
        gradients: computes the second family of measures; None: only the first.

    Raises:
        ReportError: there is no truth, or no rule can be applied.
    """
    from turncredit.agents.steps import steps_of
    from turncredit.credit.truth import density, reliability

    steps = steps_of(table.groups, anchor=settings.anchor, only_common=True)
    truth = table.estimate(gamma, invalid_penalty)
    if not (truth.forks > 1).any():
        raise ReportError("no turn has two forks on either side, so there is no truth to compare with")
    results, left_out = advantages_of(steps, settings)
    reference = REFERENCE if REFERENCE in results else next(iter(results))
    same_as = _same_as(results, truth, reference)
    single = {name: result for name, result in results.items() if same_as[name] == name}
    draws = _draws(single, truth, steps, gradients)
    differences = _differences(draws, reference)
    reached = reliability(truth)
    rules = []
    for name, result in results.items():
        row = same_as[name]
        scores = {measure: measured.interval for measure, measured in draws[row].items()}
        rank = scores["rank"].value
        true = None if rank is None or reached is None or reached <= 0 else rank / reached**0.5
        rules.append(RuleTruth(name, scores, true, differences[row], row, result))
    rules.sort(key=_order)
    return TruthScores(
        rules=tuple(rules),
        reference=reference,
        left_out=left_out,
        reliability=reached,
        density=density(truth),
        turns=int(truth.known.sum()),
        histories=len(table.histories),
        forks=int(table.counts().sum()),
        chance=table.histories.repeats,
        gamma=gamma,
        invalid_penalty=invalid_penalty,
        truth=truth,
        steps=steps,
    )


def _same_as(results: Mapping[str, Advantages], truth: TrueCredit, reference: str) -> dict[str, str]:
    """Return for each rule the one whose row stands for it, by what they say about the turns that are measured."""
    from turncredit.credit.truth import same_rules

    measured = truth.known if truth.known.any() else truth.forks > 0
    columns = {}
    for name in sorted(results, key=lambda name: name != reference):
        result = results[name]
        values = result.values * result.keep
        columns[name] = [values[measured], (values * result.weight)[measured]]
    return same_rules(columns)


def _draws(
    results: Mapping[str, Advantages], truth: TrueCredit, steps: Steps, gradients: GradientScores | None
) -> dict[str, dict[str, Draws]]:
    """Return every measure of every rule in the draws of the bootstrap, which are the same for all rules."""
    from turncredit.credit.truth.metrics import identification_draws

    more = {} if gradients is None else gradients(results, truth)
    return {
        name: {
            **identification_draws(result.values * result.keep, truth, steps.task, steps.trajectory),
            **more.get(name, {}),
        }
        for name, result in results.items()
    }


def _differences(draws: Mapping[str, Mapping[str, Draws]], reference: str) -> dict[str, dict[str, Interval]]:
    """Return the differences to the reference by rule and measure."""
    from turncredit.credit.truth import paired_differences

    differences: dict[str, dict[str, Interval]] = {name: {} for name in draws}
    for measure in draws[reference]:
        for name, difference in paired_differences(
            {name: measures[measure] for name, measures in draws.items()}, reference
        ).items():
            differences[name][measure] = difference
    return differences


def return_options(settings: CreditSettings, rules: Sequence[str]) -> tuple[float, float]:
    """Return discount and penalty of the true returns: those of the first rule that has them, as it is configured.

    >>> from pathlib import Path
    >>> from turncredit.report.credit_settings import credit_settings
    >>> return_options(credit_settings(Path("episodes.jsonl"), "grpo,gigpo", {"gamma": 0.9}), ["grpo", "gigpo"])
    (0.9, 0.1)
    """
    values = {"gamma": 0.95, "invalid_penalty": 0.0}
    for option in values:
        for name in rules:
            default = settings.rules[name].options.get(option)
            value = settings.options[name].get(option, default)
            if isinstance(value, int | float):
                values[option] = float(value)
                break
    return values["gamma"], values["invalid_penalty"]


def _order(rule: RuleTruth) -> tuple[float, str]:
    """Return what is least for the rule with the highest rank; those without one come last."""
    rank = rule.scores["rank"].value
    return (2.0 if rank is None else -rank, rule.name)


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
