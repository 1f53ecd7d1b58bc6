"""Rules against the truth as a picture that fits a column of a paper, and as scatter plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.errors import ReportError
from turncredit.report.figures import COLOURS, Axes, new_figure, save_figure

if TYPE_CHECKING:
    from turncredit.report.truth_scores import RuleTruth, TruthScores

__all__ = ["check_truth_picture", "save_truth_picture"]

SUFFIXES = (".svg", ".pdf", ".png")
WIDTH = 3.3
"""Inches: a column of a paper."""
SCATTERS = 3
"""Rules that are drawn turn by turn."""
NOT_TOLD, RIGHT, WRONG = "not told", "right sign", "wrong sign"
KINDS = {NOT_TOLD: "#999999", RIGHT: COLOURS[0], WRONG: COLOURS[1]}
"""Turns, and their colours; those that are drawn later cover others."""


def check_truth_picture(path: Path) -> None:
    """Check before any work that a picture can be written to a path.

    Raises:
        ReportError: it does not exist with this suffix.
        StoreError: the file cannot be written.
    """
    from turncredit.agents.files.json_files import require_writable

    if path.suffix not in SUFFIXES:
        raise ReportError(f"a picture of rules and truth must end in one of {', '.join(SUFFIXES)}, got {path}")
    require_writable(path)


def save_truth_picture(scores: TruthScores, path: Path) -> None:
    """Write the rank of every rule with its interval, and the turns of the first rules against the truth.

    Rules that say the same are one, the reference is the first.

    Args:
        scores: the rules, best first.
        path: the file.

    Raises:
        ReportError: the suffix is unknown, or matplotlib is not installed.
        StoreError, OSError: the file cannot be written.
    """
    check_truth_picture(path)
    ranked = [rule for rule in scores.rows if rule.scores["rank"].value is not None]
    figure = new_figure(WIDTH, 1.9 + 0.13 * len(ranked))
    top, bottom = figure.subfigures(2, 1, height_ratios=(0.4 + 0.13 * len(ranked), 1.5))
    _draw_ranks(top.subplots(), ranked, scores)
    panels = bottom.subplots(1, min(SCATTERS, max(1, len(ranked))), sharey=True, squeeze=False)[0]
    for panel, rule in zip(panels, ranked, strict=False):
        _draw_turns(panel, rule, scores)
    panels[0].set_ylabel("true advantage", fontsize=6)
    marks = {kind: handle for panel in panels for kind, handle in _marks(panel).items()}
    bottom.legend(
        marks.values(),
        marks,
        loc="outside lower center",
        ncols=len(marks) or 1,
        fontsize=5,
        frameon=False,
        markerscale=2,
    )
    save_figure(figure, path)


def _draw_ranks(axes: Axes, ranked: Sequence[RuleTruth], scores: TruthScores) -> None:
    """Draw the rank of every rule with its interval, and a line at that of the reference."""
    for row, rule in enumerate(ranked):
        score = rule.scores["rank"]
        value = score.value or 0.0
        low, high = (value if end is None else end for end in (score.low, score.high))
        interval = [[max(0.0, value - low)], [max(0.0, high - value)]]
        axes.errorbar([value], [row], xerr=interval, fmt="o", markersize=3, linewidth=0.8, color=COLOURS[0])
        if rule.name == scores.reference:
            axes.axvline(value, color=COLOURS[0], linestyle="--", linewidth=0.6, zorder=0)
    axes.axvline(0, color="#666666", linestyle=":", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(ranked)), [rule.name for rule in ranked], fontsize=5)
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=6)
    reached = "?" if scores.reliability is None else f"{scores.reliability:.2f}"
    reference = f"; dashed: {scores.reference}" if len(ranked) > 1 else ""
    axes.set_xlabel(f"rank correlation with the truth\n(reliability {reached}{reference})", fontsize=6)


def _draw_turns(panel: Axes, rule: RuleTruth, scores: TruthScores) -> None:
    """Draw every turn with two standard errors of its true advantage, in the colour of whether the sign is right."""
    truth = scores.truth
    turns = zip(
        (rule.advantages.values * rule.advantages.keep).tolist(),
        truth.advantage.tolist(),
        truth.error.tolist(),
        strict=True,
    )
    points = [(x, y, 2.0 * error) for x, y, error in turns if math.isfinite(y) and math.isfinite(error)]
    for kind, colour in KINDS.items():
        chosen = [point for point in points if kind_of(*point) == kind]
        if chosen:
            x, y, bars = zip(*chosen, strict=True)
            panel.errorbar(
                x, y, yerr=bars, fmt=".", markersize=1.5, elinewidth=0.3, alpha=0.4, color=colour, label=kind
            )
    panel.axhline(0, color="#666666", linestyle=":", linewidth=0.6, zorder=0)
    panel.axvline(0, color="#666666", linestyle=":", linewidth=0.6, zorder=0)
    panel.set_xlabel(rule.name, fontsize=6)
    panel.tick_params(labelsize=5)


def kind_of(rule: float, advantage: float, bar: float) -> str:
    """Return whether a rule has the sign of a true advantage, or that the forks or the rule do not tell one.

    >>> kind_of(0.1, 0.5, 0.2), kind_of(0.1, -0.5, 0.2), kind_of(0.1, -0.5, 0.6), kind_of(0.0, 0.5, 0.2)
    ('right sign', 'wrong sign', 'not told', 'not told')

    Args:
        rule: what the rule says.
        advantage: the true advantage, an estimate.
        bar: two standard errors of it.
    """
    if rule == 0.0 or abs(advantage) <= bar:
        return NOT_TOLD
    return RIGHT if rule * advantage > 0.0 else WRONG


def _marks(panel: Axes) -> dict[str, object]:
    """Return what a panel draws, by name."""
    handles, labels = panel.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))
