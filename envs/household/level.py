"""The level of generated games: size and difficulty. Its text form is part of every task id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from turncredit.envs.errors import UnknownOption
from turncredit.envs.household.vocabulary import ROOMS
from turncredit.envs.levels import level_of, text_of
from turncredit.registry import suggest

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
    """Size and difficulty of a generated game.

    words: vocabulary: 0 tiny (5 kinds of objects, 5 of receptacles), 1 small (14 and 12), 2 full.
    rooms: kinds of rooms; each game takes place in one.
    types: task types, drawn uniformly.
    receptacles: minimum and maximum number of receptacles.
    objects: minimum and maximum number of objects, including those of the task.
    openable: factor on the weight of receptacles with doors when further ones are drawn; 0: none, > 1: many.
    closed: probability that a door is closed at the start.
    hidden: probability that the objects of the task are behind closed doors, if possible.
    strays: probability that an object lies anywhere it fits, instead of where it is usually found.
    copies: probability of one more object of the task's kind than needed.
    shared: probability that a receptacle is at the same location as the previous one of its kind.
    """

    presets: ClassVar[Mapping[str, HouseholdLevel]]
    """Levels by name, the easiest first."""

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
        """Check every setting."""
        _check_names("rooms", self.rooms, tuple(ROOMS))
        _check_names("types", self.types, TASK_TYPES)
        if self.words not in (0, 1, 2):
            raise UnknownOption(f"words must be 0 (tiny), 1 (small) or 2 (full), got {self.words!r}")
        for name, low, high in (("receptacles", 3, 60), ("objects", 2, 99)):
            least, most = getattr(self, name)
            if not low <= least <= most <= high:
                raise UnknownOption(f"{name} must satisfy {low} <= least <= most <= {high}, got {least}-{most}")
        for name in ("closed", "hidden", "strays", "copies", "shared"):
            if not 0 <= getattr(self, name) <= 1:
                raise UnknownOption(f"{name} must be a probability from 0 to 1, got {getattr(self, name)!r}")
        if not 0 <= self.openable <= 100:
            raise UnknownOption(f"openable must be a factor from 0 to 100, got {self.openable!r}")

    @property
    def text(self) -> str:
        """The level as text: the nearest preset and what differs from it, such as "small+closed=1+types=heat.cool".

        `HouseholdLevel.parse` returns an equal level; equal levels have equal texts.
        """
        return text_of(self, PRESETS, _write)

    @classmethod
    def parse(cls, text: str) -> HouseholdLevel:
        """Return the level of a text such as "tiny" or "small+objects=4-6+types=put.two".

        Raises:
            UnknownOption: unknown preset, setting or value.
        """
        return level_of(text, PRESETS, _read, "the household generator")


def _check_names(setting: str, got: tuple[str, ...], choices: tuple[str, ...]) -> None:
    for name in got:
        if name not in choices:
            raise UnknownOption(f"unknown value {name!r} of {setting}{suggest(name, choices)}")
    if not got or len(set(got)) != len(got):
        raise UnknownOption(f"{setting} must be one or more different names of {', '.join(choices)}, got {got!r}")


def _write(name: str, value: Any) -> str:
    if name in ("receptacles", "objects"):
        return f"{value[0]}-{value[1]}"
    if name == "types":
        back = {long: short for short, long in SHORT_TYPES.items()}
        return ".".join(back[type_name] for type_name in value)
    if name == "rooms":
        return ".".join(value)
    return str(value) if name == "words" else repr(float(value))


def _read(name: str, text: str) -> object:
    try:
        if name in ("receptacles", "objects"):
            least, _, most = text.partition("-")
            return (int(least), int(most or least))
        if name == "types":
            return tuple(SHORT_TYPES.get(short, short) for short in text.split("."))
        if name == "rooms":
            return tuple(text.split("."))
        return int(text) if name == "words" else float(text)
    except ValueError as error:
        raise UnknownOption(f"invalid value {text!r} of {name}: {error}") from None


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
"""Levels by name. "large" games are about as big as ALFWorld's."""

HouseholdLevel.presets = PRESETS
