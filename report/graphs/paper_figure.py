"""A diagram that fits a column of a paper: 3.3 inches wide, from the start (top) to the end, as SVG or PDF.

States are small circles without text. Decisive steps are numbered, and a key below the graph names their actions, so
that the figure is legible at its printed size. There is no title; a caption belongs to the paper.
"""

from __future__ import annotations

from pathlib import Path

from turncredit.report.figures import Axes, Figure, new_figure, save_figure
from turncredit.report.graphs.diagram import Diagram, DiagramEdge, DiagramNode
from turncredit.report.graphs.layout import layout_of
from turncredit.report.graphs.style import FILL, LOST_INK, WON_INK, colour, signed

WIDTH = 3.3
"""Inches: a column of the usual two-column formats."""
_LAYER, _KEY_LINE, _SCALE = 0.36, 0.125, 0.42
_TALLEST = 8.5
_FONT = 6.5
_KEYS = 10
"""Maximum number of decisive steps that the key names."""

Point = tuple[float, float]


def save_column(diagram: Diagram, path: Path, rule: str | None = None) -> None:
    """Write a diagram as a narrow figure.

    Args:
        diagram: what to draw.
        path: an .svg or .pdf file; its folder exists.
        rule: the rule whose advantages colour the steps; the first if None.

    Raises:
        ReportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    rule = rule or (diagram.rules[0] if diagram.rules else "")
    layout = layout_of(diagram)
    numbered = _decisive(diagram, rule)
    layers, key = max(layout.layers, default=0) + 1, _KEY_LINE * len(numbered)
    height = min(_TALLEST, _LAYER * layers + _SCALE + key + 0.25)
    figure = new_figure(WIDTH, height, layout=None)
    below = (_SCALE + key) / height
    axes = figure.add_axes((0.02, below, 0.96, 1 - below))
    axes.set(xlim=(-0.08, 1.08), ylim=(-(layers - 1) - 0.5, 0.6))
    axes.axis("off")
    low, high = min((y for _, y in layout.centres), default=0.0), max((y for _, y in layout.centres), default=1.0)
    points = [
        ((y - low) / ((high - low) or 1.0), float(-layer))
        for (_, y), layer in zip(layout.centres, layout.layers, strict=True)
    ]
    for edge in sorted(diagram.edges, key=lambda edge: edge.kind == "decisive"):
        _draw_edge(axes, diagram, edge, points, rule)
    for number, edge in enumerate(numbered, start=1):
        middle = [(a + b) / 2 for a, b in zip(points[edge.start], points[edge.end], strict=True)]
        axes.text(*middle, str(number), fontsize=_FONT, ha="center", va="center", bbox=_BADGE, zorder=5)
    for node, point in zip(diagram.nodes, points, strict=True):
        _draw_node(axes, node, point)
    _draw_key(figure, diagram, rule, numbered, height)
    save_figure(figure, path)


_BADGE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "#111111", "linewidth": 0.6}


def _decisive(diagram: Diagram, rule: str) -> list[DiagramEdge]:
    """Return the decisive edges that are numbered, those with the largest advantages first."""
    edges = [edge for edge in diagram.edges if edge.kind == "decisive" and edge.start != edge.end]
    return sorted(edges, key=lambda edge: -abs(edge.advantage.get(rule, 0.0)))[:_KEYS]


def _draw_edge(axes: Axes, diagram: Diagram, edge: DiagramEdge, points: list[Point], rule: str) -> None:
    paint = colour(edge.advantage.get(rule, 0.0), diagram.extent.get(rule, 0.0))
    (x0, y0), (x1, y1) = points[edge.start], points[edge.end]
    if edge.start == edge.end:  # a loop: a ring beside the node
        axes.plot([x0 - 0.035], [y0], "o", markersize=5, fillstyle="none", markeredgecolor=paint, zorder=1)
        return
    bend = 0.08 if y1 < y0 else 0.35  # steps back and sideways are arcs
    arrow = {
        "arrowstyle": "-|>,head_width=0.14,head_length=0.28",
        "color": paint,
        "linewidth": min(0.5 + 0.35 * edge.count**0.5, 3.0) + (0.8 if edge.kind == "decisive" else 0.0),
        "linestyle": (0, (3, 2)) if edge.kind == "dead end" else "-",
        "alpha": 1.0 if y1 < y0 else 0.6,
        "shrinkA": 3.5,
        "shrinkB": 3.5,
        "connectionstyle": f"arc3,rad={bend}",
    }
    axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow, zorder=3 if edge.kind == "decisive" else 2)


def _draw_node(axes: Axes, node: DiagramNode, point: Point) -> None:
    fill, border = FILL[node.fate]
    look = {
        "markerfacecolor": fill,
        "markeredgecolor": border,
        "markeredgewidth": 1.2 if node.trajectories > 1 else 0.6,
    }
    axes.plot(*[[value] for value in point], "s" if node.states > 1 else "o", markersize=6.5, zorder=4, **look)
    if node.start:
        axes.text(point[0], point[1] + 0.28, "start", fontsize=_FONT, ha="center", va="bottom")
    marks = [(node.ends_won, "★", WON_INK), (node.ends - node.ends_won, "✕", LOST_INK)]
    shown = [(f"{sign}{count}", ink) for count, sign, ink in marks if count]
    for row, (text, ink) in enumerate(shown):
        axes.text(point[0] + 0.03, point[1] - 0.3 * row, text, fontsize=_FONT, color=ink, va="center", zorder=6)


def _draw_key(figure: Figure, diagram: Diagram, rule: str, numbered: list[DiagramEdge], height: float) -> None:
    """Draw the colour scale and, below it, the actions of the numbered steps."""
    extent, line = diagram.extent.get(rule, 0.0), _KEY_LINE / height
    top = (_SCALE + _KEY_LINE * len(numbered) - 0.1) / height
    scale = figure.add_axes((0.36, top - 0.6 * line, 0.3, 0.6 * line))
    scale.bar(range(41), [1] * 41, width=1.0, color=[colour(n / 20 - 1, 1) for n in range(41)])
    scale.set(xlim=(-0.5, 40.5), ylim=(0, 1))
    scale.axis("off")
    text = {"fontsize": _FONT, "va": "center"}
    figure.text(0.02, top - 0.3 * line, f"advantage ({rule})", **text)
    figure.text(0.35, top - 0.3 * line, f"{-extent:+.2f}", ha="right", **text)
    figure.text(0.67, top - 0.3 * line, f"{extent:+.2f}", **text)
    figure.text(0.02, top - 1.5 * line, "★ won · ✕ not won · numbered: decisive · dashed: dead end", **text)
    for number, edge in enumerate(numbered, start=1):
        action = " ".join(edge.actions[0][0].split()) or "(no action)"
        more = f" +{len(edge.actions) - 1}" if len(edge.actions) > 1 else ""
        words = f"{number}: {action if len(action) <= 38 else action[:37] + '…'}{more} ×{edge.count}"
        figure.text(0.02, top - (1.5 + number) * line, words, **text)
        figure.text(0.98, top - (1.5 + number) * line, signed(edge.advantage.get(rule, 0.0)), ha="right", **text)
