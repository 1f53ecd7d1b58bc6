"""The table of rules against the truth, cut into several where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from turncredit.report.table_columns import TRUTH, TRUTH_NOTE, TRUTH_STARRED, TableColumn, filled

if TYPE_CHECKING:
    from turncredit.credit.truth import Interval
    from turncredit.report.truth_scores import RuleTruth, TruthScores

ALWAYS = "rule"
"""The column with which every part of the table begins."""
COUNTS = "n"
"""Name of the last row: what each column was computed from."""


@dataclass(frozen=True, slots=True)
class ExplainedTable:
    """A table with its columns, and with what else a reader has to know."""

    table: Table
    columns: tuple[TableColumn, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Cells:
    column: TableColumn
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        return max(map(len, [self.column.head, *self.cells])) + 1


def truth_tables(scores: TruthScores, width: int) -> list[ExplainedTable]:
    """Return the table of rules in as many parts as the width takes, each with every rule.

    Args:
        scores: the rules, of which those that say the same have one row.
        width: characters of a line.
    """
    rules = scores.rows
    first = _Cells(TRUTH[ALWAYS], (*(rule.name for rule in rules), COUNTS))
    parts: list[list[_Cells]] = []
    room = 0
    for cells in _columns(scores, rules):
        if not parts or cells.width > room:
            parts.append([])
            room = width - first.width
        parts[-1].append(cells)
        room -= cells.width
    return [_explained([first, *part], scores.reference) for part in parts]


def _columns(scores: TruthScores, rules: Sequence[RuleTruth]) -> list[_Cells]:
    heads = filled(TRUTH, reference=scores.reference)
    columns = []
    for measure in heads:
        measured = [rule.scores.get(measure) for rule in rules]
        counts = [score.n for score in measured if score is not None]
        if counts:
            starred = [rule.beyond_noise(measure) and measure != "rank" for rule in rules]
            columns.append(_Cells(heads[measure], (*_starred(measured, starred), f"{max(counts):,}")))
        if measure == "true":
            true = ["-" if rule.rank_true is None else f"{rule.rank_true:.2f}" for rule in rules]
            columns.append(_Cells(heads[measure], (*true, "")))
        if measure == "against" and len(rules) > 1:
            differences = [rule.differences.get("rank") for rule in rules]
            starred = [rule.beyond_noise("rank") for rule in rules]
            columns.append(_Cells(heads[measure], (*_starred(differences, starred, sign="+"), "")))
    return columns


def _explained(part: Sequence[_Cells], reference: str) -> ExplainedTable:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for index, cells in enumerate(part):
        table.add_column(cells.column.head, justify="right" if index else "left", no_wrap=True)
    for number, row in enumerate(zip(*(cells.cells for cells in part), strict=True)):
        table.add_row(*row, style="dim" if number == len(part[0].cells) - 1 else None)
    text = [cell for cells in part for cell in cells.cells]
    notes = [TRUTH_NOTE] if any("[" in cell for cell in text) else []
    notes += [TRUTH_STARRED.format(reference=reference)] if any(cell.endswith("*") for cell in text) else []
    return ExplainedTable(table, tuple(cells.column for cells in part), tuple(notes))


def _starred(scores: Sequence[Interval | None], starred: Sequence[bool], sign: str = "") -> list[str]:
    """Return cells of numbers with a star behind some; if there are any, the others end in a space."""
    marks = {True: "*", False: " "} if any(starred) else {False: ""}
    return [f"{_cell(score, sign)}{marks[star]}" for score, star in zip(scores, starred, strict=True)]


def _cell(score: Interval | None, sign: str = "") -> str:
    """Return a number with its interval; that of a difference has a sign."""
    if score is None or score.value is None:
        return "-"
    value = f"{_rounded(score.value):{sign}.2f}"
    if score.low is None or score.high is None:
        return value
    return f"{value} [{_rounded(score.low):.2f},{_rounded(score.high):.2f}]"


def _rounded(value: float) -> float:
    """Return a number with two digits, and zero without a sign."""
    return round(value, 2) + 0.0
