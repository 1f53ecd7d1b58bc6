"""Functions that become tools in several tests; in a module, so that a child process can import them."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Literal


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


def find(name: str, limit: int = 5) -> list[str]:
    """Find people by name.

    The book is small.

    Args:
        name: a part of the name,
            in any case
        limit (int): most people

    Returns:
        The full names.

    Raises:
        LookupError: nobody is called so.
    """
    return [name] * limit


def paint(thing: str, colour: Colour, mode: Literal["wet", "dry"] = "wet", at: Point | None = None) -> str:
    """Paint a thing."""
    return f"{thing} {colour.name} {mode} {at}"


def mix(a: int | str, b: str | None, c: list[float], d: dict[str, Any], e: bool = False) -> list[Any]:
    """Give everything back."""
    return [a, b, c, d, e]


def now() -> str:
    """Tell the time."""
    return "noon"


def note(text: str = "nothing") -> str:
    """Keep a text."""
    return text


async def later(seconds: float) -> str:
    """Wait, then answer."""
    await asyncio.sleep(seconds)
    return "awake"


def asleep() -> None:
    """Never return."""
    while True:
        time.sleep(0.05)


def stuck() -> None:
    """Never return, and never let go of the interpreter's lock."""
    import re

    re.match(r"(a+)+$", "a" * 40 + "b")


def parent_of(path: str) -> None:
    """Start a process that outlives its parent unless it is killed along, write its id, and hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(str(child.pid))
    asleep()


def leave(code: int) -> None:
    """End the process."""
    os._exit(code)


def process() -> int:
    """Tell the id of the process."""
    return os.getpid()


def fail(reason: str) -> None:
    """Raise."""
    raise ValueError(reason)


def quit() -> None:
    """Try to end the program."""
    raise SystemExit(3)


class Unspeakable(Exception):
    """An error whose text is an error."""

    def __str__(self) -> str:
        raise RuntimeError


def mumble() -> None:
    """Raise what cannot be told."""
    raise Unspeakable


def endless() -> Iterator[int]:
    """Return what never ends."""
    while True:
        yield 1


def handle() -> object:
    """Return what is no data."""
    return object()


def ring() -> list[Any]:
    """Return a list in itself."""
    found: list[Any] = []
    found.append(found)
    return found
