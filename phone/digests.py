"""Digests of settings, tables, files and pages, for the key of a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

from turncredit.phone.toolkit.identity_cache import identity_cache
from turncredit.phone.toolkit.state import HOME, Event, File, Notification, State, tuple_text
from turncredit.phone.toolkit.tables import Table

__all__ = ["files_key", "pages_text", "settings_key", "tables_key"]


@identity_cache(64)
def settings_key(settings: Mapping[str, Mapping[str, str]]) -> str:
    """Return a digest of the settings."""
    content = repr([(space, sorted(values.items())) for space, values in sorted(settings.items())])
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def files_key(files: Mapping[str, File] | None) -> list[tuple[str, str, int]]:
    """Return path, digest and time of every file."""
    return [(path, _digest(file.data), file.modified) for path, file in sorted((files or {}).items())]


def tables_key(
    databases: Mapping[str, Mapping[str, Table]], first: Callable[[str], Mapping[str, Table]]
) -> list[tuple[str, str, str]]:
    """Return package, name and digest of every table that differs from `first(package)`, those of the start."""
    differences = []
    for package, tables in databases.items():
        begun = first(package)
        if tables == begun:  # all are the same objects
            continue
        for name, table in tables.items():
            if table is not begun[name] and table.digest != begun[name].digest:
                differences.append((package, name, table.digest.hex()))
    return sorted(differences)


@lru_cache(maxsize=2000)
def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def pages_text(state: State) -> str:
    """Return all but databases, settings and files as text: the `repr` of nested tuples of plain values."""
    snackbar = state.snackbar and (state.snackbar.text, state.snackbar.label)
    front, *behind = state.tasks
    open_tasks = [front, *(task for task in behind if task.package != HOME)]  # which always opens at its first page
    return tuple_text(
        [
            repr(state.clock),
            tuple_text([task.text for task in open_tasks]),
            tuple_text([page.text for page in state.windows]),
            repr(state.clipboard),
            repr(snackbar),
            _notifications_text(state.notifications),
            _names_text(state.permissions),
            _events_text(state.events),
            repr(state.screen_on),
            _names_text(state.directories),
        ]
    )


@identity_cache(64)
def _notifications_text(notifications: tuple[Notification, ...]) -> str:
    return repr(tuple((n.package, n.title, n.text, n.when, n.tag) for n in notifications))


@identity_cache(64)
def _events_text(events: tuple[Event, ...]) -> str:
    return repr(sorted((event.when, event.package, event.action.name) for event in events))


@identity_cache(64)
def _names_text(names: frozenset[str] | frozenset[tuple[str, str]]) -> str:
    return repr(sorted(names))
