"""Curves, and how they are drawn in the terminal with braille characters (2 x 4 dots each)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bit of the dot at [row][column] of a braille cell
_COLOURS = ("cyan", "yellow", "magenta", "green")


@dataclass(frozen=True, slots=True)
class Curve:
    """A named sequence of points; `low` and `high` are the ends of an interval at each point (NaN: unknown), or empty.

    A curve with `points=True` is drawn as markers instead of a line.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    points: bool = False


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """The rectangle of a plot in data units and in dots."""

    x0: float
    x1: float
    y0: float
    y1: float
    columns: int
    rows: int

    def dot(self, x: float, y: float) -> tuple[int, int]:
        """Return column and row (0 at the top) of the dot nearest to a point; points outside move to the border."""
        # Halves, so that the difference of two huge numbers stays finite.
        across = (x / 2 - self.x0 / 2) / ((self.x1 / 2 - self.x0 / 2) or 1.0)
        up = (y / 2 - self.y0 / 2) / ((self.y1 / 2 - self.y0 / 2) or 1.0)
        column = round(min(max(across, 0.0), 1.0) * (self.columns - 1))
        row = round((1.0 - min(max(up, 0.0), 1.0)) * (self.rows - 1))
        return column, row


def segment(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the dots of a straight line between two dots, both included."""
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


def _dots_of(curve: Curve, frame: PlotFrame) -> list[tuple[int, int]]:
    finite = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    places = [frame.dot(x, y) for x, y in finite]
    if curve.points or len(places) < 2:
        return places
    return [dot for a, b in itertools.pairwise(places) for dot in segment(a, b)]


def _frame(curves: Sequence[Curve], y_range: tuple[float, float] | None, width: int, height: int) -> PlotFrame:
    xs = [x for curve in curves for x in curve.x if math.isfinite(x)]
    ys = [y for curve in curves for y in curve.y if math.isfinite(y)]
    low, high = y_range or (min(ys), max(ys))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return PlotFrame(min(xs), max(xs), low, high, 2 * width, 4 * height)


def _number(value: float) -> str:
    return f"{value:.3g}"


def terminal_plot(
    curves: Sequence[Curve], *, width: int = 60, height: int = 10, y_range: tuple[float, float] | None = None
) -> Text:
    """Return the curves as lines of braille, with the ends of both axes and the names.

    Args:
        curves: what to draw; later ones cover earlier ones. Values that are not finite are skipped.
        width: width in characters, without the labels.
        height: height in lines, without the labels.
        y_range: ends of the vertical axis in data units; the range of the data when None.

    Returns:
        Text of `height + 2` lines, or one line if there is no point to draw.
    """
    curves = [curve for curve in curves if any(math.isfinite(y) for y in curve.y)]
    if not curves:
        return Text("(no points to draw yet)")
    frame = _frame(curves, y_range, width, height)
    cells: dict[tuple[int, int], tuple[int, int]] = {}  # (line, column) -> (dots, colour)
    marks: dict[tuple[int, int], int] = {}
    for index, curve in enumerate(curves):
        for column, row in _dots_of(curve, frame):
            cell = (row // 4, column // 2)
            cells[cell] = (cells.get(cell, (0, 0))[0] | _DOTS[row % 4][column % 2], index)
            if curve.points:
                marks[cell] = index
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
