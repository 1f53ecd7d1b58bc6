"""Layered layout of a diagram: layers from left to right by distance from the start, wins above losses.

The distance is that of the shortest path, so every forward edge spans one layer. Backward edges and edges within a
layer are drawn as arcs. The layout is a heuristic: a few barycentre passes, enough for the fifty or so nodes of a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turncredit.report.graphs.diagram import FATES, Diagram, DiagramEdge

WIDTH, HEIGHT = 156.0, 50.0
"""Size of a node in pixels."""
PITCH, ROW = 312.0, 76.0
"""Distance between layers, and minimum distance of two nodes in a layer, in pixels."""
MARGIN = 40.0
_PASSES = 12

Point = tuple[float, float]
Links = dict[int, list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class DiagramLayout:
    """The centre and the layer of each node, and the size of the drawing."""

    centres: tuple[Point, ...]
    layers: tuple[int, ...]
    width: float
    height: float


def layout_of(diagram: Diagram) -> DiagramLayout:
    """Return the layout of a diagram, which is deterministic."""
    layers = _layers(diagram)
    columns = _columns(diagram, layers)
    links = _links(diagram, layers)
    for sweep in range(_PASSES):
        _order(diagram, columns, links, forwards=sweep % 2 == 0)
        _untangle(diagram, columns, links)
    height = [0.0] * len(diagram.nodes)
    for column in columns:
        for row, node in enumerate(column):
            height[node] = ROW * (row - (len(column) - 1) / 2)
    for sweep in range(_PASSES):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            _settle(column, links, height)
    top = min(height, default=0.0)
    centres = tuple(
        (MARGIN + WIDTH / 2 + PITCH * layer, MARGIN + HEIGHT + y - top) for layer, y in zip(layers, height, strict=True)
    )
    bottom = max((y for _, y in centres), default=0.0) + HEIGHT + MARGIN
    return DiagramLayout(centres, tuple(layers), 2 * MARGIN + WIDTH + PITCH * max(layers, default=0), bottom)


def _layers(diagram: Diagram) -> list[int]:
    """Return the minimum number of steps from a start to each node."""
    following: dict[int, list[int]] = {}
    for edge in diagram.edges:
        following.setdefault(edge.start, []).append(edge.end)
    layer = {node: 0 for node, data in enumerate(diagram.nodes) if data.start}
    queue = list(layer)
    for node in queue:  # grows during the iteration
        for other in following.get(node, ()):
            if other not in layer:
                layer[other] = layer[node] + 1
                queue.append(other)
    return [layer.get(node, 0) for node in range(len(diagram.nodes))]


def _links(diagram: Diagram, layers: Sequence[int]) -> Links:
    """Return the neighbours of each node in other layers with their weights; backward edges have little weight."""
    links: Links = {}
    for edge in diagram.edges:
        if layers[edge.start] == layers[edge.end]:
            continue
        pull = edge.count * (1.0 if layers[edge.end] > layers[edge.start] else 0.1)
        links.setdefault(edge.start, []).append((edge.end, pull))
        links.setdefault(edge.end, []).append((edge.start, pull))
    return links


def _columns(diagram: Diagram, layers: Sequence[int]) -> list[list[int]]:
    """Return the nodes of each layer, ordered by fate and share of wins."""
    columns: list[list[int]] = [[] for _ in range(max(layers, default=0) + 1)]
    for node, layer in enumerate(layers):
        columns[layer].append(node)
    for column in columns:
        column.sort(key=lambda node: (_fate(diagram, node), -_share_won(diagram, node), node))
    return columns


def _fate(diagram: Diagram, node: int) -> int:
    return FATES.index(diagram.nodes[node].fate)


def _share_won(diagram: Diagram, node: int) -> float:
    return diagram.nodes[node].won / max(diagram.nodes[node].trajectories, 1)


def _order(diagram: Diagram, columns: list[list[int]], links: Links, *, forwards: bool) -> None:
    """Sort each layer by the mean position of its neighbours in the previous (or next) layer, within each fate."""
    for number in range(1, len(columns)) if forwards else range(len(columns) - 2, -1, -1):
        beside = _rows(columns[number - 1 if forwards else number + 1])
        rows = _rows(columns[number])
        wish = {p: _mean(((beside[o], w) for o, w in links.get(p, ()) if o in beside), rows[p]) for p in rows}
        columns[number].sort(key=lambda node, wish=wish: (_fate(diagram, node), wish[node], node))  # type: ignore[misc]


def _untangle(diagram: Diagram, columns: list[list[int]], links: Links) -> None:
    """Swap adjacent nodes of a layer where that reduces edge crossings."""
    for number, column in enumerate(columns):
        sides = [_rows(columns[other]) for other in (number - 1, number + 1) if 0 <= other < len(columns)]
        for row in range(len(column) - 1):
            upper, lower = column[row], column[row + 1]
            if _fate(diagram, upper) == _fate(diagram, lower) and _crossings(upper, lower, sides, links) > _crossings(
                lower, upper, sides, links
            ):
                column[row], column[row + 1] = lower, upper


def _crossings(above: int, below: int, sides: Sequence[dict[int, float]], links: Links) -> int:
    """Count the edge crossings of two nodes if one is placed above the other."""
    return sum(
        side[first] > side[second]
        for side in sides
        for first, _ in links.get(above, ())
        if first in side
        for second, _ in links.get(below, ())
        if second in side
    )


def _rows(column: Sequence[int]) -> dict[int, float]:
    """Return the row of each node, counted from the middle of its layer."""
    return {node: row - (len(column) - 1) / 2 for row, node in enumerate(column)}


def _settle(column: Sequence[int], links: Links, height: list[float]) -> None:
    """Move the nodes of a layer towards their neighbours, keeping their order and minimum distance."""
    wish = [_mean(((height[other], pull) for other, pull in links.get(node, ())), height[node]) for node in column]
    placed: list[float] = []
    for y in wish:
        placed.append(y if not placed else max(y, placed[-1] + ROW))
    shift = sum(y - at for y, at in zip(wish, placed, strict=True)) / max(len(wish), 1)
    for node, y in zip(column, placed, strict=True):
        height[node] = y + shift


def _mean(values: Iterable[tuple[float, float]], otherwise: float) -> float:
    pairs = list(values)
    weight = sum(w for _, w in pairs)
    return sum(v * w for v, w in pairs) / weight if weight > 0 else otherwise


def curve(layout: DiagramLayout, edge: DiagramEdge, bend: float = 0.0) -> tuple[Point, Point, Point, Point]:
    """Return the control points of the cubic curve of an edge.

    Args:
        layout: positions of the nodes.
        edge: the edge.
        bend: offset of the middle from the straight line in pixels, for parallel edges.
    """
    (x0, y0), (x1, y1) = layout.centres[edge.start], layout.centres[edge.end]
    jump = layout.layers[edge.end] - layout.layers[edge.start]
    if edge.start == edge.end:
        x, y = x0 - WIDTH / 4, y0 - HEIGHT / 2
        return (x - 16, y), (x - 26, y - 34), (x + 26, y - 34), (x + 16, y)
    if jump > 0:
        a, b = (x0 + WIDTH / 2, y0), (x1 - WIDTH / 2 - 7, y1)
        reach = (b[0] - a[0]) * 0.45
        return a, (a[0] + reach, y0 + bend), (b[0] - reach, y1 + bend), b
    if jump == 0:
        side = 1 if y1 > y0 else -1
        a, b = (x0 + WIDTH * 0.3, y0 + side * HEIGHT / 2), (x1 + WIDTH * 0.3, y1 - side * (HEIGHT / 2 + 7))
        out = 60 + abs(y1 - y0) * 0.25 + bend
        return a, (a[0] + out, a[1] + side * 14), (b[0] + out, b[1] - side * 14), b
    a, b = (x0 - WIDTH * 0.25, y0 + HEIGHT / 2), (x1 + WIDTH * 0.25, y1 + HEIGHT / 2 + 7)
    sag = 34 + 14 * -jump + bend
    return a, (a[0] - 40, max(y0, y1) + HEIGHT / 2 + sag), (b[0] + 40, max(y0, y1) + HEIGHT / 2 + sag), b


def along(points: tuple[Point, Point, Point, Point], share: float) -> Point:
    """Return the point of a cubic curve at a share of its parameter, in [0, 1]."""
    remainder = 1.0 - share
    weights = (remainder**3, 3 * remainder**2 * share, 3 * remainder * share**2, share**3)
    return (
        sum(w * p[0] for w, p in zip(weights, points, strict=True)),
        sum(w * p[1] for w, p in zip(weights, points, strict=True)),
    )
