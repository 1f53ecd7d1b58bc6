"""The text form of a generator's level, which is part of every task id: a preset and the dials that differ from it.

    "small+depth=3+lines=20-30"

Left out on purpose: what the dials mean and how a value is written or read; that is each generator's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise.envs.errors import UnknownOption, choices

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["level_of", "text_of"]

T = TypeVar("T", bound="DataclassInstance")


def text_of(level: T, presets: Mapping[str, T], write: Callable[[Any], str]) -> str:
    """Return a level in one word: the nearest preset, and what differs from it by name.

    Args:
        level: a frozen dataclass of dials.
        presets: levels by name.
        write: writes the value of a dial.
    """
    best = min(presets, key=lambda name: len(_differences(level, presets[name])))
    changed = _differences(level, presets[best])
    return "+".join([best, *(f"{name}={write(getattr(level, name))}" for name in changed)])


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
        raise UnknownOption(f"no preset of {what} is called {preset!r}: {choices(preset, presets)}")
    names = [field.name for field in fields(presets[preset])]
    values: dict[str, Any] = {}
    for change in changes:
        name, mark, value = change.partition("=")
        if name not in names or not mark:
            listed = choices(name, names, shown=len(names))
            raise UnknownOption(f"no dial of {what} is called {name!r}: {listed}")
        values[name] = read(name, value)
    return replace(presets[preset], **values)


def _differences(level: DataclassInstance, preset: DataclassInstance) -> list[str]:
    names = (field.name for field in fields(level))
    return sorted(name for name in names if getattr(level, name) != getattr(preset, name))
