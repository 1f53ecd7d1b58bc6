"""Drawings of the town of Maps: the ground, the marks of places, a route. Units: metres times the scale of a zoom."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from turncredit.phone.apps.maps_places import GROUPS, KINDS
from turncredit.phone.apps.maps_town import HEIGHT, WIDTH, Edge, Park, Point, Town, between, town
from turncredit.phone.screen.fonts import text_width
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.tables import Row
from turncredit.phone.toolkit.widgets import Shape, Spot
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["SCALES", "MapView", "Mark", "drawn", "ground", "here", "marks", "pin", "route_line", "spots_of"]

SCALES: Final = (0.19, 0.34, 0.62, 1.1)
"""Units to a metre, by zoom."""

_MARK: Final = 13.0  # radius of a mark, in units
_STREETS: Final = {"path": (5.0, 1.6), "street": (13.0, 3.4), "main": (19.0, 5.0)}  # metres, and units at least
_NAMED_FROM: Final = 2  # zoom from which small streets show their names
_BUILT_FROM: Final = 2  # zoom from which there are buildings


class MapView(NamedTuple):
    """What is seen of the town: the zoom, the upper left corner and the size, in units; and the size of the font."""

    zoom: int
    left: float
    top: float
    width: float
    height: float
    font: float = 1.0

    @property
    def scale(self) -> float:
        """Units to a metre."""
        return SCALES[self.zoom]


class Area(NamedTuple):
    """A rectangle in units."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Area) -> bool:
        """Return whether two rectangles overlap."""
        across = self.left < other.right and self.right > other.left
        return across and self.top < other.bottom and self.bottom > other.top


@lru_cache(maxsize=12)
def ground(seed: int | str, zoom: int, font: float) -> tuple[Shape, ...]:
    """Return what is drawn below the marks: land, water, parks, buildings, streets and their names."""
    return tuple(_scaled(_ground(town(seed), seed, zoom, font), SCALES[zoom]))


def _scaled(shapes: Iterable[Shape], scale: float) -> Iterator[Shape]:
    """Yield shapes in units that are given in metres; widths are in units already."""
    for shape in shapes:
        points = tuple((x * scale, y * scale) for x, y in shape.points)
        yield Shape(shape.kind, points, shape.colour, shape.width, shape.text, shape.radius, shape.angle, shape.halo)


def _ground(plan: Town, seed: int | str, zoom: int, font: float) -> Iterator[Shape]:
    scale = SCALES[zoom]
    yield from _meadows(seed)
    for park in plan.parks:
        yield Shape("polygon", park.outline, "map_park")
    yield Shape("polygon", plan.market.outline, "map_market")
    if zoom >= _BUILT_FROM:
        yield from _trees(plan.parks, seed)
    yield Shape("polygon", plan.lake, "map_water")
    yield Shape("line", plan.river, "map_water", max(8.0, 68 * scale))
    if zoom >= _BUILT_FROM:
        yield from _buildings(plan, seed)
    yield from _railway(plan, scale)
    for part in (_casing, _surface):
        for kind in _STREETS:
            for _, own, line in (*plan.lines, *plan.roads):
                if own == kind:
                    yield from part(kind, line, scale)
    yield from _names(plan, zoom, font)


def _meadows(seed: int | str) -> Iterator[Shape]:
    """Yield the town's land on the meadows and woods around it."""
    random = KeyedRandom(f"{seed}/maps/meadows")
    yield Shape("box", ((-9000, -9000), (9000, 9000)), "map_meadow")
    for _ in range(26):
        x, y = random.between(-900, WIDTH + 900), random.between(-900, HEIGHT + 900)
        wide, high = random.between(120, 420), random.between(100, 320)
        yield Shape("polygon", _blob(x, y, wide, high, random), random.pick(("map_park", "map_field")))
    yield Shape("polygon", _blob(WIDTH / 2, HEIGHT / 2 - 20, WIDTH * 0.66, HEIGHT * 0.62, random), "map_land")


def _blob(x: float, y: float, wide: float, high: float, random: KeyedRandom) -> tuple[Point, ...]:
    """Return a round outline with a few dents."""
    dents = [(n, random.between(0, 628) / 100, random.between(2, 7) / 100) for n in (2, 3, 5)]
    points = []
    for step in range(48):
        angle = step * math.pi / 24
        reach = 1 + sum(deep * math.cos(n * angle + at) for n, at, deep in dents)
        points.append((x + wide * reach * math.cos(angle), y + high * reach * math.sin(angle)))
    return tuple(points)


def _buildings(plan: Town, seed: int | str) -> Iterator[Shape]:
    random = KeyedRandom(f"{seed}/maps/buildings")
    free = [park.outline for park in (*plan.parks, plan.market)]
    for edge in plan.edges:
        if edge.kind != "path":
            for outline in _row_of_houses(plan, edge, random):
                middle = (sum(x for x, _ in outline) / 4, sum(y for _, y in outline) / 4)
                wet = min(math.dist(middle, point) for point in plan.river) < 72
                if not wet and not any(_within(middle, park) for park in free):
                    yield Shape("polygon", outline, "map_building")


def _row_of_houses(plan: Town, edge: Edge, random: KeyedRandom) -> Iterator[tuple[Point, ...]]:
    a, b = plan.crossings[edge.start], plan.crossings[edge.end]
    right, down = (b[0] - a[0]) / edge.length, (b[1] - a[1]) / edge.length
    for side in (1, -1):
        at = 38.0
        while at < edge.length - 45:
            wide, deep, back = random.between(16, 34), random.between(16, 30), random.between(13, 19)
            if random.chance(0.85):
                near, far = side * back, side * (back + deep)
                corners = ((at, near), (at + wide, near), (at + wide, far), (at, far))
                yield tuple((a[0] + right * x - down * y, a[1] + down * x + right * y) for x, y in corners)
            at += wide + random.between(5, 16)


def _within(point: Point, outline: Sequence[Point]) -> bool:
    """Return whether a point is inside an outline."""
    x, y = point
    inside = False
    for (x1, y1), (x2, y2) in zip(outline, (*outline[1:], outline[0]), strict=True):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            inside = not inside
    return inside


def _trees(parks: Sequence[Park], seed: int | str) -> Iterator[Shape]:
    random = KeyedRandom(f"{seed}/maps/trees")
    for park in parks:
        left, right = min(x for x, _ in park.outline), max(x for x, _ in park.outline)
        top, bottom = min(y for _, y in park.outline), max(y for _, y in park.outline)
        for _ in range(round((right - left) * (bottom - top) / 2600)):
            x, y = random.between(round(left), round(right)), random.between(round(top), round(bottom))
            size = random.between(7, 13)
            if _within((x, y), park.outline):
                yield Shape("disc", ((x - size, y - size), (x + size, y + size)), "map_tree")


def _railway(plan: Town, scale: float) -> Iterator[Shape]:
    yield Shape("line", plan.railway, "map_rail", max(1.6, 6 * scale))
    for a, b in zip(plan.railway, plan.railway[1:], strict=False):
        length = math.dist(a, b)
        right, down = (b[0] - a[0]) / length, (b[1] - a[1]) / length
        for n in range(0, round(length), 34):
            x, y = a[0] + right * n, a[1] + down * n
            yield Shape("line", ((x - down * 9, y + right * 9), (x + down * 9, y - right * 9)), "map_rail", 1.2)


def _width(kind: str, scale: float) -> float:
    metres, least = _STREETS[kind]
    return max(least, metres * scale)


def _casing(kind: str, line: tuple[Point, ...], scale: float) -> Iterator[Shape]:
    if kind != "path":
        yield from _stroke(line, "map_edge", _width(kind, scale) + 1.6, scale)


def _surface(kind: str, line: tuple[Point, ...], scale: float) -> Iterator[Shape]:
    colour = {"path": "map_path", "street": "map_road", "main": "map_main"}[kind]
    yield from _stroke(line, colour, _width(kind, scale), scale)


def _stroke(line: tuple[Point, ...], colour: str, width: float, scale: float) -> Iterator[Shape]:
    """Yield a line with round ends."""
    yield Shape("line", line, colour, width)
    reach = width / scale / 2
    for x, y in (line[0], line[-1]):
        yield Shape("disc", ((x - reach, y - reach), (x + reach, y + reach)), colour)


def _names(plan: Town, zoom: int, font: float) -> Iterator[Shape]:
    """Yield the names of streets along them, of the river and of the market."""
    scale = SCALES[zoom]
    size = (8.0 if zoom < _NAMED_FROM else 9.5) * font
    for name, kind, line in plan.lines:
        if zoom == 0 or kind == "path" or (zoom < _NAMED_FROM and kind != "main"):
            continue
        for n, (a, b) in enumerate(itertools.pairwise(line)):
            room = math.dist(a, b) * scale
            if room > len(name) * size * 0.62 and (n % 2 == 0 or len(line) == 2):
                yield _along(name, a, b, size)
    middle = len(plan.river) // 2
    yield _along("River Elder", plan.river[middle - 2], plan.river[middle + 2], size + 1.5)
    if zoom:
        (x1, y1), (x2, y2) = plan.market.outline[0], plan.market.outline[2]
        middle_of_market = ((x1 + x2) / 2, (y1 + y2) / 2 + 30 / scale)
        yield Shape("text", (middle_of_market,), "map_label", size, plan.market.name, halo="map_halo")


def _along(name: str, a: Point, b: Point, size: float) -> Shape:
    angle = math.degrees(math.atan2(b[1] - a[1], b[0] - a[0]))
    angle = angle - 180 if angle > 90 else angle + 180 if angle < -90 else angle
    return Shape("text", (between(a, b, 0.5),), "map_label", size, name, angle=angle, halo="map_halo")


# What lies on the ground


class Mark(NamedTuple):
    """A place that is seen; x and y in units."""

    id: int
    name: str
    kind: str
    x: float
    y: float


def marks(view: MapView, rows: Iterable[Row], taken: Sequence[Spot]) -> tuple[Mark, ...]:
    """Return the places that are seen; where there is no room for a mark, later places have none.

    Args:
        view: what is seen.
        rows: places, the most important first.
        taken: where no mark may be.
    """
    result: list[Mark] = []
    scale, left, top, right, bottom = view.scale, view.left, view.top, view.left + view.width, view.top + view.height
    reach = 2 * _MARK + 2
    covered = [Area(spot.left, spot.top, spot.right, spot.bottom) for spot in taken]
    for row in rows:
        x, y = row["x"] * scale, row["y"] * scale
        if not (left - _MARK < x < right + _MARK and top - _MARK < y < bottom + _MARK):
            continue
        if any(abs(x - other.x) < reach and abs(y - other.y) < reach for other in result):
            continue
        own = _around(x, y)
        if not any(own.meets(area) for area in covered):
            result.append(Mark(row["_id"], row["name"], row["kind"], x, y))
    return tuple(result)


def _around(x: float, y: float) -> Area:
    return Area(x - _MARK - 1, y - _MARK - 1, x + _MARK + 1, y + _MARK + 1)


def spots_of(shown: Iterable[Mark], show: Callable[..., None]) -> list[Spot]:
    """Return what can be tapped of marks; a tap calls `show(ctx, id=...)`."""
    return [Spot(*_around(m.x, m.y), f"{m.name}, {m.kind.lower()}", do(show, id=m.id)) for m in shown]


def _marked(shown: Sequence[Mark], zoom: int, size: float) -> Iterator[Shape]:
    """Yield marks, and their names where there is room."""
    full = [_around(mark.x, mark.y) for mark in shown]
    for mark in shown:
        x, y = mark.x, mark.y
        kind = KINDS.get(mark.kind, KINDS["Park"])
        yield _round(x, y + 0.8, _MARK, "map_edge")
        yield _round(x, y, _MARK, "#ffffff")
        yield _round(x, y, _MARK - 1.6, GROUPS[kind.group])
        yield Shape("icon", ((x - 7.5, y - 7.5), (x + 7.5, y + 7.5)), "#ffffff", text=kind.icon)
        half = text_width(mark.name, 10) * size / 10 * 0.54
        box = Area(x - half, y + _MARK + 1, x + half, y + _MARK + 4 + size)
        if zoom and not any(box.meets(other) for other in full):
            full.append(box)
            yield Shape("text", ((x, y + _MARK + 3 + size / 2),), "text", size, mark.name, halo="map_halo")


def _round(x: float, y: float, radius: float, colour: str) -> Shape:
    return Shape("disc", ((x - radius, y - radius), (x + radius, y + radius)), colour)


def here(point: Point, scale: float) -> list[Shape]:
    """Return the mark of the phone's own place."""
    x, y = point[0] * scale, point[1] * scale
    return [_round(x, y, 10, "#ffffff"), _round(x, y, 7.5, "#2f6fe4")]


def pin(point: Point, scale: float) -> list[Shape]:
    """Return a large pin whose tip is at a point."""
    x, y = point[0] * scale, point[1] * scale
    body = ((x, y), (x - 11, y - 20), (x + 11, y - 20))
    return [Shape("polygon", body, "#c5221f"), _round(x, y - 24, 13, "#c5221f"), _round(x, y - 24, 5, "#ffffff")]


def route_line(line: Sequence[Point], scale: float) -> list[Shape]:
    """Return the line of a route with its two ends."""
    points = tuple((x * scale, y * scale) for x, y in line)
    shapes = [Shape("line", points, "map_route_edge", 7.0), Shape("line", points, "map_route", 5.0)]
    x, y = points[0]
    return [*shapes, _round(x, y, 7, "map_route_edge"), _round(x, y, 4.5, "#ffffff"), *pin(line[-1], scale)]


def drawn(
    seed: int | str,
    view: MapView,
    below: Sequence[Shape] = (),
    shown: tuple[Mark, ...] = (),
    above: Sequence[Shape] = (),
) -> Callable[[], tuple[Shape, ...]]:
    """Return a function that returns the ground, shapes, marks and more shapes: it is called for screenshots only."""
    return partial(_drawn, seed, view.zoom, view.font, tuple(below), shown, tuple(above))


def _drawn(
    seed: int | str,
    zoom: int,
    font: float,
    below: tuple[Shape, ...],
    shown: tuple[Mark, ...],
    above: tuple[Shape, ...],
) -> tuple[Shape, ...]:
    return (*ground(seed, zoom, font), *below, *_marked(shown, zoom, 10.0 * font), *above)
