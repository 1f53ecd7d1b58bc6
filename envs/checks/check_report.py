"""The results of a check: a line for each rule, a verdict for each level, and the same as a value of JSON.

The levels are those of OpenEnv's RFC 008 as far as they apply to an environment that is played in this process: its
static level reads a package's manifest and image, and its statistical level needs models of several strengths.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from turncredit.envs.checks.contract_rule import LEVELS, Level

__all__ = ["OPENENV", "CheckReport", "CheckResult", "RuleOutcome"]

RuleOutcome = Literal["ok", "warned", "failed", "skipped"]
OUTCOMES: Final[tuple[RuleOutcome, ...]] = ("ok", "warned", "failed", "skipped")

FORMAT: Final = 1

OPENENV: Final[Mapping[str, tuple[str, ...]]] = {
    "info": ("runtime.reward_well_formed",),
    "spaces": ("runtime.observation_schema",),
    "kept": ("runtime.episode_isolation",),
    "repeatable": ("runtime.episode_determinism", "semantic.replayability"),
    "tasks": ("runtime.task_declaration_accuracy",),
    "admissible": ("runtime.tool_declaration_accuracy",),
    "oracle": ("semantic.oracle_max",),
    "idle": ("semantic.floor_gap",),
    "empty": ("semantic.floor_gap",),
    "leak": ("semantic.no_solution_leakage", "runtime.oracle_containment"),
    "seeds": ("runtime.seed_control",),
    "attack": ("statistical.adversarial_floor",),
}
"""Rule -> the checks of RFC 008 that ask about the same."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one rule.

    Attributes:
        rule: name of the rule.
        outcome: "warned" says that the rule holds with a reservation.
        detail: what was seen, or what is wrong.
        reproduce: a script that shows a failure.
        level: level of the rule.
        values: what was measured.
        cut_short: whether time was short, so that the rule was judged in part or, if it is "skipped", not at all.
    """

    rule: str
    outcome: RuleOutcome
    detail: str
    reproduce: str = ""
    level: Level = "runtime"
    values: Mapping[str, object] = field(default_factory=dict)
    cut_short: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all rules for one environment; `str()` is the report as plain text."""

    env: str
    results: tuple[CheckResult, ...]
    seconds_per_step: float
    """Median wall-clock seconds of one step()."""
    arguments: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0
    seconds: float | None = None
    """Most seconds that the check was allowed to take; None: no limit."""

    @property
    def ok(self) -> bool:
        """Whether no rule failed."""
        return not self.count("failed")

    def count(self, outcome: RuleOutcome) -> int:
        """Return the number of rules with an outcome."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def cut_short(self) -> list[str]:
        """Names of the rules that were judged in part or not at all for want of time."""
        return [result.rule for result in self.results if result.cut_short]

    def verdicts(self) -> dict[Level, str]:
        """Return "pass", "warn" or "fail" for each level of which a rule was tested."""
        outcomes: dict[Level, set[str]] = {level: set() for level in LEVELS}
        for result in self.results:
            outcomes[result.level].add(result.outcome)
        return {level: _verdict(seen) for level, seen in outcomes.items() if seen - {"skipped"}}

    def __getitem__(self, rule: str) -> CheckResult:
        """Return the result of a rule by its name."""
        for result in self.results:
            if result.rule == rule:
                return result
        raise KeyError(rule)

    def __str__(self) -> str:
        """Return one line per rule, then the script of each failure."""
        counts = ", ".join(f"{n} {name}" for name in OUTCOMES if (n := self.count(name)) or name in ("ok", "failed"))
        lines = [f"{self.env}: {counts}"]
        for result in self.results:
            head = f"  {result.outcome:<8}{result.rule:<16} "
            text = textwrap.fill(" ".join(result.detail.split()), 120, initial_indent=head, subsequent_indent=" " * 27)
            lines.append(text)
        if self.cut_short:
            lines.append(f"  not judged, or in part, in {self.seconds:g} s: {', '.join(self.cut_short)}")
        for result in self.results:
            if result.reproduce:
                lines += ["", f"To see {result.rule!r} fail:", "", textwrap.indent(result.reproduce.rstrip(), "    ")]
        return "\n".join(lines)

    def document(self) -> dict[str, object]:
        """Return the report as a value of JSON: verdicts, and for each rule what was measured, and the script."""
        rules = [_entry(result) for result in self.results]
        document: dict[str, object] = {
            "format": FORMAT,
            "env": self.env,
            "arguments": dict(self.arguments),
            "seed": self.seed,
            "verdict": _verdict({result.outcome for result in self.results}),
            "levels": self.verdicts(),
            "seconds_per_step": self.seconds_per_step,
            "seconds": self.seconds,
            "cut_short": self.cut_short,
            "rules": rules,
        }
        return {name: _plain(value) for name, value in document.items()}


def _verdict(outcomes: set[RuleOutcome] | set[str]) -> str:
    return "fail" if "failed" in outcomes else "warn" if "warned" in outcomes else "pass"


def _entry(result: CheckResult) -> dict[str, object]:
    """Return a result as a table of JSON, without what is empty."""
    entry: dict[str, object] = {"rule": result.rule, "level": result.level, "outcome": result.outcome}
    entry["detail"] = result.detail
    if result.rule in OPENENV:
        entry["openenv"] = list(OPENENV[result.rule])
    if result.values:
        entry["measured"] = dict(result.values)
    if result.reproduce:
        entry["reproduce"] = result.reproduce
    return entry


def _plain(value: object) -> object:
    """Return a value of JSON; what JSON has no form for becomes its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)
