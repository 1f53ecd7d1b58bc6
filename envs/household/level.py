"""The dials of the generator: how big and how hard a game is. Their text form is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnwise.envs.errors import UnknownOption
from turnwise.envs.household.vocabulary import ROOMS
from turnwise.envs.levels import level_of, text_of
from turnwise.registry import suggest

__all__ = ["PRESETS", "TASK_TYPES", "HouseholdLevel"]

TASK_TYPES: tuple[str, ...] = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)

SHORT_TYPES: dict[str, str] = dict(zip(("put", "look", "clean", "heat", "cool", "two"), TASK_TYPES, strict=True))


@dataclass(frozen=True, slots=True)
class HouseholdLevel:
    """How big and how hard a generated game is.

    words: vocabulary, 0 tiny (5 kinds of objects, 5 of receptacles), 1 small (14 and 12), 2 full.
    rooms: kinds of rooms; a game is one of them.
    types: task types, each equally likely.
    receptacles: least and most receptacles.
    objects: least and most objects, those of the task included.
    openable: factor on the weight of receptacles with doors when further ones are drawn; 0 none, above 1 many.
    closed: probability that a door is closed at the start.
    hidden: probability that the objects of the task are put behind closed doors where that is possible.
    strays: probability that any object lies in any place that takes it rather than where it is usually found.
    copies: probability that one more object than needed of the task's kind is there.
    shared: probability that a receptacle stands at the same place as the one before it of its kind.
    """

    words: int = 1
    rooms: tuple[str, ...] = ("kitchen", "living", "bedroom")
    types: tuple[str, ...] = TASK_TYPES
    receptacles: tuple[int, int] = (6, 8)
    objects: tuple[int, int] = (6, 10)
    openable: float = 1.0
    closed: float = 0.9
    hidden: float = 0.0
    strays: float = 0.1
    copies: float = 0.1
    shared: float = 0.0

    def __post_init__(self) -> None:
        """Check every dial, so that a wrong one is named before any game is drawn."""
        _known("rooms", self.rooms, tuple(ROOMS))
        _known("types", self.types, TASK_TYPES)
        if self.words not in (0, 1, 2):
            raise UnknownOption(f"the dial words is {self.words!r}; it is 0 (tiny), 1 (small) or 2 (full)")
        for name, low, high in (("receptacles", 3, 60), ("objects", 2, 99)):
            least, most = getattr(self, name)
            if not low <= least <= most <= high:
                raise UnknownOption(f"the dial {name} is {least}-{most}; it needs {low} <= least <= most <= {high}")
        for name in ("closed", "hidden", "strays", "copies", "shared"):
            if not 0 <= getattr(self, name) <= 1:
                raise UnknownOption(f"the dial {name} is {getattr(self, name)!r}; it is a probability from 0 to 1")
        if not 0 <= self.openable <= 100:
            raise UnknownOption(f"the dial openable is {self.openable!r}; it is a factor from 0 to 100")

    @property
    def text(self) -> str:
        """The dials in one word: the nearest preset and what differs from it, such as "small+closed=1+types=heat.cool".

        `HouseholdLevel.parse` reads it back to equal dials; equal dials have equal texts.
        """
        return text_of(self, PRESETS, _write)

    @classmethod
    def parse(cls, text: str) -> HouseholdLevel:
        """Return the dials of a text such as "tiny" or "small+objects=4-6+types=put.two".

        Raises:
            UnknownOption: an unknown preset, dial or value; the message names it and the choices.
        """
        return level_of(text, PRESETS, _read, "the household generator")


def _known(dial: str, got: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in got:
        if name not in known:
            raise UnknownOption(f"the dial {dial} holds {name!r}{suggest(name, known)}")
    if not got or len(set(got)) != len(got):
        raise UnknownOption(f"the dial {dial} is {got!r}; it needs at least one name, each once, of {', '.join(known)}")


def _write(name: str, value: Any) -> str:
    if name in ("receptacles", "objects"):
        return f"{value[0]}-{value[1]}"
    if name == "types":
        back = {long: short for short, long in SHORT_TYPES.items()}
        return ".".join(back[one] for one in value)
    if name == "rooms":
        return ".".join(value)
    return str(value) if name == "words" else repr(float(value))


def _read(name: str, text: str) -> Any:
    try:
        if name in ("receptacles", "objects"):
            least, _, most = text.partition("-")
            return (int(least), int(most or least))
        if name == "types":
            return tuple(SHORT_TYPES.get(one, one) for one in text.split("."))
        if name == "rooms":
            return tuple(text.split("."))
        return int(text) if name == "words" else float(text)
    except ValueError as error:
        raise UnknownOption(f"the dial {name} cannot be {text!r}: {error}") from None


PRESETS: dict[str, HouseholdLevel] = {
    "tiny": HouseholdLevel(
        words=0, rooms=("kitchen",), receptacles=(4, 5), objects=(4, 6), strays=0.0, copies=0.0, closed=1.0
    ),
    "small": HouseholdLevel(),
    "medium": HouseholdLevel(
        words=2,
        rooms=("kitchen", "living", "bedroom", "bathroom", "office"),
        receptacles=(10, 15),
        objects=(12, 20),
        hidden=0.2,
        shared=0.05,
    ),
    "large": HouseholdLevel(
        words=2,
        rooms=tuple(ROOMS),
        receptacles=(18, 34),
        objects=(20, 45),
        openable=1.5,
        hidden=0.3,
        strays=0.15,
        shared=0.15,
    ),
}
"""Sizes by name. "large" is about as big as the games that come with ALFWorld."""
