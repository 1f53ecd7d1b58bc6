"""The source of the parameters of a task: a phone before the start of its task, and a random generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from turncredit.phone.phone import Phone
from turncredit.phone.toolkit.tables import Row, Value
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["Draw", "Params"]

Params = dict[str, Any]
"""Parameters of a task by name: each template has its own, which its goal, effects and script share."""
T = TypeVar("T")


class Draw:
    """What a template draws its parameters from: a seeded phone before the start, and a random generator."""

    def __init__(self, phone: Phone, random: KeyedRandom) -> None:
        """Draw for a phone."""
        self.phone = phone
        self.random = random

    def rows(self, package: str, table: str, **equal: Value) -> list[Row]:
        """Return the rows of a table whose columns equal the given values."""
        return self.phone.tables(package).rows(table, "", **equal)

    def pick(self, items: Sequence[T]) -> T | None:
        """Return one of the items, or None if there are none."""
        return self.random.pick(items) if items else None

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order, or all if there are fewer."""
        return self.random.shuffled(items)[:count]

    def insert(self, package: str, table: str, **values: Value) -> int:
        """Add a row before the task starts, and return its id."""
        return self.phone.tables(package).insert(table, **values)

    def update(self, package: str, table: str, key: int, **values: Value) -> None:
        """Change a row before the task starts."""
        self.phone.tables(package).update(table, key, **values)

    def delete(self, package: str, table: str, key: int) -> None:
        """Remove a row before the task starts."""
        self.phone.tables(package).delete(table, key)

    def set_setting(self, name: str, value: str, namespace: str = "system") -> None:
        """Change a setting before the task starts."""
        self.phone.set_setting(name, value, namespace)

    def write_file(self, path: str, content: str | bytes) -> None:
        """Write a file before the task starts."""
        self.phone.write_file(path, content.encode() if isinstance(content, str) else content)

    def has_app(self, name: str) -> bool:
        """Return whether the phone has an app of this name."""
        return any(app.name == name and not app.hidden for app in self.phone.apps.values())
