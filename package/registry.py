"""Names for things that a run can choose: credit rules, token transforms, objectives, samplers, prompts, parsers.

Every registry finds an item in the same three ways:

    "gigpo"                     registered in this process, as all of turnwise's own items are
    "their-rule"                offered by an installed package through an entry point
    "their_package.rules:rule"  any importable object, as module:attribute

    LookupError
     └─ UnknownName             nobody offers the name; the message suggests a near one
    ImportError
     └─ CannotLoad              the name is known, but its module cannot be imported or lacks the attribute

It needs the standard library only, so that `turnwise.credit` can be used with numpy alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any, Generic, TypeVar

__all__ = ["CannotLoad", "Registry", "UnknownName", "suggest"]

T = TypeVar("T")


class UnknownName(LookupError):
    """Nobody offers the name."""


class CannotLoad(ImportError):
    """The name is known, but its object cannot be imported."""


class Registry(Generic[T]):
    """Items of one kind by name.

    >>> registry = Registry("greeting", group="example.greetings")
    >>> registry.register("hello", "Hello!")
    'Hello!'
    >>> registry.get("hello")
    'Hello!'
    >>> registry.get("os.path:sep")
    '/'
    >>> registry.get("helo")
    Traceback (most recent call last):
    ...
    turnwise.registry.UnknownName: unknown greeting 'helo'; did you mean 'hello'?

    Args:
        kind: what the items are, for messages: "credit rule".
        group: entry-point group in which installed packages offer items.
        adapt: turns what was loaded from outside into an item, given its name; raises TypeError for a wrong object.
        lazy: names of items that are loaded when they are asked for, as module:attribute.
    """

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        adapt: Callable[[str, Any], T] = lambda name, loaded: loaded,
        lazy: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self._adapt = adapt
        self._items: dict[str, T] = {}
        self._lazy = dict(lazy or {})

    def register(self, name: str, item: T) -> T:
        """Make an item known by its name in this process, and return it.

        Raises:
            ValueError: the name belongs to another item.
        """
        if self._items.get(name, item) != item or name in self._lazy:
            raise ValueError(f"the {self.kind} name {name!r} is already taken")
        self._items[name] = item
        return item

    def names(self) -> list[str]:
        """Return the names of all items, sorted."""
        return sorted({*self._items, *self._lazy, *(point.name for point in entry_points(group=self.group))})

    def items(self) -> dict[str, T]:
        """Return all items by name, sorted; one that cannot be loaded is skipped with a warning."""
        found: dict[str, T] = {}
        for name in self.names():
            try:
                found[name] = self.get(name)
            except (CannotLoad, TypeError) as error:
                warnings.warn(f"{self.kind} {name!r} is skipped: {error}", stacklevel=2)
        return found

    def get(self, name: str) -> T:
        """Return the item with a name.

        Args:
            name: a registered name, the name of an entry point, or "module:attribute".

        Raises:
            UnknownName: nobody offers it; the message suggests a near name.
            CannotLoad: its module cannot be imported, or has no such attribute.
            TypeError: what was loaded is not an item of this kind.
        """
        if name in self._items:
            return self._items[name]
        reference = self._lazy.get(name) or self._entry_point(name) or (name if ":" in name else None)
        if reference is None:
            raise UnknownName(f"unknown {self.kind} {name!r}{suggest(name, self.names())}")
        try:
            return self._adapt(name, load(reference, self.kind))
        except CannotLoad as error:
            module = reference.partition(":")[0]
            if name in self.names() or not _is_missing(module, error.__cause__) or not _near(module, self.names()):
                raise
            # "vlm:MODEL" is rather a misspelt name than a module
            raise UnknownName(f"unknown {self.kind} {module!r}{suggest(module, self.names())}") from error

    def _entry_point(self, name: str) -> str | None:
        return next((point.value for point in entry_points(group=self.group) if point.name == name), None)


def _is_missing(module: str, error: BaseException | None) -> bool:
    """Whether an error says that this very module does not exist."""
    return isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]


def _near(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(known), n=1)


def load(reference: str, kind: str) -> Any:
    """Return the object that "module:attribute" names.

    Raises:
        CannotLoad: the module cannot be imported, or has no such attribute.
    """
    module, _, attribute = reference.partition(":")
    try:
        return attrgetter(attribute)(import_module(module))
    except Exception as error:  # importing runs code of others, which may raise anything
        raise CannotLoad(f"the {kind} {reference!r} cannot be loaded: {type(error).__name__}: {error}") from error


def suggest(name: str, known: Iterable[str], *, most: int = 20) -> str:
    """Return the end of a message about an unknown name: the nearest known name, or a list of the known names.

    Args:
        name: the unknown name.
        known: the known names, listed in this order (a set: sorted).
        most: how many names to list.

    >>> suggest("gipgo", ["gigpo", "grpo"])
    "; did you mean 'gigpo'?"
    >>> suggest("x", ["a", "b"])
    '; choose one of: a, b'
    >>> suggest("x", ["a", "b", "c"], most=2)
    '; choose one of: a, b, ... (3 in total)'
    """
    choices = sorted(known) if isinstance(known, Set) else list(known)
    near = _near(name, choices)
    if near:
        return f"; did you mean {near[0]!r}?"
    rest = f", ... ({len(choices):,} in total)" if len(choices) > most else ""
    return f"; choose one of: {', '.join(choices[:most])}{rest}" if choices else ""
