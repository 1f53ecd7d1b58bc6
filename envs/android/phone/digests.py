"""Digests of settings, tables, files and pages, for the key of a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

from turnwise.envs.android.phone.state import File, State
from turnwise.envs.android.phone.tables import Table

__all__ = ["files_key", "pages_key", "settings_key", "tables_key"]


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
    found = []
    for package, tables in databases.items():
        begun = first(package)
        for name, table in tables.items():
            if table is not begun[name] and table.digest != begun[name].digest:
                found.append((package, name, table.digest.hex()))
    return sorted(found)


@lru_cache(maxsize=2000)
def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def pages_key(state: State) -> tuple[object, ...]:
    """Return all but databases, settings and files as nested tuples of plain values."""
    return (
        state.clock,
        tuple((task.package, tuple(page.key() for page in task.pages)) for task in state.tasks),
        tuple(page.key() for page in state.windows),
        state.clipboard,
        state.snackbar and (state.snackbar.text, state.snackbar.label),
        tuple((n.package, n.title, n.text, n.when, n.tag) for n in state.notifications),
        sorted(state.permissions),
        sorted((event.when, event.package, event.action.name) for event in state.events),
        state.screen_on,
        sorted(state.directories),
    )
