"""The data of a phone: its apps with their tables, the files of its storage, its settings and its log."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from turncredit.phone.content.catalogue import CatalogueSource
from turncredit.phone.content.seed_content import SeedContent, shared_content
from turncredit.phone.toolkit.app import App, Context, call
from turncredit.phone.toolkit.state import HOME, AppPage, File, LogLine, State, Task, default_settings
from turncredit.phone.toolkit.store import StoreCatalogue
from turncredit.phone.toolkit.tables import Database, Table, empty_tables, from_sqlite, to_sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PhoneData", "UnknownApp"]

_LOG_LINES: Final = 400


class UnknownApp(LookupError):
    """No app of the phone has this package, activity or name."""


class PhoneData(ABC):
    """The data of a phone; what a seed fills is computed when it is first used."""

    def __init__(self, seed: int | str, start: int, apps: Iterable[App] | None, catalogue: CatalogueSource) -> None:
        """Start without changes.

        Args:
            seed: of the content of all apps.
            start: the time at which it begins, in seconds.
            apps: what is installed; None: all of the registry. The system's own are always there.
            catalogue: products of the store in the browser, as a function of the seed.
        """
        from turncredit.phone.installed_apps import installed

        self.apps: Mapping[str, App] = installed(apps)
        self._start = start
        self._catalogue = catalogue
        self._content = shared_content(repr(seed), start, catalogue) if apps is None else SeedContent()
        self._made_from = (catalogue, None if apps is None else self._content)  # phones of other apps share no frames
        self.state = State(start, default_settings(), seed, tasks=(Task(HOME, (AppPage(HOME, "home"),)),))

    @abstractmethod
    def context(self, package: str) -> Context:
        """Return what a function of an app gets."""

    @abstractmethod
    def _changed(self) -> None:
        """Forget what was computed from the state before it changed."""

    @property
    def seed(self) -> int | str:
        """The seed of the content of all apps."""
        return self.state.seed

    @property
    def stock(self) -> StoreCatalogue:
        """What the store in the browser sells."""
        return self._catalogue(self.seed)

    def find_app(self, name: str) -> App:
        """Return an app by package, activity or name.

        Raises:
            UnknownApp: the phone has none; the message lists the apps.
        """
        package, slash, activity = name.partition("/")
        match = self.apps.get(package)
        if match and (not slash or activity in (match.activity, package + match.activity)):
            return match
        for app in self.apps.values():
            if app.name.casefold() == name.casefold() and not app.hidden:
                return app
        names = ", ".join(sorted(app.name for app in self.apps.values() if not app.hidden))
        raise UnknownApp(f"no app is called {name!r}; the phone has {names}")

    def startable(self, name: str) -> App:
        """Return an app that can be brought to the front: not a part of the system other than the home screen.

        Raises:
            UnknownApp: the phone has none.
        """
        app = self.find_app(name)
        if app.hidden and app.package != HOME:
            raise UnknownApp(f"{app.package} has no activity that can be started")
        return app

    def tables(self, package: str) -> Database:
        """Return the tables of an app, filled from the seed when they are first used."""
        app = self.apps.get(package) or self.find_app(package)
        tables = self.state.tables(package)
        if tables is None:
            tables = dict(self._first_tables(package))
            self.state.open_tables(package, tables)
        return Database(app.name, app.schema, tables, self._changed)

    def _first_tables(self, package: str) -> dict[str, Table]:
        """Return the tables of an app as the seed fills them."""
        first = self._content.tables.get(package)
        if first is None:
            app = self.apps[package]
            with self._at_start() as state:
                state.databases[package] = empty_tables(app.schema)
                if app.fill:
                    call(package, app.fill, self.context(package), {})
            first = self._content.tables.setdefault(package, state.databases[package])
        return first

    @contextmanager
    def _at_start(self) -> Iterator[State]:
        """Put the phone back to its start, so that content does not depend on when it is first needed."""
        current = self.state
        self.state = State(self._start, default_settings(), current.seed)
        try:
            yield self.state
        finally:
            self.state = current

    def database(self, package: str) -> sqlite3.Connection:
        """Return an app's tables as an SQLite database in memory; `serialize()` gives the bytes of its file."""
        app = self.find_app(package)
        self.tables(app.package)
        return to_sqlite(app.schema, self.state.databases[app.package])

    def store_database(self, package: str, connection: sqlite3.Connection) -> None:
        """Take an app's tables from a database that `database` gave and SQL has changed.

        Raises:
            sqlite3.Error: a table or column that the app needs is gone.
        """
        app = self.find_app(package)
        new = from_sqlite(app.schema, connection)
        old = self.tables(app.package).tables
        same = {name: old[name] for name in new if old[name].digest == new[name].digest}
        self.state.databases[app.package] = {**new, **same}
        self._changed()

    def log(self, tag: str, text: str, level: str = "I") -> None:
        """Add a line to the log, whose oldest lines go."""
        self.state.log = (*self.state.log[1 - _LOG_LINES :], LogLine(self.state.clock, level, tag, text))

    @property
    def files(self) -> Mapping[str, File]:
        """The files of the storage by absolute path. Read only."""
        if self.state.files is None:
            if self._content.files is None:
                self._content.files = self._fill_files()
            self.state.files = self._content.files
        return self.state.files

    def _fill_files(self) -> Mapping[str, File]:
        with self._at_start() as state:
            state.files = {}
            for app in self.apps.values():
                if app.files:
                    call(app.package, app.files, self.context(app.package), {})
        return state.files

    def write_file(self, path: str, data: bytes, modified: int | None = None) -> None:
        """Write a file; `modified` in seconds since 1970, by default now."""
        when = self.state.clock if modified is None else modified
        self.change(files={**self.files, path: File(data, when)})

    def delete_file(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""
        if path in self.files:
            self.change(files={name: file for name, file in self.files.items() if name != path})

    def setting(self, name: str, namespace: str = "system") -> str:
        """Return a setting of the namespace system, secure or global; "" if it is not set."""
        return self.state.setting(name, namespace)

    def set_setting(self, name: str, value: str | None, namespace: str = "system") -> None:
        """Change a setting; None deletes it."""
        values = {key: old for key, old in self.state.settings[namespace].items() if key != name}
        if value is not None:
            values[name] = value
        self.change(settings={**self.state.settings, namespace: values})

    def change(self, **fields: object) -> None:
        """Replace fields of the state."""
        for name, value in fields.items():
            setattr(self.state, name, value)
        self._changed()
