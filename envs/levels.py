"""The levels of generators: what their dials may be, and the text form that is part of every task id.

    "small+depth=3+lines=20-30"          a preset, and the dials that differ from it

A generator's own level is a frozen dataclass on top of `BaseLevel`, with its `settings` and, set after the class, its
`presets`.

Left out on purpose: what the dials mean, and bounds that hold between them; that is each generator's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from turnwise.envs.errors import UnknownOption
from turnwise.registry import suggest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["BaseLevel", "LevelSettings", "level_of", "text_of"]

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """What the dials of a generator's levels may be, and how they are written.

    Attributes:
        what: whose dials they are, for messages: "the code generator".
        counts: whole numbers, by name: lowest and highest.
        ranges: "least-most", by name: lowest and highest; of whole numbers where these are whole.
        shares: names of probabilities.
        names: words, each of a known list, by the dial's name.
    """

    what: str
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shares: Sequence[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def check(self, level: DataclassInstance) -> None:
        """Refuse a level of which a dial is out of bounds, so that it is named before anything is drawn.

        Raises:
            UnknownOption: one is; the message says what it may be.
        """
        for name, (low, high) in self.counts.items():
            value = getattr(level, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UnknownOption(f"the dial {name} is {value!r}; it is a whole number from {low:,} to {high:,}")
        for name, (lowest, highest) in self.ranges.items():
            least, most = getattr(level, name)
            if not lowest <= least <= most <= highest:
                bounds = f"{_number(lowest)} <= least <= most <= {_number(highest)}"
                raise UnknownOption(f"the dial {name} is {_number(least)}-{_number(most)}; it needs {bounds}")
        for name in self.shares:
            if not 0 <= getattr(level, name) <= 1:
                raise UnknownOption(f"the dial {name} is {getattr(level, name)!r}; it is a probability from 0 to 1")
        for name, known in self.names.items():
            for word in getattr(level, name):
                if word not in known:
                    hint = suggest(word, known, most=len(known))
                    raise UnknownOption(f"unknown value {word!r} of {name} ({self.what}){hint}")

    def text(self, level: T, presets: Mapping[str, T]) -> str:
        """Return a level in one word, as `text_of` does."""
        return text_of(level, presets, _write)

    def parse(self, text: str, presets: Mapping[str, T]) -> T:
        """Return the level of a text, as `level_of` does.

        Raises:
            UnknownOption: an unknown preset, dial or value; the message names it and the choices.
        """
        return level_of(text, presets, self._read, self.what)

    def _read(self, name: str, text: str) -> Any:
        if name in self.names:
            return tuple(word for word in text.split(",") if word)
        bounds = self.ranges.get(name, (0,))
        number = float if name in self.shares or isinstance(bounds[0], float) else int
        try:
            if name in self.ranges:
                least, _, most = text.partition("-")
                return number(least), number(most or least)
            return number(text)
        except ValueError as error:
            raise UnknownOption(f"the dial {name} cannot be {text!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class BaseLevel:
    """What the levels of all generators do: they are checked, written in one word, and read back."""

    settings: ClassVar[LevelSettings]
    presets: ClassVar[Mapping[str, Any]]
    """Levels of the class by name."""

    def __post_init__(self) -> None:
        """Check every dial."""
        self.settings.check(self)

    @property
    def text(self) -> str:
        """The level in one word: the nearest preset and what differs from it, such as "small+depth=3".

        `parse` reads it back to an equal level; equal levels have equal texts.
        """
        return self.settings.text(self, self.presets)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the level of a text such as "tiny" or "small+depth=3+lines=20-30".

        Raises:
            UnknownOption: an unknown preset, dial or value; the message names it and the choices.
        """
        level: Self = cls.settings.parse(text, cls.presets)
        return level

    @classmethod
    def of(cls, given: object) -> Self:
        """Return a level that is given as such or as its text.

        Raises:
            UnknownOption: it is neither, or `parse` cannot read it.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, str):
            presets = ", ".join(map(repr, cls.presets))
            raise UnknownOption(f"level is {given!r}; it is one of {presets}, such a text with dials, or a Level")
        return cls.parse(given)


def _write(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return ("," if value and isinstance(value[0], str) else "-").join(map(_number, value))
    return _number(value)


def _number(value: Any) -> str:
    return format(value, "f").rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text_of(level: T, presets: Mapping[str, T], write: Callable[[str, Any], str]) -> str:
    """Return a level in one word: the nearest preset, and what differs from it by name.

    Args:
        level: a frozen dataclass of dials.
        presets: levels by name.
        write: writes a dial's value, given its name and that.
    """
    best = min(presets, key=lambda name: len(_differences(level, presets[name])))
    changed = _differences(level, presets[best])
    return "+".join([best, *(f"{name}={write(name, getattr(level, name))}" for name in changed)])


def level_of(text: str, presets: Mapping[str, T], read: Callable[[str, str], Any], what: str) -> T:
    """Return the level of a text.

    Args:
        text: a preset, then any dials: "small+depth=3".
        presets: levels by name.
        read: gives the value of a dial's name and text.
        what: whose dials they are, for messages: "the code generator".

    Raises:
        UnknownOption: an unknown preset, dial or value; the message names it and the choices.
    """
    preset, *changes = text.split("+")
    if preset not in presets:
        raise UnknownOption(f"unknown preset {preset!r} of {what}{suggest(preset, presets)}")
    names = [field.name for field in fields(presets[preset])]
    values: dict[str, Any] = {}
    for change in changes:
        name, mark, value = change.partition("=")
        if name not in names:
            raise UnknownOption(f"unknown setting {name!r} of {what}{suggest(name, names, most=len(names))}")
        if not mark:
            raise UnknownOption(f"setting {name!r} of {what} has no value; write {name}=VALUE")
        values[name] = read(name, value)
    return replace(presets[preset], **values)


def _differences(level: DataclassInstance, preset: DataclassInstance) -> list[str]:
    names = (field.name for field in fields(level))
    return sorted(name for name in names if getattr(level, name) != getattr(preset, name))
