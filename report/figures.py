"""Figures as PNG, SVG or PDF files, drawn with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from turncredit.installation import needs
from turncredit.report.errors import ReportError
from turncredit.report.plots import Curve

Figure = Any
Axes = Any
"""Figure and axes of matplotlib, which may be missing."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinguishable with any colour vision (M. Okabe and K. Ito, 2008)."""
_STYLES = ("-", "--", "-.", ":")
_MARKERS = "osD^vPX"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A named row of a dot plot: a value with its interval, and the single values behind it."""

    name: str
    value: float
    low: float
    high: float
    single: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Points:
    """Named points of a scatter plot, with the numbers of their colour and of their marker."""

    name: str
    xy: tuple[tuple[float, float], ...]
    colour: int
    marker: int


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """Return an empty matplotlib figure of a size in inches; layout None is for axes with fixed positions.

    Raises:
        ReportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ReportError(needs("drawing figures needs matplotlib", "train")) from error
    return Figure(figsize=(width, height), dpi=150, layout=layout)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, with text that stays text in PDF and SVG.

    The same figure gives the same SVG file: it has no date.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib import rc_context

    metadata = {"Date": None} if path.suffix == ".svg" else None
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "turncredit"}):
        figure.savefig(path, metadata=metadata)


def save_curves(
    curves: Sequence[Curve], path: Path, *, title: str, x_label: str, y_label: str, y_range: tuple[float, float] | None
) -> None:
    """Write curves as a figure of 8 x 4.5 inches.

    Args:
        curves: what to draw; intervals become error bars.
        path: the file; its folder exists.
        title: the heading.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        y_range: ends of the vertical axis, or None.

    Raises:
        ReportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    for number, curve in enumerate(curves):
        look = {"color": COLOURS[number % len(COLOURS)], "label": curve.name}
        if curve.low and curve.high:
            below = [y - low for y, low in zip(curve.y, curve.low, strict=True)]
            above = [high - y for y, high in zip(curve.y, curve.high, strict=True)]
            axes.errorbar(curve.x, curve.y, yerr=[below, above], fmt="o", capsize=4, zorder=3, **look)
        else:
            axes.plot(curve.x, curve.y, "o" if curve.points else "-", linewidth=1.6, **look)
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    if y_range is not None:
        axes.set_ylim(*y_range)
    axes.grid(alpha=0.25)
    if curves:
        axes.legend(frameon=False)
    save_figure(figure, path)


def save_curves_and_dots(
    curves: Sequence[Curve],
    estimates: Sequence[Estimate],
    path: Path,
    *,
    titles: tuple[str, str],
    x_label: str,
    reference: float | None = None,
) -> None:
    """Write curves with bands on the left and a dot plot of final values on the right.

    The rows of the dot plot are the legend of the curves: both have the colour and the marker of their name.

    Args:
        curves: shares in [0, 1] over iterations, with `low` and `high` as a band.
        estimates: shares in [0, 1], one row each, from top to bottom.
        path: the file; its folder exists.
        titles: of the left and the right part; what stands in parentheses goes on a second line.
        x_label: label of the left horizontal axis.
        reference: value that the dot plot marks with a line, or None.

    Raises:
        ReportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    names = list(dict.fromkeys([*(estimate.name for estimate in estimates), *(curve.name for curve in curves)]))
    figure = new_figure(10, max(4.2, 1.2 + 0.32 * len(estimates)))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for curve in curves:
        look = _look(names.index(curve.name))
        if curve.low:
            left.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=0.15, linewidth=0)
        left.plot(curve.x, curve.y, linewidth=1.8, markevery=(0.02 * names.index(curve.name), 0.15), **look)
    left.set(xlabel=x_label, ylabel="success", ylim=(0, _top(curves)))
    left.xaxis.get_major_locator().set_params(integer=True)
    for row, estimate in enumerate(estimates):
        look = {**_look(names.index(estimate.name)), "linestyle": "none"}
        interval = [[max(0.0, estimate.value - estimate.low)], [max(0.0, estimate.high - estimate.value)]]
        right.errorbar([estimate.value], [row], xerr=interval, capsize=3, **{**look, "markersize": 7})
        right.plot(
            estimate.single, [row + 0.25] * len(estimate.single), ".", color=look["color"], alpha=0.5, markersize=4
        )
    if reference is not None:
        right.axvline(reference, color="#666666", linestyle=":", linewidth=1, zorder=0)
        right.text(reference, len(estimates) - 0.55, " warm start", color="#666666", fontsize="small")
    right.set_yticks(range(len(estimates)), [estimate.name for estimate in estimates])
    for row, label in enumerate(right.get_yticklabels()):
        label.set_color(_look(row)["color"])
    right.set(xlabel="success", xlim=(-0.03, 1.03), ylim=(len(estimates) - 0.5, -0.5))
    for axes, title in ((left, titles[0]), (right, titles[1])):
        axes.set_title(title.replace(" (", "\n("), fontsize="medium")
        axes.grid(alpha=0.25)
    save_figure(figure, path)


def save_scatters(panels: Mapping[str, Sequence[Points]], path: Path, *, y_label: str) -> None:
    """Write scatter plots side by side that share their vertical axis and one legend.

    Args:
        panels: by the label of the horizontal axis; all have the same names in the same order.
        path: the file; its folder exists.
        y_label: label of the vertical axis, in which zero is marked.

    Raises:
        ReportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    figure = new_figure(3 * len(panels), 3.8)
    rows = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    for axes, (label, groups) in zip(rows[0], panels.items(), strict=True):
        for group in groups:
            look = {**_look(group.colour, group.marker), "linestyle": "none", "label": group.name}
            axes.plot([x for x, _ in group.xy], [y for _, y in group.xy], alpha=0.8, **look)
        axes.axhline(0, color="#666666", linestyle=":", linewidth=1, zorder=0)
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
    rows[0][0].set_ylabel(y_label)
    figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    save_figure(figure, path)


def _top(curves: Sequence[Curve]) -> float:
    """Return the upper end of an axis that holds all the curves: the next tenth above them."""
    ends = [y for curve in curves for y in (*curve.y, *curve.high)]
    highest = max((y for y in ends if not math.isnan(y)), default=1.0)
    return min(1.0, int(10 * highest + 1.5) / 10)


def _look(number: int, marker: int | None = None) -> dict[str, object]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _STYLES[number // len(COLOURS) % len(_STYLES)],
        "marker": _MARKERS[(number if marker is None else marker) % len(_MARKERS)],
        "markersize": 5,
    }
