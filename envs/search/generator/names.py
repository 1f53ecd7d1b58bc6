"""Names, made of parts: each name belongs to one split, whatever world it stands in.

A name is a tuple of places in lists of parts; where their sum leaves 3 when divided by 4 it is held out. So no name of
a thing is in worlds of both splits, while every part is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnwise.envs.draw import Draw
from turnwise.envs.errors import UnknownOption

__all__ = ["Namer", "split_of"]

_FIRST: Final = (
    *("Ada", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Iris", "Jonas", "Kate", "Leo", "Mia"),
    *("Noah", "Olga", "Paul", "Rosa", "Simon", "Tess", "Victor", "Wanda", "Alma", "Boris", "Cora", "Dora", "Edgar"),
    *("Flora", "Gustav", "Helen", "Ivan", "Julia", "Karl", "Lena", "Martin", "Nora", "Oscar", "Petra", "Robert"),
    *("Sara", "Thomas", "Ursula", "Vera", "Walter", "Agnes", "Bruno", "Celia", "Doris", "Emil"),
)
_LAST: Final = (
    *("Marsh", "Holt", "Reed", "Stone", "Hill", "Brook", "Lane", "Moss", "Cross", "Wells", "Banks", "Dale"),
    *("Frost", "Hale", "Kerr", "Lamb", "Mead", "North", "Pike", "Rowe", "Sharp", "Thorn", "Vane", "Ward", "York"),
    *("Abbot", "Bell", "Carver", "Drake", "Ellis", "Finch", "Grove", "Harper", "Irwin", "Jarvis", "Knox", "Lowe"),
    *("Mercer", "Nash", "Osborne", "Palmer", "Quinn", "Rhodes", "Sutton", "Tate", "Upton", "Vaughn", "Webb", "Archer"),
    *("Birch", "Clay", "Dixon", "Emery", "Fowler", "Gibbs", "Hobbs", "Ingram", "Jewell", "Kemp", "Lyle", "Munro"),
)
_ADJECTIVES: Final = (
    *("Red", "Silver", "Broken", "Silent", "Golden", "Hidden", "Blue", "Empty", "Last", "Lost", "White", "Narrow"),
    *("Green", "Burning", "Quiet", "Winter", "Black", "Crooked", "Distant", "Endless", "Fallen", "Gentle", "Hollow"),
    *("Iron", "Little", "Midnight", "Open", "Painted", "Restless", "Second", "Tall", "Velvet", "Wild", "Yellow"),
)
_NOUNS: Final = (
    *("Lamp", "Door", "Garden", "River", "Tower", "Letter", "Bridge", "Mirror", "House", "Road", "Key", "Island"),
    *("Harbour", "Forest", "Clock", "Window", "Song", "Stranger", "Crown", "Field", "Boat", "Mountain", "Shadow"),
    *("Station", "Orchard", "Circus", "Feather", "Lantern", "Market", "Ocean", "Palace", "Stair", "Valley", "Voice"),
)
_TOWN: Final = (
    *("Oak", "Mill", "Ash", "Stone", "Elm", "Hart", "King", "Lake", "Thorn", "Wood", "Brad", "Clif", "Deer", "East"),
    *("Fair", "Green", "Hazel", "Ivy", "Kirk", "Lang", "Mar", "New", "Or", "Pen", "Rose", "Sand", "Tan", "Wal"),
    *("Bar", "Cold", "Dun", "Fern", "Hol", "Mor", "Nut", "Red", "Shep", "Swan", "Up", "Win"),
)
_TOWN_END: Final = (
    "ford",
    "bury",
    "ton",
    "ham",
    "field",
    "wick",
    "port",
    "dale",
    "stead",
    "mouth",
    "ley",
    "gate",
    "minster",
    "combe",
)
_REGION: Final = ("West", "North", "East", "South", "High", "Low", "Sun", "Wind", "Far", "Gold", "Sea", "Mid")
_REGION_END: Final = ("mark", "land", "moor", "shire", "vale", "reach", "wold", "fell")
_EVENT: Final = (
    *("Lantern", "Harvest", "Summer", "Winter", "Flower", "Apple", "River", "Moon", "Candle", "Ribbon", "Drum"),
    *("Kite", "Snow", "Bell", "Horse", "Torch"),
)
_EVENT_FIRST: Final = ("Great", "Old", "Royal", "Merry", "Grand", "Long", "Night", "Golden", "Little", "Noble")
_SCHOOL_END: Final = ("College", "Academy", "Institute", "School")
_COMPANY_END: Final = ("Works", "Brothers", "Company", "Trading", "House", "Makers")
_LONGER: Final = ("", "Upper ", "Lower ", "Old ", "Great ", "Little ", "West ", "North ", "East ", "South ")

Parts = tuple[int, ...]


def split_of(parts: Parts) -> str:
    """Return the split of a name, by its places in the lists of parts."""
    return "held_out" if sum(parts) % 4 == 3 else "train"


class Namer:
    """Gives the things of one world names, none twice."""

    def __init__(self, draw: Draw, split: str, most: int, alike: float) -> None:
        """Begin.

        Args:
            draw: decides.
            split: of the names.
            most: parts of each list that are used, at first.
            alike: probability that a name takes over a part of an older one.
        """
        self._draw, self._split, self._most, self._alike = draw, split, most, alike
        self._given: dict[str, list[Parts]] = {}
        self._taken: set[str] = set()

    def name(self, kind: str, sort: str = "") -> str:
        """Return a new name for a thing of a kind (and sort).

        Raises:
            UnknownOption: all of them are given away.
        """
        lists, write = _MAKERS[kind]
        older = self._given.setdefault(kind, [])
        sizes = [min(len(one), self._most) for one in lists]
        tries = 0
        patience = 40 if self._most < 40 else 12
        while True:
            tries += 1
            # A world that is full of short names goes on with longer ones.
            longer = 0 if tries <= patience else 1 + self._draw.between(0, 8)
            parts = [self._draw.between(0, size - 1) for size in sizes] + [longer]
            if older and self._draw.chance(self._alike):
                like = self._draw.pick(older)
                place = self._draw.between(0, len(sizes) - 1)
                parts[place] = like[place]
            name = write([one[place] for one, place in zip(lists, parts, strict=False)], sort, longer)
            if split_of(tuple(parts)) == self._split and name not in self._taken:
                older.append(tuple(parts))
                self._taken.add(name)
                return name
            if tries > 80:
                sizes = [len(one) for one in lists]
            if tries > 100_000:
                raise UnknownOption(f"there are too few names of the kind {kind!r} for a world of that size")


def _person(parts: list[str], sort: str, longer: int) -> str:
    middle = f" {_MIDDLE[longer]}" if longer else ""
    return f"{parts[0]}{middle} {parts[1]}"


def _work(parts: list[str], sort: str, longer: int) -> str:
    tail = f" of the {_TAILS[longer]}" if longer else ""
    return f"The {parts[0]} {parts[1]}{tail}"


def _event(parts: list[str], sort: str, longer: int) -> str:
    return f"{parts[0]} {_SEASON[longer]}{parts[1]} {sort.capitalize()}"


def _company(parts: list[str], sort: str, longer: int) -> str:
    return f"{parts[0]} {f'and {_MIDDLE[longer]} ' if longer else ''}{parts[1]}"


def _compound(parts: list[str], sort: str, longer: int) -> str:
    return f"{_LONGER[longer]}{parts[0]}{parts[1]}"


def _school(parts: list[str], sort: str, longer: int) -> str:
    return f"{_LONGER[longer]}{parts[0]}{parts[1]} {parts[2]}"


_MIDDLE: Final = ("", "June", "Lee", "Anne", "Max", "Rose", "Finn", "Jane", "Roy", "Faye")
_SEASON: Final = ("", "Spring ", "Autumn ", "Island ", "Forest ", "Village ", "Morning ", "Evening ", "Coast ", "Hill ")
_TAILS: Final = ("", "King", "North", "Sea", "Moon", "Dead", "Winds", "Past", "Hills", "Stars")
_MAKERS: Final[dict[str, tuple[tuple[tuple[str, ...], ...], Callable[[list[str], str, int], str]]]] = {
    "person": ((_FIRST, _LAST), _person),
    "work": ((_ADJECTIVES, _NOUNS), _work),
    "place": ((_TOWN, _TOWN_END), _compound),
    "region": ((_REGION, _REGION_END), _compound),
    "event": ((_EVENT_FIRST, _EVENT), _event),
    "company": ((_LAST, _COMPANY_END), _company),
    "school": ((_TOWN, _TOWN_END, _SCHOOL_END), _school),
}
