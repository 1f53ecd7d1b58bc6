"""Apps, and the context that their screens and actions get.

An app is one file that ends with its declaration:

    APP = App(
        package="org.turncredit.notes", name="Notes", icon="note", colour="#f9ab00",
        schema={"notes": {"title": str, "text": str, "pinned": bool}},
        fill=fill, screens=(notes, note),
    )

`fill(ctx)` writes the first rows with `ctx.db` and `ctx.random`. A screen, `notes(ctx)` or `note(ctx, id)`, returns a
window, changes nothing, and depends on nothing but the context and its parameters: what it built is shown again while
all that it has read is the same (`frames`). An action, `save(ctx, id)`, changes rows with `ctx.db` and moves with
`ctx.open` and `ctx.back`. Widgets name actions: `on_tap=do(save, id=3)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from turncredit.former_name import random_key
from turncredit.phone.toolkit.forms import form_values, keep_value
from turncredit.phone.toolkit.handlers import Arguments, Do
from turncredit.phone.toolkit.icons import ICONS
from turncredit.phone.toolkit.phone_interface import PhoneParts
from turncredit.phone.toolkit.state import AppPage, Event, Notification, Snackbar
from turncredit.phone.toolkit.tables import KINDS, Columns, Database, Row, Schema, Value
from turncredit.phone.toolkit.widgets import Window
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["App", "AppPhone", "BrokenApp", "Context", "Converted", "Provider", "call", "to_clock", "to_datetime"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1)
_PACKAGE: Final = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", re.ASCII)
_COLOUR: Final = re.compile(r"#[0-9A-Fa-f]{6}")
ScreenFunction = Callable[..., Window]
Action = Callable[..., None]


@dataclass(frozen=True)
class Converted:
    """A column of a table that a provider shows in another form.

    `show` takes the whole row; `store` takes what was written, and raises ValueError for what it cannot be.
    """

    column: str
    show: Callable[[Row], Value]
    store: Callable[[Any], Value]


@dataclass(frozen=True)
class Provider:
    """Rows of an app under a content uri. Columns that are functions of a row are read only."""

    table: str
    columns: Mapping[str, str | Converted | Callable[[Row], Value]]  # of the provider -> of the table
    where: Mapping[str, Value] = field(default_factory=dict)  # the rows that it shows, and what a new one gets
    clean: Callable[[Columns, Row], Columns] | None = None
    """Returns a new or changed row of the table as it is stored, or raises ValueError. Its second argument is the row
    before the change, empty for a new one."""
    ignored: tuple[str, ...] = ()
    """Columns that can be written and change nothing."""


class BrokenApp(Exception):
    """An app cannot be used: its declaration, a screen or an action is wrong."""


@dataclass(frozen=True)
class App:
    """The declaration of an app. The first screen is the one that it starts with."""

    package: str
    name: str
    icon: str
    colour: str
    screens: tuple[ScreenFunction, ...]
    schema: Schema = field(default_factory=dict)
    fill: Callable[[Context], None] | None = None
    files: Callable[[Context], None] | None = None  # writes the app's first files with ctx.write_file
    database: str = ""  # path of its database on a real device; default: /data/data/PACKAGE/databases/NAME.db
    activity: str = ".MainActivity"
    intents: Mapping[str, str | Action] = field(default_factory=dict)  # of `am start`: see `intents`
    receivers: Mapping[str, Callable[..., None]] = field(default_factory=dict)  # of `am broadcast -a`: action -> action
    providers: Mapping[str, Provider] = field(default_factory=dict)  # of `content`: uri -> rows
    empty: Callable[[Context], None] | None = None  # writes the rows that it cannot do without, after `pm clear`
    permissions: tuple[str, ...] = ()  # that it may ask for, such as "android.permission.CAMERA"
    hidden: bool = False  # not in the drawer: a part of the system
    prepare: Callable[[Context], None] | None = None  # runs at the start of the phone: events, notifications
    volatile: tuple[str, ...] = ()  # tables that only record use, such as searches: judges of tasks skip them

    def __post_init__(self) -> None:
        """Check what would only fail later.

        Raises:
            BrokenApp: one of its values cannot be what it says; the message names it, and what it may be.
        """
        self._check_look()
        self._check_data()
        names = [screen.__name__ for screen in self.screens]
        if not names:
            raise BrokenApp(f"{self.package} has no screens")
        if len(set(names)) < len(names):
            raise BrokenApp(f"{self.package} has two screens of one name; its screens: {', '.join(names)}")
        for action, screen in self.intents.items():
            if isinstance(screen, str) and screen not in names:
                raise BrokenApp(f"{self.package}: {action} opens {screen!r}; its screens: {', '.join(names)}")

    def _check_look(self) -> None:
        if not isinstance(self.package, str) or not _PACKAGE.fullmatch(self.package):
            raise BrokenApp(f"a package is a name such as org.example.water, got {self.package!r}")
        if not isinstance(self.name, str) or not self.name.strip():
            raise BrokenApp(f"{self.package}: name must be a text that is not empty, got {self.name!r}")
        if self.icon not in ICONS:
            near = get_close_matches(str(self.icon), ICONS, 5) or list(ICONS)[:5]
            raise BrokenApp(
                f"{self.package}: icon must be one of `phone.icons.ICONS`, such as {', '.join(near)}, got {self.icon!r}"
            )
        if not isinstance(self.colour, str) or not _COLOUR.fullmatch(self.colour):
            raise BrokenApp(f"{self.package}: colour must be like '#1a73a8', got {self.colour!r}")

    def _check_data(self) -> None:
        for table, columns in self.schema.items():
            for column, kind in columns.items():
                if kind not in KINDS:
                    choices = ", ".join(allowed.__name__ for allowed in KINDS)
                    raise BrokenApp(f"{self.package}: column {table}.{column} must be one of {choices}, got {kind!r}")
        provided = [provider.table for provider in self.providers.values()]
        for name in (*self.volatile, *provided):
            if name not in self.schema:
                choices = ", ".join(self.schema) or "none"
                raise BrokenApp(f"{self.package} has no table {name!r}; its tables: {choices}")

    @property
    def component(self) -> str:
        """Its activity, such as 'com.android.settings/.Settings'."""
        return f"{self.package}/{self.activity}"

    @property
    def database_path(self) -> str:
        """Where its database lies on a device."""
        return self.database or f"/data/data/{self.package}/databases/{self.package.rsplit('.', 1)[-1]}.db"

    def screen(self, name: str) -> ScreenFunction:
        """Return a screen by name.

        Raises:
            BrokenApp: it has no such screen.
        """
        for function in self.screens:
            if function.__name__ == name:
                return function
        names = ", ".join(function.__name__ for function in self.screens)
        raise BrokenApp(f"{self.package} has no screen {name!r}; its screens: {names}")


class AppPhone(PhoneParts, Protocol):
    """The phone of an app."""

    @property
    def apps(self) -> Mapping[str, App]:
        """The apps that it has, by package."""
        ...


class Context:
    """The phone as an app sees it, for one call of a screen or an action."""

    __slots__ = ("_db", "_form", "_page", "_window", "asked", "package", "phone", "value")

    def __init__(
        self, phone: AppPhone, package: str, page: AppPage | None = None, window: Window | None = None
    ) -> None:
        """Show `phone` to the app `package`, whose page was touched, if any."""
        self.phone = phone
        self.package = package
        self.asked: dict[str, object] = {}  # the defaults of `get`
        self.value: Value = None  # the new value of the switch, slider or field that was changed
        self._page = page
        self._window = window
        self._form: dict[str, Value] | None = None
        self._db: Database | None = None

    def let_go(self) -> None:
        """Forget the phone: a kept frame, whose rows may hold this context, must not keep it."""
        self.phone = self._db = None  # type: ignore[assignment]

    # Data

    @property
    def db(self) -> Database:
        """The tables of this app."""
        if self._db is None:
            self._db = self.phone.tables(self.package)
        return self._db

    def of(self, package: str) -> Database:
        """Return the tables of another app, as a content provider would show them."""
        return self.phone.tables(package)

    @property
    def random(self) -> KeyedRandom:
        """A generator for `fill`, the same for the same seed and app. A new one at each use: keep it in a name."""
        return KeyedRandom(f"{self.phone.seed}/{random_key(self.package)}")

    @property
    def now(self) -> datetime:
        """The phone's clock."""
        return to_datetime(self.phone.state.clock)

    @property
    def today(self) -> date:
        """The phone's date."""
        return to_datetime(86_400 * self.phone.state.day).date()

    def setting(self, name: str, namespace: str = "system") -> str:
        """Return a setting, "" if it is not set."""
        return self.phone.setting(name, namespace)

    def set_setting(self, name: str, value: str, namespace: str = "system") -> None:
        """Change a setting."""
        self.phone.set_setting(name, value, namespace)

    def files(self, folder: str = "/") -> list[str]:
        """Return the paths of all files under a folder, in order."""
        prefix = folder.rstrip("/") + "/"
        return sorted(path for path in self.phone.files if path.startswith(prefix))

    def read_file(self, path: str) -> bytes | None:
        """Return a file, or None."""
        file = self.phone.files.get(path)
        return file.data if file else None

    def write_file(self, path: str, data: bytes, modified: int | None = None) -> None:
        """Write a file; `modified` in seconds, by default now."""
        self.phone.write_file(path, data, modified)

    def delete_file(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""
        self.phone.delete_file(path)

    # The page

    def get(self, key: str, default: Any = None) -> Any:
        """Return what the page keeps under a key."""
        page = self._page if self._window is None else self.phone.page
        self.asked[key] = default
        return page.values.get(key, default) if page else default

    def set(self, key: str, value: Value) -> None:
        """Keep a value in the page in front: a tab, a filter, a choice. None is a value too."""
        keep_value(self.phone, key, value)

    @property
    def form(self) -> Row:
        """The values of all fields of the touched page by key, whether changed or not."""
        if self._form is None:
            values = dict(self._page.values) if self._page else {}
            self._form = {**form_values(self._window, values), **values}
        return self._form

    # Moving

    def open(self, screen: ScreenFunction, **params: object) -> None:
        """Show a screen, dialog, menu or sheet of this app in front of the page."""
        self.open_named(screen.__name__, tuple(params.items()))

    def open_named(self, screen: str, params: Arguments) -> None:
        """Do the same with the name of a screen."""
        self.phone.push(AppPage(self.package, screen, params))

    def open_once(self, screen: ScreenFunction) -> None:
        """Show a screen of this app, unless it is in front."""
        if self.phone.page.screen != screen.__name__:
            self.open(screen)

    def replace(self, screen: ScreenFunction, **params: object) -> None:
        """Show a screen instead of the page in front."""
        self.phone.change_page(AppPage(self.package, screen.__name__, tuple(params.items())))

    def back(self, steps: int = 1) -> None:
        """Close pages; closing the first one of the app leaves it."""
        for _ in range(steps):
            self.phone.pop()

    def start(self, package: str, screen: str = "", **params: object) -> None:
        """Bring another app to the front, at a screen of it."""
        self.phone.start(package, screen, tuple(params.items()))

    def snackbar(self, text: str, label: str = "", on_tap: Do | None = None) -> None:
        """Show a short message, with a button such as Undo."""
        self.phone.state.snackbar = Snackbar(text, label, self.package, on_tap)

    # The system

    @property
    def clipboard(self) -> str:
        """The clipboard's text."""
        return self.phone.state.clipboard

    def copy(self, text: str) -> None:
        """Put a text on the clipboard."""
        self.phone.state.clipboard = text

    def notify(self, title: str, text: str, on_tap: Do | None = None, tag: str = "") -> None:
        """Post a notification; it replaces the app's one with the same tag, if the tag is not empty."""
        self.phone.notify(Notification(self.package, title, text, self.phone.state.clock, on_tap, tag))

    def cancel(self, tag: str) -> None:
        """Take back the app's notifications with this tag."""
        others = [n for n in self.phone.state.notifications if (n.package, n.tag) != (self.package, tag)]
        self.phone.state.notifications = tuple(others)

    def later(self, seconds: int, action: Do) -> None:
        """Run an action when the clock has moved on by this much."""
        event = Event(self.phone.state.clock + seconds, self.package, action)
        self.phone.state.events = (*self.phone.state.events, event)

    def cancel_later(self, function: Callable[..., None]) -> None:
        """Drop the app's waiting calls of a function."""
        events = self.phone.state.events
        others = [event for event in events if event.package != self.package or event.action.function is not function]
        self.phone.state.events = tuple(others)

    def allowed(self, permission: str) -> bool:
        """Return whether the user has granted a permission."""
        return (self.package, permission) in self.phone.state.permissions

    def ask(self, permission: str, then: Do) -> None:
        """Run `then` if the permission is granted, after asking the user where it is not."""
        self.phone.ask_permission(self.package, permission, then)


@lru_cache(maxsize=4096)
def to_datetime(clock: int) -> datetime:
    """Return the local time of a clock in seconds."""
    return _EPOCH + timedelta(seconds=clock)


def to_clock(moment: datetime) -> int:
    """Return the clock in seconds of a local time."""
    return int((moment.replace(tzinfo=None) - _EPOCH).total_seconds())


def call(package: str, function: Callable[..., T], context: Context, arguments: Mapping[str, object]) -> T:
    """Call a function of an app.

    Raises:
        BrokenApp: it raised; the message names app, function and error.
    """
    try:
        return function(context, **arguments)
    except BrokenApp:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise BrokenApp(f"{package}: {function.__name__}{tuple(arguments.items())} failed with {problem}") from error
