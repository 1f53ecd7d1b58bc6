"""Names for things that a run can choose: credit rules, token transforms, objectives, samplers, prompts, parsers.

Every registry finds an item in the same three ways:

    "gigpo"                     registered in this process, as all of turncredit's own items are
    "their-rule"                offered by an installed package through an entry point
    "their_package.rules:rule"  any importable object, as module:attribute

    LookupError
     └─ UnknownName             nobody offers the name; the message suggests a near one
    ImportError
     └─ CannotLoad              the name is known, but its module cannot be imported or lacks the attribute
         └─ Untrusted           the name comes from a file that may not name modules

The third way runs code, so a program that reads files of others must not follow it: inside of `names_from_files`, only
names that the user typed are imported. `turncredit` runs every command so; a Python program decides for itself.

It needs the standard library only, so that `turncredit.credit` can be used with numpy alone.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module, metadata
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, TypeVar

__all__ = [
    "CannotLoad",
    "ImportRules",
    "Registry",
    "UnknownName",
    "Untrusted",
    "adopt_import_rules",
    "choose",
    "entry_points",
    "import_registered",
    "import_rules",
    "import_typed",
    "is_untrusted",
    "names_from_files",
    "require_trust",
    "suggest",
    "trust_names",
    "trusted",
]

T = TypeVar("T")
_SEPARATORS = re.compile(r"[\s,;=\"'\[\]{}()]+")
"""What stands between names on a command line: `--credit gigpo,mine:rule`, `credit.method="mine:rule"`."""


class UnknownName(LookupError):
    """Nobody offers the name."""


class CannotLoad(ImportError):
    """The name is known, but its object cannot be imported."""


class Untrusted(CannotLoad):
    """A file names code, or hands options to code of other packages, and the user has not said that it may."""


@dataclass(frozen=True)
class ImportRules:
    """Which names of modules may be imported, and where modules are looked for.

    Attributes:
        everything: whether any name may be imported.
        typed: the names that may be imported if not.
        folder: searched after `sys.path`, while such a name is imported; "": none.
        used: whether a module of that folder has been imported.
        path: `sys.path`, where the rules are sent to another process.
    """

    everything: bool = True
    typed: frozenset[str] = frozenset()
    folder: str = ""
    used: bool = False
    path: tuple[str, ...] = ()


# Of the process and not of a context, since threads of servers and environments would start without it.
_rules = ImportRules()
_searching = 0
_lock = threading.RLock()


@contextmanager
def names_from_files(typed: Iterable[str] = (), *, folder: str | os.PathLike[str] = "") -> Iterator[None]:
    """In this block, import no module because a file names it: registered and installed names are found, others not.

    It holds for all threads of the process, and for the child processes that turncredit starts in it.

    Args:
        typed: words of a command line, whose names may be imported.
        folder: searched for modules after `sys.path`, while such a name is imported, and in child processes that
            receive an object of a module in it; "": none.

    >>> with names_from_files(["--credit", "mine,os.path:sep"]):
    ...     Registry("item", group="example.items").get("os.path:sep")
    ...     Registry("item", group="example.items").get("os.path:join")
    Traceback (most recent call last):
    ...
    turncredit.registry.Untrusted: the item 'os.path:join' is code that a file names; --trust lets it run
    """
    global _rules
    before = _rules
    names = frozenset(name for word in typed for name in (word, *_SEPARATORS.split(word)) if ":" in name)
    # an option may follow a name after a further colon: "mine:rule:gamma=0.9"
    names |= {name[: mark.start()] for name in names for mark in re.finditer(":", name)}
    _rules = ImportRules(False, frozenset(name for name in names if ":" in name), os.fspath(folder))
    try:
        yield
    finally:
        _rules = before


def trust_names() -> None:
    """Let files name modules until the end of the block of `names_from_files`: the user trusts the files."""
    global _rules
    _rules = replace(_rules, everything=True)


def trusted() -> bool:
    """Return whether files may name modules, and hand options to any code."""
    return _rules.everything


def require_trust(name: str, kind: str) -> None:
    """Check that a "module:attribute" may be imported.

    Args:
        name: as it was typed or read.
        kind: what it is, for the message.

    Raises:
        Untrusted: it was not typed, and files may not name modules.
    """
    if not _rules.everything and name not in _rules.typed:
        raise Untrusted(f"the {kind} {name!r} is code that a file names; --trust lets it run")


def is_untrusted(error: BaseException) -> bool:
    """Return whether an error, or one that it was raised from, is an `Untrusted`."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Untrusted):
        cause = cause.__cause__
    return cause is not None


def import_rules() -> ImportRules:
    """Return the rules of this process, for `adopt_import_rules` in another one."""
    return replace(_rules, path=tuple(os.path.abspath(place) for place in sys.path))


def adopt_import_rules(rules: ImportRules) -> None:
    """Import in this process what that of the rules may import, and find modules where it finds them."""
    global _rules
    _rules = rules
    places = (*rules.path, rules.folder) if rules.used else rules.path
    sys.path += [place for place in dict.fromkeys(places) if place not in sys.path]


@contextmanager
def _user_folder() -> Iterator[None]:
    """In this block, find modules of the user's folder after those of `sys.path`."""
    global _searching
    folder = _rules.folder
    with _lock:
        if folder and _searching == 0:
            sys.path.append(folder)
        _searching += 1
    try:
        yield
    finally:
        with _lock:
            _searching -= 1
            if folder in sys.path and _searching == 0:
                del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]  # the last one is ours


def import_typed(module: str) -> ModuleType:
    """Return a module that the user named; those in the user's folder are found too (see `names_from_files`).

    Raises:
        Exception: that of the import.
    """
    global _rules
    with _user_folder():
        imported = import_module(module)
    file = getattr(imported, "__file__", None)
    if _rules.folder and file and os.path.realpath(file).startswith(os.path.join(os.path.realpath(_rules.folder), "")):
        _rules = replace(_rules, used=True)
    return imported


def import_registered(module: str) -> ModuleType:
    """Return a module that a package named, which may be one that the user named before.

    Raises:
        Exception: that of the import.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not _rules.used or not _is_missing(module, error):
            raise
        return import_typed(module)


def entry_points(group: str) -> tuple[metadata.EntryPoint, ...]:
    """Return what installed packages offer in a group; packages are read again when one comes or goes."""
    return _entry_points(group, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    """Return when a package was last installed in a folder or removed, in nanoseconds; 0 if there is no such folder."""
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=64)
def _entry_points(group: str, places: tuple[tuple[str, int], ...]) -> tuple[metadata.EntryPoint, ...]:
    """Return what the packages in these folders offer, which `importlib.metadata` finds on `sys.path`."""
    return tuple(metadata.entry_points(group=group))


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
    turncredit.registry.UnknownName: unknown greeting 'helo'; did you mean 'hello'?

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

        An item replaces that of the same function as it was defined before: a cell of a notebook runs again, and a
        module is reloaded.

        Raises:
            ValueError: the name belongs to another item.
        """
        before = self._items.get(name, item)
        if name in self._lazy or (before != item and not (_origin(item) and _origin(before) == _origin(item))):
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
            Untrusted: a file names the module (see `names_from_files`).
            TypeError: what was loaded is not an item of this kind.
        """
        if name in self._items:
            return self._items[name]
        registered = self._lazy.get(name) or self._entry_point(name)
        if registered is None and ":" not in name:
            raise UnknownName(f"unknown {self.kind} {name!r}{suggest(name, self.names())}")
        if registered is None:
            require_trust(name, self.kind)
        reference = registered or name
        try:
            return self._adapt(name, load(reference, self.kind, registered=registered is not None))
        except CannotLoad as error:
            module, _, rest = reference.partition(":")
            if name in self.names() or not _is_missing(module, error.__cause__) or not _near(module, self.names()):
                raise
            if module in self.names():
                raise UnknownName(
                    f"unknown {self.kind} {name!r}: {module!r} is one, but {rest!r} is no part of its name; an option "
                    "has the form key=value"
                ) from error
            # "vlm:MODEL" is rather a misspelt name than a module
            raise UnknownName(f"unknown {self.kind} {module!r}{suggest(module, self.names())}") from error

    def _entry_point(self, name: str) -> str | None:
        return next((point.value for point in entry_points(group=self.group) if point.name == name), None)


def _origin(item: object) -> tuple[str, str] | None:
    """Return the module and the name of an item's function, where that name is one of the module."""
    function = getattr(item, "function", None)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<locals>")
    return None if module is None or "<" in name else (module, name)


def _is_missing(module: str, error: BaseException | None) -> bool:
    """Whether an error says that this very module does not exist."""
    return isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]


def _near(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(known), n=1)


def load(reference: str, kind: str, *, registered: bool = False) -> Any:
    """Return the object that "module:attribute" names.

    Args:
        reference: the name.
        kind: what it is, for messages.
        registered: whether a package named it, and not the user.

    Raises:
        CannotLoad: the module cannot be imported, or has no such attribute.
    """
    module, _, attribute = reference.partition(":")
    try:
        return attrgetter(attribute)((import_registered if registered else import_typed)(module))
    except Exception as error:  # importing runs code of others, which may raise anything
        hint = "; an option after a colon has the form key=value" if ":" in attribute else ""
        raise CannotLoad(f"the {kind} {reference!r} cannot be loaded: {type(error).__name__}: {error}{hint}") from error


def choose(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return a name if it is one of the choices.

    Args:
        kind: what the choices are, for the message.
        name: the name to check.
        choices: the names that exist.

    Raises:
        UnknownName: it is none of them; the message suggests the nearest one.
    """
    names = list(choices)
    if name not in names:
        raise UnknownName(f"unknown {kind} {name!r}{suggest(name, names)}")
    return name


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
