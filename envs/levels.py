"""Levels of task generators: size and difficulty, and the text form that is part of every task id.

    "small+depth=3+lines=20-30"          a preset, and the settings that differ from it

The level of a generator is a frozen dataclass derived from `BaseLevel`, with `settings` and, assigned after the class,
`presets`. Each generator defines what its settings mean, and checks the bounds between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from turncredit.envs.errors import UnknownOption
from turncredit.registry import suggest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["BaseLevel", "LevelSettings", "level_of", "text_of"]

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """The settings of a generator's levels: their names, kinds and bounds.

    Attributes:
        generator: name of the generator in messages: "the code generator".
        counts: integers: name -> (lowest, highest).
        ranges: intervals "least-most": name -> (lowest, highest); of integers if these are integers.
        shares: names of probabilities.
        names: words from a list: name -> known words.
    """

    generator: str
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shares: Sequence[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def check(self, level: DataclassInstance) -> None:
        """Check every setting of a level.

        Raises:
            UnknownOption: a setting is out of bounds.
        """
        for name, (low, high) in self.counts.items():
            value = getattr(level, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UnknownOption(
                    f"{name} must be an integer from {low:,} to {high:,} ({self.generator}), got {value!r}"
                )
        for name, (lowest, highest) in self.ranges.items():
            least, most = getattr(level, name)
            if not lowest <= least <= most <= highest:
                bounds = f"{_number(lowest)} <= least <= most <= {_number(highest)}"
                raise UnknownOption(
                    f"{name} must satisfy {bounds} ({self.generator}), got {_number(least)}-{_number(most)}"
                )
        for name in self.shares:
            if not 0 <= getattr(level, name) <= 1:
                raise UnknownOption(f"{name} must be a probability from 0 to 1, got {getattr(level, name)!r}")
        for name, choices in self.names.items():
            for word in getattr(level, name):
                if word not in choices:
                    hint = suggest(word, choices, most=len(choices))
                    raise UnknownOption(f"unknown value {word!r} of {name} ({self.generator}){hint}")

    def text(self, level: T, presets: Mapping[str, T]) -> str:
        """Return a level as text; see `text_of`."""
        return text_of(level, presets, _write)

    def parse(self, text: str, presets: Mapping[str, T]) -> T:
        """Return the level of a text; see `level_of`.

        Raises:
            UnknownOption: unknown preset, setting or value.
        """
        return level_of(text, presets, self._read, self.generator)

    def _read(self, name: str, text: str) -> object:
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
            raise UnknownOption(f"invalid value {text!r} of {name}: {error}") from None


@dataclass(frozen=True, slots=True)
class BaseLevel:
    """Base class of levels: checked when made, written as text, and parsed."""

    settings: ClassVar[LevelSettings]
    presets: ClassVar[Mapping[str, Any]]
    """Levels by name."""

    def __post_init__(self) -> None:
        """Check every setting."""
        self.settings.check(self)

    @property
    def text(self) -> str:
        """The level as text: the nearest preset and what differs from it, such as "small+depth=3".

        `parse` returns an equal level; equal levels have equal texts.
        """
        return self.settings.text(self, self.presets)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the level of a text such as "tiny" or "small+depth=3+lines=20-30".

        Raises:
            UnknownOption: unknown preset, setting or value.
        """
        level: Self = cls.settings.parse(text, cls.presets)
        return level

    @classmethod
    def of(cls, level: object) -> Self:
        """Return `level` if it is a level, or parse it if it is a text.

        Raises:
            UnknownOption: it is neither, or the text is invalid.
        """
        if isinstance(level, cls):
            return level
        if not isinstance(level, str):
            presets = ", ".join(map(repr, cls.presets))
            raise UnknownOption(
                f"level must be a preset ({presets}), a text such as 'small+NAME=VALUE', or a level, got {level!r}"
            )
        return cls.parse(level)


def _write(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return ("," if value and isinstance(value[0], str) else "-").join(map(_number, value))
    return _number(value)


def _number(value: Any) -> str:
    return format(value, "f").rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text_of(level: T, presets: Mapping[str, T], write: Callable[[str, object], str]) -> str:
    """Return a level as text: the nearest preset, and the settings that differ from it, by name.

    Args:
        level: a frozen dataclass of settings.
        presets: levels by name.
        write: (name, value) -> text of a setting.
    """
    best = min(presets, key=lambda name: len(_differences(level, presets[name])))
    changed = _differences(level, presets[best])
    return "+".join([best, *(f"{name}={write(name, getattr(level, name))}" for name in changed)])


def level_of(text: str, presets: Mapping[str, T], read: Callable[[str, str], object], subject: str) -> T:
    """Return the level of a text.

    Args:
        text: a preset and settings: "small+depth=3".
        presets: levels by name.
        read: (name, text) -> value of a setting.
        subject: name of the generator in messages: "the code generator".

    Raises:
        UnknownOption: unknown preset, setting or value.
    """
    preset, *changes = text.split("+")
    if preset not in presets:
        raise UnknownOption(f"unknown level {preset!r} of {subject}{suggest(preset, presets)}")
    names = [field.name for field in fields(presets[preset])]
    values: dict[str, object] = {}
    for change in changes:
        name, mark, value = change.partition("=")
        if name not in names:
            raise UnknownOption(f"unknown setting {name!r} of {subject}{suggest(name, names, most=len(names))}")
        if not mark:
            raise UnknownOption(f"setting {name!r} of {subject} has no value; write {name}=VALUE")
        values[name] = read(name, value)
    return replace(presets[preset], **values)


def _differences(level: DataclassInstance, preset: DataclassInstance) -> list[str]:
    names = (field.name for field in fields(level))
    return sorted(name for name in names if getattr(level, name) != getattr(preset, name))
