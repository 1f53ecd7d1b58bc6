"""Cards: the result of one player on every panel of a suite, and the paired comparison of two cards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.json_files import read_json, validated, write_json
from turncredit.evaluation.comparison import Comparison, compare
from turncredit.evaluation.panels import Panel, panel_json
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.evaluation.seed_statistics import holm
from turncredit.evaluation.statistics import mean_of_rates
from turncredit.evaluation.suite import digest

__all__ = ["Card", "CardComparison", "CardPanel", "Status", "compare_cards"]

VERSION = 1
Status = Literal["played", "unavailable", "unplayable"]
"""Whether a panel was played, this machine lacks what it needs, or the player cannot play it."""


@dataclass(frozen=True)
class CardPanel:
    """One panel of a card."""

    name: str
    env: str
    status: Status
    reason: str = ""
    """Why it was not played."""
    result: EvaluationResult | None = None

    @property
    def digest(self) -> str:
        """Identity of the panel that was played; "" if it was not."""
        return "" if self.result is None else digest(self.result.panel)


@dataclass(frozen=True)
class Card:
    """A player's results on a suite."""

    name: str
    """Name of the player."""
    suite: str
    panels: tuple[CardPanel, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    """Model, command, versions, machine, times: for information."""

    @property
    def played(self) -> tuple[EvaluationResult, ...]:
        """Results of the panels with at least one episode without an error."""
        results = [panel.result for panel in self.panels if panel.result is not None]
        return tuple(result for result in results if result.summary().success.n)

    def mean(self) -> tuple[float, float, float] | None:
        """Return the unweighted mean success of the played panels with its 95 % interval; None if there is none."""
        rates = [result.summary().success for result in self.played]
        return mean_of_rates([(rate.k, rate.n) for rate in rates]) if rates else None

    def result_of(self, identity: str) -> EvaluationResult | None:
        """Return the result on the panel with this digest, or None."""
        return next((panel.result for panel in self.panels if identity and panel.digest == identity), None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the card as JSON: for each panel its tasks, its episodes column by column, and a summary.

        Raises:
            EvaluationError: the path is a folder or a device.
            OSError: the file cannot be written.
        """
        content = {
            "version": VERSION,
            "name": self.name,
            "suite": self.suite,
            "about": dict(self.about),
            "cards": [_panel_content(panel) for panel in self.panels],
        }
        write_json(Path(path), content, indent=None)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Card:
        """Return the card of a file.

        Raises:
            EvaluationError: the file is not a card.
            OSError: the file cannot be read.
        """
        content = read_json(Path(path), "a card of `turncredit bench`", "cards", VERSION)
        complaint = f"{path} is not a card"
        try:
            panels = tuple(_panel_of(entry, complaint) for entry in content["cards"])
            return cls(str(content["name"]), str(content["suite"]), panels, dict(content["about"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise EvaluationError(f"{complaint}: {type(error).__name__}: {error}") from error


def _panel_content(panel: CardPanel) -> dict[str, object]:
    content: dict[str, object] = {"name": panel.name, "env": panel.env, "status": panel.status, "reason": panel.reason}
    result = panel.result
    if result is not None:
        content |= {
            "digest": panel.digest,
            "seconds": result.seconds,
            "settings": dict(result.settings),
            "memory": dict(result.memory),
            "summary": asdict(result.summary()),
            "panel": panel_json(result.panel),
            "columns": _columns(result),
        }
    return content


def _columns(result: EvaluationResult) -> dict[str, list[object]]:
    """Return the episodes column by column; a column with nothing but defaults is left out."""
    columns = {}
    for entry in fields(EpisodeRow):
        values = [getattr(row, entry.name) for row in result.rows]
        if entry.name != "task" and any(value != entry.default for value in values):
            columns[entry.name] = values
    if [row.task for row in result.rows] != list(result.panel.tasks):
        columns["task"] = [row.task for row in result.rows]
    return columns


def _panel_of(entry: Mapping[str, Any], complaint: str) -> CardPanel:
    if entry["status"] not in get_args(Status):
        raise EvaluationError(f"{complaint}: status must be one of {', '.join(get_args(Status))}")
    result = None
    if "panel" in entry:
        columns = {"task": entry["panel"]["tasks"], **entry["columns"]}
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        content = {name: entry[name] for name in ("panel", "seconds", "settings")}
        content["memory"] = entry.get("memory", {})  # cards of earlier versions do not say
        result = validated(EvaluationResult, {**content, "rows": rows}, complaint)
    return CardPanel(entry["name"], entry["env"], entry["status"], entry["reason"], result)


@dataclass(frozen=True)
class CardComparison:
    """Two cards, panel by panel and overall; differences are second minus first."""

    panels: Mapping[str, Comparison]
    holm: Mapping[str, float]
    """P-values of success with Holm's correction for the number of panels."""
    overall: Comparison
    """All tasks of these panels together."""
    left_out: Mapping[str, str]
    """Panels that could not be compared, and why."""


def compare_cards(first: Card, second: Card) -> CardComparison:
    """Return the paired comparison of two cards on the panels that both played.

    Args:
        first: the baseline.
        second: the card that is compared with it.

    Raises:
        EvaluationError: a panel has other tasks in the second card, or there is no panel that both played.
    """
    others = {panel.name: panel for panel in second.panels}
    pairs: dict[str, tuple[EvaluationResult, EvaluationResult]] = {}
    left_out: dict[str, str] = {}
    for panel in first.panels:
        other = others.pop(panel.name, None)
        if other is None:
            left_out[panel.name] = "only in the first"
        elif panel.result is None or other.result is None:
            left_out[panel.name] = panel.reason or other.reason or "not played"
        else:
            pairs[panel.name] = (panel.result, other.result)
    left_out |= dict.fromkeys(others, "only in the second")
    comparisons: dict[str, Comparison] = {}
    for name, (a, b) in pairs.items():
        try:
            comparisons[name] = compare(a, b)
        except EvaluationError as error:
            if digest(a.panel) != digest(b.panel):
                raise EvaluationError(f"panel {name}: {error}") from error
            left_out[name] = str(error)
    if not comparisons:
        raise EvaluationError(f"the cards have no panel that both played: {_listed(left_out)}")
    corrected = dict(zip(comparisons, holm([comparison.p_success for comparison in comparisons.values()]), strict=True))
    overall = compare(
        _together([pairs[name][0] for name in comparisons]), _together([pairs[name][1] for name in comparisons])
    )
    return CardComparison(comparisons, corrected, overall, left_out)


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name} ({reason})" for name, reason in reasons.items())


def _together(results: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the episodes of several panels as one result, with the number of the panel before each task."""
    rows = [replace(row, task=f"{number}/{row.task}") for number, result in enumerate(results) for row in result.rows]
    tasks = [f"{number}/{task}" for number, result in enumerate(results) for task in result.panel.tasks]
    return EvaluationResult(Panel("all panels", tuple(tasks)), tuple(rows))
