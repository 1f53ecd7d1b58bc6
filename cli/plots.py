"""Curves: in the terminal from braille dots (2 x 4 a character), and as a PNG.

Left out on purpose: log scales, legends that move, anything interactive. Whoever wants those has `metrics.jsonl`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from turnwise.cli.errors import UserError

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bit of the dot at [row][column] of a braille cell
_COLOURS = ("cyan", "yellow", "magenta", "green")


@dataclass(frozen=True, slots=True)
class Curve:
    """A named row of points; `low` and `high` are the ends of an interval at each point, or empty.

    A curve with `points=True` is drawn as marks instead of a line.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    points: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle of a plot in data units and in dots."""

    x0: float
    x1: float
    y0: float
    y1: float
    columns: int
    rows: int

    def dot(self, x: float, y: float) -> tuple[int, int]:
        """Column and row (0 at the top) of the dot nearest to a point; points outside are moved to the border."""
        # Halves, so that the difference of two huge numbers stays finite.
        across = (x / 2 - self.x0 / 2) / ((self.x1 / 2 - self.x0 / 2) or 1.0)
        up = (y / 2 - self.y0 / 2) / ((self.y1 / 2 - self.y0 / 2) or 1.0)
        column = round(min(max(across, 0.0), 1.0) * (self.columns - 1))
        row = round((1.0 - min(max(up, 0.0), 1.0)) * (self.rows - 1))
        return column, row


def segment(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots of a straight line between two dots, both ends included."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    if steps == 0:
        return [start]
    return [
        (
            round(start[0] + (end[0] - start[0]) * step / steps),
            round(start[1] + (end[1] - start[1]) * step / steps),
        )
        for step in range(steps + 1)
    ]


def _dots_of(curve: Curve, frame: Frame) -> list[tuple[int, int]]:
    finite = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    places = [frame.dot(x, y) for x, y in finite]
    if curve.points or len(places) < 2:
        return places
    return [dot for a, b in itertools.pairwise(places) for dot in segment(a, b)]


def _frame(curves: Sequence[Curve], y_range: tuple[float, float] | None, width: int, height: int) -> Frame:
    xs = [x for curve in curves for x in curve.x if math.isfinite(x)]
    ys = [y for curve in curves for y in curve.y if math.isfinite(y)]
    low, high = y_range or (min(ys), max(ys))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return Frame(min(xs), max(xs), low, high, 2 * width, 4 * height)


def _number(value: float) -> str:
    return f"{value:.3g}"


def terminal_plot(
    curves: Sequence[Curve], *, width: int = 60, height: int = 10, y_range: tuple[float, float] | None = None
) -> Text:
    """The curves as lines of braille, with the ends of both axes and the names.

    Args:
        curves: what to draw; later ones lie on top. Values that are not finite are skipped.
        width: characters across, without the labels.
        height: lines, without the labels.
        y_range: ends of the vertical axis in data units; the range of the data when None.

    Returns:
        Text of `height + 2` lines; one line that says so when there is not a point to draw.
    """
    curves = [curve for curve in curves if any(math.isfinite(y) for y in curve.y)]
    if not curves:
        return Text("(no points to draw yet)")
    frame = _frame(curves, y_range, width, height)
    cells: dict[tuple[int, int], tuple[int, int]] = {}  # (line, column) -> (dots, colour)
    marks: dict[tuple[int, int], int] = {}
    for index, curve in enumerate(curves):
        for column, row in _dots_of(curve, frame):
            place = (row // 4, column // 2)
            cells[place] = (cells.get(place, (0, 0))[0] | _DOTS[row % 4][column % 2], index)
            if curve.points:
                marks[place] = index
    middle = frame.y0 / 2 + frame.y1 / 2
    labels = {0: _number(frame.y1), height // 2: _number(middle), height - 1: _number(frame.y0)}
    indent = max(7, *(len(label) for label in labels.values()))
    text = Text()
    for line in range(height):
        text.append(f"{labels[line]:>{indent}} ┤" if line in labels else f"{'':>{indent}} │")
        for column in range(width):
            bits, colour = cells.get((line, column), (0, 0))
            if (line, column) in marks:
                text.append("●", style=_COLOURS[marks[line, column] % len(_COLOURS)])
            else:
                text.append(chr(0x2800 + bits) if bits else " ", style=_COLOURS[colour % len(_COLOURS)] if bits else "")
        text.append("\n")
    left, right = _number(frame.x0), _number(frame.x1)
    margin = " " * (indent + 2)
    text.append(f"{margin[:-1]}└{'─' * width}\n{margin}{left}{right:>{max(width - len(left), 1)}}\n{margin}")
    for index, curve in enumerate(curves):
        mark = "●" if curve.points else "━"
        text.append(f"{mark} {curve.name}   ", style=_COLOURS[index % len(_COLOURS)])
    return text


def save_png(
    curves: Sequence[Curve], path: Path, *, title: str, x_label: str, y_label: str, y_range: tuple[float, float] | None
) -> None:
    """Write the curves as a PNG of 1200 x 675 dots.

    Args:
        curves: what to draw; intervals become error bars.
        path: the file; its folder exists.
        title: the line above.
        x_label: what the horizontal axis counts.
        y_label: what the vertical axis counts.
        y_range: ends of the vertical axis, or None.

    Raises:
        UserError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("A PNG of the curve needs matplotlib: pip install turnwise[train].") from error
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    for index, curve in enumerate(curves):
        colour = f"C{index}"
        if curve.low and curve.high:
            below = [y - low for y, low in zip(curve.y, curve.low, strict=True)]
            above = [high - y for y, high in zip(curve.y, curve.high, strict=True)]
            axes.errorbar(
                curve.x, curve.y, yerr=[below, above], fmt="o", color=colour, capsize=4, label=curve.name, zorder=3
            )
        else:
            axes.plot(curve.x, curve.y, "o" if curve.points else "-", color=colour, linewidth=1.6, label=curve.name)
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    if y_range is not None:
        axes.set_ylim(*y_range)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path)


_SAFE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that people with any colour vision tell apart (M. Okabe and K. Ito, 2008)."""
_STYLES = ("-", "--", "-.", ":")
_MARKS = "osD^vPX"
APART = 0.012
"""Distance of neighbouring points with intervals, as a share of the axis."""
_LEGEND = 80
"""Letters of a legend that fit under one board."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One of several plots side by side: lines with bands, or points with intervals where `points` is set."""

    title: str
    y_label: str
    curves: tuple[Curve, ...]


def save_charts(
    charts: Sequence[Chart], path: Path, *, title: str, x_label: str, y_range: tuple[float, float] | None
) -> None:
    """Write plots side by side as one PNG; a name has one colour, one stroke and one mark in all of them.

    Args:
        charts: what to draw. A curve's `low` and `high` become a band, or error bars where it has `points`; those of
            different curves are moved a little apart, so that none hides another.
        path: the file; its folder exists.
        title: the line above.
        x_label: what the horizontal axes count.
        y_range: ends of the vertical axes, or None.

    Raises:
        UserError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("A PNG of the curves needs matplotlib: pip install turnwise[train].") from error
    names = list(dict.fromkeys(curve.name for board in charts for curve in board.curves))
    figure = Figure(figsize=(6 * len(charts), 5.2), dpi=150, layout="constrained")
    figure.suptitle(title)
    handles: dict[str, Any] = {}
    for axes, board in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        width = max((x for curve in board.curves for x in curve.x), default=0.0)
        for curve in board.curves:
            number = names.index(curve.name)
            aside = APART * width * (number - (len(names) - 1) / 2) if curve.points else 0.0
            handles[curve.name] = _draw(axes, curve, number, aside)
        axes.set(title=board.title, xlabel=x_label, ylabel=board.y_label)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if y_range is not None:
            axes.set_ylim(*y_range)
        axes.grid(alpha=0.25)
    longest = max((len(name) for name in handles), default=0)
    columns = max(1, min(4, len(handles), _LEGEND * len(charts) // (longest + 6)))  # all of them equally wide
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns, frameon=False)
    figure.savefig(path)


def _draw(axes: Any, curve: Curve, number: int, aside: float) -> Any:
    """Draw one curve of a board; what stands for it in the legend."""
    look: dict[str, Any] = {
        "color": _SAFE[number % len(_SAFE)],
        "linestyle": _STYLES[number // len(_SAFE) % len(_STYLES)],
        "marker": _MARKS[number % len(_MARKS)],
        "markersize": 5,
    }
    if not curve.points:
        if curve.low:
            axes.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=0.15, linewidth=0)
        return axes.plot(curve.x, curve.y, linewidth=1.8, markevery=(0.02 * number, 0.15), **look)[0]
    ends = None
    if curve.low:
        below = [y - low for y, low in zip(curve.y, curve.low, strict=True)]
        ends = [below, [high - y for y, high in zip(curve.y, curve.high, strict=True)]]
    return axes.errorbar([x + aside for x in curve.x], curve.y, yerr=ends, linewidth=1.0, capsize=3, **look)
