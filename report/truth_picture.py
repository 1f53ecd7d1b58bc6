"""Rules against the truth as a picture that fits a column of a paper, and as scatter plots."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.errors import ReportError
from turncredit.report.figures import COLOURS, new_figure, save_figure

if TYPE_CHECKING:
    from turncredit.report.truth_scores import TruthScores

__all__ = ["check_truth_picture", "save_truth_picture"]

SUFFIXES = (".svg", ".pdf", ".png")
WIDTH = 3.3
"""Inches: a column of a paper."""
SCATTERS = 3
"""Rules that are drawn turn by turn."""


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

    Args:
        scores: the rules, best first.
        path: the file.

    Raises:
        ReportError: the suffix is unknown, or matplotlib is not installed.
        StoreError, OSError: the file cannot be written.
    """
    check_truth_picture(path)
    ranked = [rule for rule in scores.rules if rule.scores["rank"].value is not None]
    figure = new_figure(WIDTH, 1.6 + 0.13 * len(ranked))
    top, bottom = figure.subfigures(2, 1, height_ratios=(0.4 + 0.13 * len(ranked), 1.2))
    axes = top.subplots()
    for row, rule in enumerate(ranked):
        score = rule.scores["rank"]
        value = score.value or 0.0
        low, high = (value if end is None else end for end in (score.low, score.high))
        interval = [[max(0.0, value - low)], [max(0.0, high - value)]]
        axes.errorbar([value], [row], xerr=interval, fmt="o", markersize=3, linewidth=0.8, color=COLOURS[0])
    axes.axvline(0, color="#666666", linestyle=":", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(ranked)), [rule.name for rule in ranked], fontsize=5)
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=6)
    reached = "?" if scores.reliability is None else f"{scores.reliability:.2f}"
    axes.set_xlabel(f"rank correlation with the truth (reliability {reached})", fontsize=6)
    panels = bottom.subplots(1, min(SCATTERS, max(1, len(ranked))), sharey=True, squeeze=False)[0]
    for panel, rule in zip(panels, ranked, strict=False):
        pairs = zip(rule.advantages.values.tolist(), scores.truth.advantage.tolist(), strict=True)
        points = [(x, y) for x, y in pairs if math.isfinite(y)]
        panel.plot([x for x, _ in points], [y for _, y in points], ".", markersize=1.5, alpha=0.4, color=COLOURS[1])
        panel.axhline(0, color="#666666", linestyle=":", linewidth=0.6, zorder=0)
        panel.axvline(0, color="#666666", linestyle=":", linewidth=0.6, zorder=0)
        panel.set_xlabel(rule.name, fontsize=6)
        panel.tick_params(labelsize=5)
    panels[0].set_ylabel("true advantage", fontsize=6)
    save_figure(figure, path)
