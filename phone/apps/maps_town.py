"""The town of Maps: streets, a river, parks and places, the same for the same seed. Lengths are in metres.

The streets are a bent grid of crossings with a diagonal, cut by a river that only a few streets cross. In the market,
in the park and on the quay people walk and nobody drives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from turncredit.phone.content.people import STREETS, TOWNS
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["HEIGHT", "NAME", "WIDTH", "Edge", "Park", "Point", "StreetPoint", "Town", "town"]

Point = tuple[float, float]

NAME: Final = TOWNS[0]
WIDTH, HEIGHT = 2000, 2300
_COLUMNS, _ROWS = 7, 8
_BENT: Final = 34  # metres that a crossing may lie beside its place in the grid
_RIVER: Final = 62  # half of its width, with the banks
_MARKET, _QUAY = "Market Square", "North Quay"
_PARKS: Final = ("Linden Park", "Swan Park", "Botanic Park", "Castle Park", "Beech Park")
_GREENS: Final = ("Little Green", "Chestnut Green", "Rose Green", "Mill Green")


@dataclass(frozen=True, slots=True)
class Edge:
    """A piece of street between two crossings. Kinds: main, street, path (for people on foot only)."""

    start: int
    end: int
    street: str
    kind: str
    length: float
    number: int  # house number at the start


@dataclass(frozen=True, slots=True)
class Park:
    """A park or a square, with its outline."""

    name: str
    outline: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class StreetPoint:
    """A point beside a street: on which piece, how far along it from 0 to 1."""

    edge: int
    along: float


@dataclass(frozen=True, slots=True)
class Town:
    """Everything that is fixed to the ground. Streets are drawn as `lines`: name, kind and crossings in order."""

    crossings: tuple[Point, ...]
    edges: tuple[Edge, ...]
    lines: tuple[tuple[str, str, tuple[Point, ...]], ...]
    roads: tuple[tuple[str, str, tuple[Point, ...]], ...]  # out of the town, to be drawn only
    river: tuple[Point, ...]
    railway: tuple[Point, ...]
    parks: tuple[Park, ...]
    market: Park
    lake: tuple[Point, ...]
    ways: tuple[tuple[tuple[int, int], ...], ...] = field(repr=False)  # by crossing: (edge, other crossing)

    def point(self, spot: StreetPoint) -> Point:
        """Return where a spot lies on the middle of its street."""
        edge = self.edges[spot.edge]
        return between(self.crossings[edge.start], self.crossings[edge.end], spot.along)

    def nearest(self, x: float, y: float) -> StreetPoint:
        """Return the spot on a street that is nearest to a point."""
        best, nearest, share = math.inf, 0, 0.0
        for i, edge in enumerate(self.edges):
            start, end = self.crossings[edge.start], self.crossings[edge.end]
            if math.dist((x, y), start) - edge.length < best:  # else no part of the street can be nearer
                along = _share(start, end, (x, y))
                away = math.dist((x, y), between(start, end, along))
                if away < best:
                    best, nearest, share = away, i, along
        return StreetPoint(nearest, share)


def between(a: Point, b: Point, share: float) -> Point:
    """Return the point that lies at a share of the way from one to another."""
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share


def _share(a: Point, b: Point, p: Point) -> float:
    right, down = b[0] - a[0], b[1] - a[1]
    along = ((p[0] - a[0]) * right + (p[1] - a[1]) * down) / (right * right + down * down)
    return min(1.0, max(0.0, along))


@lru_cache(maxsize=64)
def town(seed: int | str) -> Town:
    """Return the town of a phone with this seed."""
    return _Builder(KeyedRandom(f"{seed}/maps/town")).build()


class _Builder:
    """Draws a town."""

    def __init__(self, random: KeyedRandom) -> None:
        self.random = random
        self.bank = random.between(3, 4)  # the river flows below this row of crossings
        self.crossings = [self._crossing(i, j) for j in range(_ROWS) for i in range(_COLUMNS)]
        self.edges: list[Edge] = []
        self.lines: list[tuple[str, str, tuple[Point, ...]]] = []
        self.bridges = sorted(random.shuffled(range(_COLUMNS))[:3])

    def _crossing(self, i: int, j: int) -> Point:
        wide, high = WIDTH / _COLUMNS, (HEIGHT - 260) / _ROWS
        x = (i + 0.5) * wide + self.random.between(-_BENT, _BENT)
        y = (j + 0.5) * high + self.random.between(-_BENT, _BENT) + (230 if j > self.bank else 0)
        return x, y

    def build(self) -> Town:
        random = self.random
        names = random.shuffled([name for name in STREETS if name not in (_MARKET, _QUAY)])
        park = self._park_corner()
        hole = (park[0] + 1) + (park[1] + 1) * _COLUMNS
        main_row, main_column = (1 if park[1] > self.bank else _ROWS - 2), random.pick(self.bridges)
        for j in range(_ROWS):
            chain = [j * _COLUMNS + i for i in range(_COLUMNS)]
            name = _QUAY if j == self.bank + 1 else names.pop()
            self._street(name, "main" if j == main_row else "street", chain, hole)
        for i in range(_COLUMNS):
            chain = [j * _COLUMNS + i for j in range(_ROWS)]
            name = names.pop()
            kind = "main" if i == main_column else "street"
            if i in self.bridges:
                self._street(name, kind, chain, hole)
            else:
                self._street(name, kind, chain[: self.bank + 1], hole)
                self._street(names.pop() if names else name, kind, chain[self.bank + 1 :], hole)
        park_name = random.pick(_PARKS)
        self._paths(park_name, hole)
        market = self._market_corner(park)
        self._market(market)
        parks = (Park(park_name, self._block(*park, 2)), Park(random.pick(_GREENS), self._block(*self._green(park), 1)))
        return Town(
            tuple(self.crossings),
            tuple(self.edges),
            tuple(self.lines),
            tuple(self._roads(main_row, main_column)),
            self._river(),
            self._railway(),
            parks,
            Park(_MARKET, self._block(*market, 1)),
            self._lake(hole),
            self._ways(),
        )

    def _park_corner(self) -> tuple[int, int]:
        """Return the upper left crossing of the park, on the side of the river where there is more room."""
        rows = range(1, self.bank - 1) if self.bank == 4 else range(self.bank + 2, _ROWS - 2)
        return self.random.between(0, _COLUMNS - 3), self.random.pick(rows)

    def _market_corner(self, park: tuple[int, int]) -> tuple[int, int]:
        j = self.bank + 1 if park[1] < self.bank else self.bank - 1
        return self.random.between(1, _COLUMNS - 3), j

    def _green(self, park: tuple[int, int]) -> tuple[int, int]:
        return (park[0] + 3) % (_COLUMNS - 1), 0 if park[1] > self.bank else _ROWS - 2

    def _street(self, name: str, kind: str, chain: Sequence[int], hole: int) -> None:
        """Add a street through crossings; it does not go through the park."""
        number, run = 1, [self.crossings[chain[0]]]
        for a, b in pairwise(chain):
            length = math.dist(self.crossings[a], self.crossings[b])
            if hole in (a, b):
                self._line(name, kind, run)
                run = [self.crossings[b]]
            else:
                self.edges.append(Edge(a, b, name, kind, length, number))
                run.append(self.crossings[b])
            number += 2 * round(length / 14)
        self._line(name, kind, run)

    def _line(self, name: str, kind: str, run: list[Point]) -> None:
        if len(run) > 1:
            self.lines.append((name, kind, tuple(run)))

    def _paths(self, name: str, hole: int) -> None:
        """Lead paths from the middle of the park to the four corners and two sides."""
        others = [hole + step for step in (-_COLUMNS - 1, -_COLUMNS + 1, _COLUMNS - 1, _COLUMNS + 1, -_COLUMNS, 1)]
        for i, other in enumerate(others):
            length = math.dist(self.crossings[hole], self.crossings[other])
            self.edges.append(Edge(hole, other, name, "path", length, 1 + 40 * i))
            self._line(name, "path", [self.crossings[hole], self.crossings[other]])

    def _market(self, corner: tuple[int, int]) -> None:
        """Give the square to people on foot: a path across it, between two corners."""
        a = corner[0] + corner[1] * _COLUMNS
        b = a + _COLUMNS + 1
        self.edges.append(Edge(a, b, _MARKET, "path", math.dist(self.crossings[a], self.crossings[b]), 1))
        self._line(_MARKET, "path", [self.crossings[a], self.crossings[b]])

    def _block(self, i: int, j: int, size: int) -> tuple[Point, ...]:
        """Return the outline of a square of blocks."""
        row = _COLUMNS
        first = i + j * row
        ring = [first + n for n in range(size)]
        ring += [first + size + n * row for n in range(size)]
        ring += [first + size + size * row - n for n in range(size)]
        ring += [first + (size - n) * row for n in range(size)]
        return tuple(self.crossings[n] for n in ring)

    def _roads(self, row: int, column: int) -> Iterator[tuple[str, str, tuple[Point, ...]]]:
        """Lead the main streets out of the town, and a few others."""
        for j in (0, row, self.bank + 1):
            kind, first, last = "main" if j == row else "street", j * _COLUMNS, (j + 1) * _COLUMNS - 1
            yield "", kind, self._outwards(first, (-1500, self.random.between(-160, 160)))
            yield "", kind, self._outwards(last, (1500, self.random.between(-160, 160)))
        for i in (column, (column + 3) % _COLUMNS):
            kind = "main" if i == column else "street"
            yield "", kind, self._outwards(i, (self.random.between(-160, 160), -1500))
            yield "", kind, self._outwards(i + (_ROWS - 1) * _COLUMNS, (self.random.between(-90, 90), 1500))

    def _outwards(self, crossing: int, step: tuple[int, int]) -> tuple[Point, ...]:
        x, y = self.crossings[crossing]
        return (
            (x, y),
            (x + step[0] / 5, y + step[1] / 5),
            (x + step[0] * 0.5, y + step[1] * 0.3),
            (x + step[0], y + step[1]),
        )

    def _river(self) -> tuple[Point, ...]:
        """Return the middle line of the river, from left to right between two rows."""
        middle = []
        for i in range(_COLUMNS):
            above, below = (self.crossings[i + (self.bank + n) * _COLUMNS] for n in (0, 1))
            lean = self.random.between(-18, 18)
            middle.append(((above[0] + below[0]) / 2, (above[1] + below[1]) / 2 + 20 + lean))
        first, last = middle[0], middle[-1]
        line = [(-700.0, first[1] - 160), (-150.0, first[1] - 30), *middle]
        line += [(WIDTH + 150.0, last[1] + 40), (WIDTH + 700.0, last[1] + 150)]
        return _smooth(line)

    def _railway(self) -> tuple[Point, ...]:
        low = max(y for _, y in self.crossings) + 95
        return (-700.0, low + 60), (300.0, low), (WIDTH - 300.0, low), (WIDTH + 700.0, low + 90)

    def _lake(self, hole: int) -> tuple[Point, ...]:
        x, y = self.crossings[hole]
        x, y = x - 105, y + 10
        turns = [n * math.pi / 12 for n in range(24)]
        return tuple(
            (x + 62 * math.cos(a) * (1 + 0.12 * math.cos(3 * a)), y + 100 * math.sin(a) * (1 + 0.1 * math.sin(2 * a)))
            for a in turns
        )

    def _ways(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        ways: list[list[tuple[int, int]]] = [[] for _ in self.crossings]
        for i, edge in enumerate(self.edges):
            ways[edge.start].append((i, edge.end))
            ways[edge.end].append((i, edge.start))
        return tuple(map(tuple, ways))


def _smooth(line: Sequence[Point]) -> tuple[Point, ...]:
    """Return a line through the same points without corners (Catmull and Rom)."""
    points: list[Point] = []
    for n in range(1, len(line) - 2):
        a, b, c, d = line[n - 1 : n + 3]
        for step in range(6):
            t = step / 6
            points.append((_between(a[0], b[0], c[0], d[0], t), _between(a[1], b[1], c[1], d[1], t)))
    return (line[0], *points, line[-2], line[-1])


def _between(a: float, b: float, c: float, d: float, t: float) -> float:
    return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
