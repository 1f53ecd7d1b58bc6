"""The places of Maps: shops, restaurants, offices, sights; their addresses, hours, phone numbers, ratings, reviews."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.apps.maps_town import NAME, Point, StreetPoint, Town, between, town
from turncredit.phone.content.people import FIRST_NAMES
from turncredit.phone.toolkit.tables import Columns, Row
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["GROUPS", "KINDS", "Kind", "hours_on", "me", "places", "reviews_of"]


class Kind(NamedTuple):
    """A kind of place: how it is shown, how many there are, its names, and when it opens.

    Hours are the earliest and latest hour of opening and of closing, and how likely it opens on Saturday and Sunday.
    """

    group: str
    icon: str
    least: int
    most: int
    names: tuple[str, ...]
    hours: tuple[int, int, int, int, float, float]


GROUPS: Final[Mapping[str, str]] = {
    "Food": "#d9622b",
    "Shops": "#2c6fbb",
    "Health": "#c2385f",
    "Leisure": "#2f8a57",
    "Services": "#6a5aa8",
}
"""Groups of kinds, and the colours of their marks."""

KINDS: Final[Mapping[str, Kind]] = {
    "Restaurant": Kind(
        "Food",
        "utensils",
        5,
        6,
        (
            "Golden Fork",
            "Blue Lantern",
            "Olive Court",
            "Three Larks",
            "Saffron Table",
            "The Old Ferry",
            "Nettle & Salt",
        ),
        (11, 12, 21, 23, 1.0, 0.7),
    ),
    "Café": Kind(
        "Food",
        "cup",
        4,
        5,
        ("Paper Moon", "Slow Bean", "Corner Cup", "Clockwork Coffee", "Little Harbour", "Second Spoon"),
        (7, 9, 17, 19, 1.0, 0.6),
    ),
    "Bakery": Kind("Food", "store", 2, 3, ("Warm Crust", "Sugar Loaf", "Morning Oven"), (6, 7, 14, 18, 1.0, 0.4)),
    "Supermarket": Kind(
        "Shops", "cart", 3, 3, ("Fresh Basket", "Daily Market", "Green Aisle"), (7, 8, 20, 22, 1.0, 0.2)
    ),
    "Bookshop": Kind("Shops", "book", 2, 2, ("Dog Ear Books", "Last Chapter"), (9, 10, 18, 19, 0.9, 0.0)),
    "Florist": Kind("Shops", "label", 2, 2, ("Wild Stem", "Petal Room"), (8, 9, 17, 19, 1.0, 0.3)),
    "Bicycle shop": Kind("Shops", "store", 1, 2, ("Two Spokes", "Chain & Bell"), (9, 10, 18, 19, 0.9, 0.0)),
    "Pharmacy": Kind(
        "Health", "cross", 3, 3, ("Lion Pharmacy", "Rose Pharmacy", "Bridge Pharmacy"), (8, 9, 18, 20, 0.9, 0.0)
    ),
    "Dentist": Kind("Health", "cross", 2, 2, ("Bright Dental", "Willow Dental"), (8, 9, 15, 18, 0.2, 0.0)),
    "Doctor": Kind("Health", "cross", 2, 2, ("Hillside Practice", "Canal Practice"), (8, 9, 14, 18, 0.0, 0.0)),
    "Museum": Kind("Leisure", "museum", 2, 2, ("Clock Museum", "Ferry Museum"), (9, 11, 16, 18, 1.0, 0.9)),
    "Cinema": Kind("Leisure", "video", 1, 1, ("Lantern Cinema",), (13, 15, 22, 23, 1.0, 1.0)),
    "Swimming pool": Kind("Leisure", "pool", 1, 1, ("Riverside Pool",), (6, 8, 20, 22, 1.0, 1.0)),
    "Gym": Kind("Leisure", "stopwatch", 2, 2, ("Iron Hall", "Step Ahead"), (6, 7, 21, 23, 1.0, 0.8)),
    "Library": Kind("Services", "book", 1, 1, ("Northfield Library",), (9, 10, 17, 20, 0.8, 0.0)),
    "Post office": Kind("Services", "mail", 2, 2, ("Main Post Office", "Post Office South"), (8, 9, 16, 18, 0.7, 0.0)),
    "Bank": Kind("Services", "money", 2, 2, ("Meridian Bank", "Valley Savings"), (9, 9, 15, 17, 0.0, 0.0)),
    "Hotel": Kind("Services", "bed", 2, 3, ("Hotel Swan", "The Weaver", "Station Hotel"), (0, 0, 24, 24, 1.0, 1.0)),
    "Town hall": Kind("Services", "flag", 1, 1, ("Northfield Town Hall",), (8, 9, 15, 18, 0.0, 0.0)),
    "Station": Kind("Services", "train", 1, 1, ("Northfield Station",), (0, 0, 24, 24, 1.0, 1.0)),
    "Park": Kind("Leisure", "tree", 0, 0, (), (0, 0, 24, 24, 1.0, 1.0)),
}
"""All kinds by name. Parks come from the town."""

_WITHOUT_PHONE: Final = ("Park", "Station")
_ASIDE: Final = 25.0  # metres from the middle of the street to a place
_APART: Final = 58.0  # between two places, at least
_GOOD: Final = (
    "Friendly people and fair prices.",
    "Always a pleasure to come here.",
    "Clean, quiet and easy to find.",
    "I come here every week.",
    "Worth the walk across the river.",
)
_FAIR: Final = (
    "It was all right, but not more.",
    "You have to wait a little.",
    "Hard to find, good once you are there.",
)
_POOR: Final = ("I waited for half an hour.", "It was loud and crowded.", "Closed when I came, in spite of its hours.")


def places(seed: int | str) -> list[Columns]:
    """Return the rows of all places of a town."""
    random, ground = KeyedRandom(f"{seed}/maps/places"), town(seed)
    rows: list[Columns] = []
    taken: set[str] = set()
    for kind, about in KINDS.items():
        count = random.between(about.least, about.most)
        for name in random.shuffled(about.names)[:count]:
            address, (x, y) = _address(random, ground, taken, rows, _wanted(kind, ground))
            rows.append(_row(random, kind, name, address, x, y))
    for park in ground.parks:
        x, y = _middle(park.outline)
        address = _next_to(ground, (x, y))
        rows.append(_row(random, "Park", park.name, address, x, y))
    return rows


def _row(random: KeyedRandom, kind: str, name: str, address: str, x: float, y: float) -> Columns:
    phone = f"+1 555 {random.between(200, 999)} {random.between(0, 9999):04d}"
    return {
        "name": name,
        "kind": kind,
        "address": f"{address}, {NAME}",
        "phone": "" if kind in _WITHOUT_PHONE else phone,
        **_hours(random, KINDS[kind]),
        "rating": random.between(29, 49) / 10,
        "x": round(x),
        "y": round(y),
    }


def _hours(random: KeyedRandom, kind: Kind) -> dict[str, str]:
    first, last, early, late, saturday, sunday = kind.hours
    if late == 24:
        return dict.fromkeys(("weekdays", "saturday", "sunday"), "00:00-24:00")
    opens, closes = random.between(first, last), random.between(early, late)
    half = random.pick(("00", "30"))
    weekend = max(opens + 2, closes - random.between(1, 4))
    return {
        "weekdays": f"{opens:02d}:{half}-{closes:02d}:00",
        "saturday": f"{opens + 1:02d}:00-{weekend:02d}:30" if random.chance(saturday) else "",
        "sunday": f"{opens + 1:02d}:30-{weekend:02d}:00" if random.chance(sunday) else "",
    }


def _wanted(kind: str, ground: Town) -> Point | None:
    """Return the point near which a place of this kind must be."""
    return ground.railway[1] if kind == "Station" else _middle(ground.market.outline) if kind == "Town hall" else None


def _middle(outline: tuple[Point, ...]) -> Point:
    return sum(x for x, _ in outline) / len(outline), sum(y for _, y in outline) / len(outline)


def _address(
    random: KeyedRandom, ground: Town, taken: set[str], others: list[Columns], near: Point | None
) -> tuple[str, Point]:
    """Return a free address, and where it is."""
    for spot, side in _spots(random, ground, near):
        address, point = _at(ground, spot, side)
        if address not in taken and not _close(point, others):
            taken.add(address)
            return address, point
    raise AssertionError("the town has no free address")  # there are thousands


def _close(point: Point, others: list[Columns]) -> bool:
    beside = [(other["x"], other["y"]) for other in others if abs(point[0] - other["x"]) < _APART]
    return any(math.dist(point, other) < _APART for other in beside)


def _spots(random: KeyedRandom, ground: Town, near: Point | None) -> Iterator[tuple[StreetPoint, int]]:
    beside = ground.nearest(*near).edge if near else 0
    while True:
        edge = beside if near else random.between(0, len(ground.edges) - 1)
        if near or ground.edges[edge].kind != "path":
            yield StreetPoint(edge, random.between(15, 85) / 100), random.between(0, 1)
        near = None if near and random.chance(0.05) else near


def _at(ground: Town, spot: StreetPoint, side: int) -> tuple[str, Point]:
    edge = ground.edges[spot.edge]
    a, b = ground.crossings[edge.start], ground.crossings[edge.end]
    x, y = between(a, b, spot.along)
    across = _ASIDE * (1 if side else -1) / math.dist(a, b)
    number = edge.number + 2 * round(spot.along * edge.length / 14) + side
    return f"{number} {edge.street}", (x - (b[1] - a[1]) * across, y + (b[0] - a[0]) * across)


def _next_to(ground: Town, point: Point) -> str:
    """Return the address of the nearest house at a street where one may drive."""
    away = {
        i: math.dist(point, between(ground.crossings[edge.start], ground.crossings[edge.end], 0.5))
        for i, edge in enumerate(ground.edges)
        if edge.kind != "path"
    }
    return _at(ground, StreetPoint(min(away, key=lambda i: (away[i], i)), 0.5), 0)[0]


@lru_cache(maxsize=256)
def me(seed: int | str) -> Point:
    """Return where the phone is: on a street in the middle of the town."""
    ground = town(seed)
    x, y = _middle(ground.market.outline)
    x, y = ground.point(ground.nearest(x + 210, y - 130))
    return round(x), round(y)


def reviews_of(seed: int | str, rows: list[Columns]) -> list[Columns]:
    """Return the rows of what visitors have written about places, of which some have none."""
    random = KeyedRandom(f"{seed}/maps/reviews")
    reviews = []
    for key, row in enumerate(rows, 1):
        for author in random.shuffled(FIRST_NAMES)[: random.between(0, 3)]:
            stars = min(5, max(1, round(row["rating"]) + random.between(-1, 1)))
            texts = _GOOD if stars > 3 else _FAIR if stars == 3 else _POOR
            reviews.append({"place": key, "author": author, "stars": stars, "text": random.pick(texts)})
    return reviews


def hours_on(row: Row, day: date) -> str:
    """Return the hours of a place on a day, such as '09:00-18:00'; "" if it is closed."""
    return str(row[("weekdays", "saturday", "sunday")[max(0, day.weekday() - 4)]])
