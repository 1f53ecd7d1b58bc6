"""The shortest way between two points of the town, on foot or by car, and how it is told."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turncredit.phone.apps.maps_town import Point, StreetPoint, Town, town

__all__ = ["MODES", "Leg", "Route", "far", "route"]

MODES: Final = ("Walking", "Driving")
_WALK: Final = 80.0  # metres a minute
_DRIVE: Final = {"main": 620.0, "street": 380.0, "path": 80.0}
_TURN: Final = math.radians(35)


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a way along one street. Turns: start, straight, left, right."""

    turn: str
    street: str
    metres: int
    heading: str


@dataclass(frozen=True, slots=True)
class Route:
    """A way: its parts, its line on the map, its length and how long it takes."""

    legs: tuple[Leg, ...]
    line: tuple[Point, ...]
    metres: int
    minutes: int


def far(metres: float) -> str:
    """Return a length as people read it.

    >>> far(347), far(1260)
    ('350 m', '1.3 km')
    """
    tens = round(metres / 10) * 10
    return f"{tens} m" if tens < 1000 else f"{tens / 1000:.1f} km"


@lru_cache(maxsize=512)
def route(seed: int | str, start: Point, end: Point, mode: str) -> Route:
    """Return the quickest way between two points, each from the nearest street on.

    Args:
        seed: of the town.
        start: in metres.
        end: in metres.
        mode: one of `MODES`.
    """
    ground = town(seed)
    first, last = ground.nearest(*start), ground.nearest(*end)
    steps = _steps(ground, first, last, mode)
    line = [ground.point(first), *(ground.crossings[crossing] for crossing, _ in steps[:-1]), ground.point(last)]
    pieces: list[tuple[str, Point, Point, float]] = []
    minutes = 0.0
    for (_, edge), a, b in zip(steps, line, line[1:], strict=False):
        length = math.dist(a, b)
        minutes += length / _speed(ground, edge, mode)
        if length >= 1 or len(steps) == 1:
            pieces.append((ground.edges[edge].street, a, b, length))
    legs = _legs(pieces)
    return Route(legs, tuple(line), sum(leg.metres for leg in legs), max(1, math.ceil(minutes)))


def _speed(ground: Town, edge: int, mode: str) -> float:
    return _WALK if mode == "Walking" else _DRIVE[ground.edges[edge].kind]


def _steps(ground: Town, first: StreetPoint, last: StreetPoint, mode: str) -> list[tuple[int, int]]:
    """Return (crossing reached, edge taken) of the quickest way; the last step reaches the goal (Dijkstra)."""
    goal = -1
    waiting: list[tuple[float, int, int, int]] = []  # minutes, crossing, edge, crossing before
    if first.edge == last.edge:
        length = abs(first.along - last.along) * ground.edges[first.edge].length
        heapq.heappush(waiting, (length / _speed(ground, first.edge, mode), goal, first.edge, goal))
    for crossing, length in _ends(ground, first):
        heapq.heappush(waiting, (length / _speed(ground, first.edge, mode), crossing, first.edge, goal))
    ends = dict(_ends(ground, last))
    came: dict[int, tuple[int, int]] = {}
    while waiting:
        minutes, crossing, edge, before = heapq.heappop(waiting)
        if crossing in came:
            continue
        came[crossing] = (edge, before)
        if crossing == goal:
            break
        if crossing in ends:
            more = ends[crossing] / _speed(ground, last.edge, mode)
            heapq.heappush(waiting, (minutes + more, goal, last.edge, crossing))
        for way, other in ground.ways[crossing]:
            if other not in came and (mode == "Walking" or ground.edges[way].kind != "path"):
                more = ground.edges[way].length / _speed(ground, way, mode)
                heapq.heappush(waiting, (minutes + more, other, way, crossing))
    steps = [(goal, came[goal][0])]
    at = came[goal][1]
    while at != goal:
        steps.append((at, came[at][0]))
        at = came[at][1]
    return steps[::-1]


def _ends(ground: Town, spot: StreetPoint) -> list[tuple[int, float]]:
    edge = ground.edges[spot.edge]
    return [(edge.start, spot.along * edge.length), (edge.end, (1 - spot.along) * edge.length)]


_HEADINGS: Final = ("east", "southeast", "south", "southwest", "west", "northwest", "north", "northeast")


def _legs(pieces: list[tuple[str, Point, Point, float]]) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    length, before = 0.0, 0.0
    for n, (street, a, b, metres) in enumerate(pieces):
        angle = math.atan2(b[1] - a[1], b[0] - a[0])
        if n and street == pieces[n - 1][0]:
            length += metres
            legs[-1] = Leg(legs[-1].turn, street, _rounded(length), legs[-1].heading)
        else:
            turn = _turn(angle - before) if n else "start"
            length = metres
            legs.append(Leg(turn, street, _rounded(length), _HEADINGS[round(angle / (math.pi / 4)) % 8]))
        before = angle
    return tuple(legs)


def _rounded(metres: float) -> int:
    return max(10, round(metres / 10) * 10)


def _turn(angle: float) -> str:
    angle = math.remainder(angle, 2 * math.pi)
    if abs(angle) < _TURN:
        return "straight"
    return "right" if angle > 0 else "left"
