"""The words of the generator. Each split has folders of its own, which every statement names."""

from __future__ import annotations

from typing import Final

__all__ = ["CITIES", "FIRST", "FOLDERS", "INNER", "NAMES", "WORDS"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FOLDERS: Final[dict[str, tuple[str, ...]]] = {
    "train": _words(
        "accounts albums atlas backup billing books bridge cargo catalog clinic course depot diary engine "
        "export fleet garden harbor intake journal kitchen lab ledger library market mission museum office "
        "orchard orders parcel pilot plant press project quarry radio records reports school sensors shop "
        "station stock studio survey tickets tower traffic vault"
    ),
    "held_out": _words(
        "archive_room bakery ballot canal cinema claims dock exhibit farm forest gallery hangar inbox "
        "launch mailroom mill nursery observatory payroll pharmacy quarterly railway rehearsal repair "
        "shelter theatre trial village warehouse workshop"
    ),
}
"""Split -> names of the folder that a task is about."""

INNER: Final = _words("north south east west spring summer autumn winter first second third draft final old")
NAMES: Final = _words(
    "alpha amber anchor basil beacon cedar cobalt comet coral delta ember falcon fern flint glacier hazel indigo "
    "iris ivory jasper juniper lagoon lemon linden lotus maple meadow nectar nova oak olive onyx opal orbit pebble "
    "pine plum quartz raven reef river robin saffron sable slate sorrel spruce teal thistle topaz tulip umber "
    "violet willow wren zephyr"
)
WORDS: Final = _words(
    "paper window button signal copper basket ladder pocket marble engine winter candle bridge garden mirror "
    "planet hammer ticket velvet carpet needle harbor jacket kettle lantern magnet napkin orange pepper quiver "
    "ribbon saddle tunnel valley wagon yellow anchor bottle castle dragon feather glove island jungle"
)
FIRST: Final = _words(
    "Ada Ben Cleo Dan Eva Finn Gia Hugo Ines Jon Kira Leo Mia Ned Olga Paul Rosa Sam Tess Uma Vera Will Yara Zoe"
)
CITIES: Final = ("Lund", "Porto", "Graz", "Turin", "Bern", "Ghent", "Oslo", "Split", "York", "Nice")
