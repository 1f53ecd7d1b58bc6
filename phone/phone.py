"""The phone: a state, the apps that give it a screen, and the inputs that change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from turncredit.phone.content.catalogue import CatalogueSource, small_catalogue
from turncredit.phone.digests import files_key, pages_text, settings_key, tables_key
from turncredit.phone.phone_data import PhoneData, UnknownApp
from turncredit.phone.screen import keys, text_input, touch
from turncredit.phone.screen.frames import frame_for
from turncredit.phone.screen.layout import Frame, lay_out
from turncredit.phone.toolkit.app import App, BrokenApp, Context, call, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import Arguments, Do
from turncredit.phone.toolkit.phone_interface import ShownWindow
from turncredit.phone.toolkit.state import (
    HOME,
    AppPage,
    Notification,
    Snackbar,
    State,
    Task,
)
from turncredit.phone.toolkit.tables import Value
from turncredit.phone.toolkit.widgets import Screen, Window, wrong_field
from turncredit.tools.android.node import Node, write_xml

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["CLOCK", "HOME", "Phone", "UnknownApp"]

CLOCK: Final = datetime(2023, 10, 15, 15, 34)
"""When a phone starts unless told otherwise."""

SYSTEM: Final = "com.android.systemui"
_SIZE: Final = (1080, 2400)


class _Input:
    """Around what an input does: the phone has changed then, even if it has raised."""

    __slots__ = ("_changed",)

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *exception: object) -> None:
        """Note the change."""
        self._changed()


class Phone(PhoneData):
    """A simulated phone.

    Inputs never raise for what a user can do: a touch of nothing does nothing.
    """

    def __init__(
        self,
        seed: int | str = 0,
        clock: datetime | None = None,
        apps: Iterable[App] | None = None,
        catalogue: CatalogueSource = small_catalogue,
    ) -> None:
        """Start a phone at its home screen.

        Args:
            seed: of the content of all apps.
            clock: local date and time; default: `CLOCK`.
            apps: what is installed; default: all of the registry. The system's own are always there.
            catalogue: products of the store in the browser, as a function of the seed; default: a few dozen.
        """
        super().__init__(seed, to_clock(clock or CLOCK), apps, catalogue)
        self._frame: Frame | None = None
        self._key: str | None = None
        self.changes = 0  # counts what may have changed the state, for those who watch the phone
        for app in self.apps.values():
            if app.prepare:
                app.prepare(self.context(app.package))
        self._first = self.state.copy()

    def context(self, package: str) -> Context:
        return Context(self, package)

    # What it shows

    @property
    def page(self) -> AppPage:
        """The page in front."""
        state = self.state
        return state.windows[-1] if state.windows else state.tasks[0].pages[-1]

    @property
    def frame(self) -> Frame:
        """The window in front as boxes: what a touch acts on."""
        if self._frame is None:
            self._frame = self.frame_of(self.page)
        return self._frame

    def _changed(self) -> None:
        self._frame = self._key = None
        self.changes += 1

    def frame_of(self, page: AppPage) -> Frame:
        """Return a page as boxes, whether or not it is in front.

        Raises:
            BrokenApp: its screen function fails, or returns what cannot be shown, and nothing came from outside.
        """
        first = page is self.state.tasks[0].pages[0]
        snackbar = None if self.state.windows else self.state.snackbar
        about = (self._made_from, page.text, first, snackbar)
        try:
            return frame_for(self, self._content, about, lambda: self._build(page, first, snackbar))
        except BrokenApp as error:
            return self.frame_of(self._stopped(page.package, error))

    def _build(self, page: AppPage, first: bool, snackbar: Snackbar | None) -> Frame:
        function, context = self.apps[page.package].screen(page.screen), Context(self, page.package, page)
        window = call(page.package, function, context, dict(page.params))
        if not isinstance(window, Window):
            raise BrokenApp(f"{page.package}: screen {page.screen!r} must return a window, got {type(window).__name__}")
        scale = float(self.setting("font_scale") or "1")
        try:
            frame = lay_out(window, page, self.size, scale, snackbar, first)
        except BrokenApp:
            raise
        except Exception as error:
            problem = wrong_field(window) or f"it cannot be laid out: {type(error).__name__}: {error}"
            raise BrokenApp(f"{page.package}: screen {page.screen!r}: {problem}") from error
        frame.asked = context.asked
        context.let_go()
        return frame

    def tree(self) -> Node:
        """Return the accessibility tree of the window in front."""
        return self.frame.root

    def xml(self) -> str:
        """Return the tree in the XML of `uiautomator dump`."""
        return write_xml(self.tree(), self.rotation)

    def screenshot(self, size: tuple[int, int] | None = None) -> Image:
        """Return the screen as a Pillow image in RGB.

        Args:
            size: width and height in pixels; default: the screen's own.

        Raises:
            ModuleNotFoundError: the extra `phone` is not installed.
        """
        from turncredit.phone.screen.screenshot import paint

        return paint(self, size or self.size)

    @property
    def rotation(self) -> int:
        """Quarter turns of the screen, 0 to 3."""
        value = self.setting("user_rotation")
        return int(value) if value in ("1", "2", "3") else 0

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen in pixels, as it is turned."""
        return (_SIZE[1], _SIZE[0]) if self.rotation % 2 else _SIZE

    @property
    def activity(self) -> str:
        """The component in front, such as 'com.android.settings/.Settings'."""
        return self.apps[self.state.tasks[0].package].component

    @property
    def now(self) -> datetime:
        """The clock."""
        return to_datetime(self.state.clock)

    # Inputs

    def tap(self, x: int, y: int) -> None:
        """Tap a pixel."""
        with self._input():
            touch.tap(self, x, y)

    def long_press(self, x: int, y: int) -> None:
        """Hold a pixel for a second."""
        with self._input():
            touch.long_press(self, x, y)

    def swipe(self, x1: int, y1: int, x2: int, y2: int, milliseconds: int = 300) -> None:
        """Draw a finger from one pixel to another; a swipe on the spot is a tap, or after 400 ms a long press."""
        with self._input():
            touch.swipe(self, (x1, y1), (x2, y2), milliseconds)

    def key(self, *codes: int) -> None:
        """Press a key by its Android code; several are held together, modifiers first."""
        with self._input():
            keys.press(self, codes)

    def text(self, text: str) -> None:
        """Type into the field with the focus; nothing happens if there is none."""
        with self._input():
            text_input.insert(self, text)

    def back(self) -> None:
        """Press Back."""
        self.key(keys.BACK)

    def home(self) -> None:
        """Press Home."""
        self.key(keys.HOME)

    def recents(self) -> None:
        """Press Overview."""
        self.key(keys.APP_SWITCH)

    def launch(self, app: str, screen: str = "", **params: object) -> None:
        """Bring an app to the front.

        Args:
            app: package, activity ("package/.Activity") or name as in the drawer.
            screen: one of its screens; default: where it was left, or its first.
            params: of the screen.

        Raises:
            UnknownApp: the phone has no such app.
        """
        package = self.startable(app).package
        with self._input():
            self.state.windows = ()
            self.start(package, screen, tuple(params.items()))

    def advance(self, seconds: int) -> None:
        """Let time pass: alarms ring and timers end in their order."""
        with self._input():
            end = self.state.clock + seconds
            while due := [event for event in self.state.events if event.when <= end]:
                event = min(due, key=lambda event: event.when)
                self.state.events = tuple(other for other in self.state.events if other is not event)
                self.state.clock = max(self.state.clock, event.when)
                self.run(event.action, event.package)
            self.state.clock = end

    def _input(self) -> _Input:
        return _Input(self._changed)

    # State

    def state_key(self) -> str:
        """Return 32 hex digits that are equal exactly when the phone is in the same situation."""
        if self._key is None:
            self._key = self._state_key()
        return self._key

    def _state_key(self) -> str:
        state = self.state
        tables = tables_key(state.databases, self._first_tables)
        files = self._changed_files()
        remainder = (
            f"({self.seed!r}, {self._start!r}, {settings_key(state.settings)!r}, {files!r}, {pages_text(state)})"
        )
        content = f"({tables!r}, {remainder})".encode("utf-8", "surrogatepass")
        return blake2b(content, digest_size=16).hexdigest()

    def _changed_files(self) -> object:
        """Return the key of the files, or None if they are those of the start."""
        files = self.state.files
        if files is None or files is self._content.files:
            return None
        if self._content.files is None:
            self.state.files, changed = None, files
            _ = self.files
            self.state.files = changed
        key = files_key(files)
        return None if key == files_key(self._content.files) else key

    def snapshot(self) -> State:
        """Return the state, to be restored on this phone or on one with the same seed, clock, apps and catalogue."""
        return self.state.copy()

    def restore(self, state: State) -> None:
        """Go back to a snapshot, which can be restored again."""
        self.state = state.copy()
        self._changed()

    def reset(self) -> None:
        """Go back to the start."""
        self.restore(self._first)

    # Apps that fail

    def from_outside(self) -> None:
        """Note that adb works on the phone: an app that then fails stops, as on a device, and BrokenApp is not raised.

        Its data may be such as the app itself never writes.
        """
        self.state.outside = True

    def _stopped(self, package: str, error: BrokenApp) -> AppPage:
        """Return the page that says that an app has failed, after logging why.

        Raises:
            BrokenApp: nothing came from outside, so that the app itself is wrong.
        """
        if not self.state.outside:
            raise error
        text = f"FATAL EXCEPTION: {error}"
        if not self.state.log or self.state.log[-1].text != text:
            self.log("AndroidRuntime", text, "E")
        return AppPage(SYSTEM, "stopped", (("package", package),))

    # What apps and inputs do; a person has no use for these

    def run(self, action: Do | None, package: str, value: Value = None, frame: ShownWindow | None = None) -> None:
        """Run an action of an app.

        Args:
            action: what to do; None does nothing.
            package: the app.
            value: for `ctx.value`.
            frame: where it was touched, for `ctx.form`.

        Raises:
            BrokenApp: it fails, and nothing came from outside.
        """
        if action is not None:
            context = Context(self, package, frame.page if frame else None, frame.window if frame else None)
            context.value = value
            try:
                call(package, action.function, context, dict(action.arguments))
            except BrokenApp as error:
                self.push(self._stopped(package, error))
            self._changed()

    def change_page(self, page: AppPage) -> None:
        """Put a page in place of the one in front."""
        state = self.state
        if state.windows:
            state.windows = (*state.windows[:-1], page)
        else:
            task = state.tasks[0]
            state.tasks = (Task(task.package, (*task.pages[:-1], page)), *state.tasks[1:])
        self._changed()

    def push(self, page: AppPage) -> None:
        """Open a page in front of the app's others; the keyboard of the page below closes."""
        state, below = self.state, self.page
        if below.keyboard or below.toolbar:
            self.change_page(replace(below, keyboard=False, toolbar=False))
        if page.package == SYSTEM:
            state.windows = (*state.windows, page)
        else:
            task = state.tasks[0]
            state.tasks = (Task(task.package, (*task.pages, page)), *state.tasks[1:])
        self._changed()

    def pop(self) -> None:
        """Close the page in front; with its last page an app closes."""
        state, task = self.state, self.state.tasks[0]
        if state.windows:
            state.windows = state.windows[:-1]
        elif len(task.pages) > 1:
            state.tasks = (Task(task.package, task.pages[:-1]), *state.tasks[1:])
        elif task.package != HOME:
            state.tasks = state.tasks[1:]
            self.go_home()
        self._changed()

    def start(self, package: str, screen: str = "", params: Arguments = ()) -> None:
        """Bring an app to the front, with a screen of it on top if one is named."""
        app = self.find_app(package)
        if app.package == HOME:
            self.go_home(screen or "home")
            return
        running = next((task for task in self.state.tasks if task.package == app.package), None)
        pages = running.pages if running else (AppPage(app.package, app.screens[0].__name__),)
        if screen and (params or screen != pages[-1].screen):
            app.screen(screen)
            pages = (*pages, AppPage(app.package, screen, params))
        others = tuple(task for task in self.state.tasks if task.package != app.package)
        self.change(tasks=(Task(app.package, pages), *others))

    def go_home(self, screen: str = "home") -> None:
        """Show a screen of the launcher: home, drawer or recents."""
        pages = (AppPage(HOME, "home"),) if screen == "home" else (AppPage(HOME, "home"), AppPage(HOME, screen))
        others = tuple(task for task in self.state.tasks if task.package != HOME)
        self.state.windows = ()
        self.change(tasks=(Task(HOME, pages), *others))

    def stop(self, package: str) -> None:
        """Close an app with all its pages."""
        front = self.state.tasks[0].package
        if package != HOME:
            self.state.tasks = tuple(task for task in self.state.tasks if task.package != package)
        if package == front:
            self.go_home()
        self._changed()

    def open_shade(self) -> None:
        """Pull down the notification shade."""
        if not any(page.screen == "shade" for page in self.state.windows):
            self.push(AppPage(SYSTEM, "shade"))

    def ask_permission(self, package: str, permission: str, then: Do) -> None:
        """Ask the user for a permission unless it is granted, then run an action."""
        if (package, permission) in self.state.permissions:
            self.run(then, package)
        else:
            self.push(AppPage(SYSTEM, "permission", (("package", package), ("permission", permission), ("then", then))))

    def grant(self, package: str, permission: str, granted: bool = True) -> None:
        """Grant a permission to an app, or take it away."""
        change = {(package, permission)}
        held = self.state.permissions
        self.change(permissions=held | change if granted else held - change)

    def notify(self, notification: Notification) -> None:
        """Post a notification; one of the same app and tag is replaced."""
        same = (notification.package, notification.tag)
        others = [n for n in self.state.notifications if not n.tag or (n.package, n.tag) != same]
        self.change(notifications=(notification, *others))

    def leave(self) -> None:
        """Do what the Back key does when no keyboard is open: the screen decides, else its page closes."""
        frame = self.frame
        if isinstance(frame.window, Screen) and frame.window.on_back:
            self.run(frame.window.on_back, frame.page.package, frame=frame)
        else:
            self.pop()
