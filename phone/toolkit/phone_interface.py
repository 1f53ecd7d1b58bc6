"""The phone as its parts use it: protocols, since the phone itself stands above the toolkit and its apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from turncredit.phone.toolkit.handlers import Arguments, Do
from turncredit.phone.toolkit.state import AppPage, File, Notification, State
from turncredit.phone.toolkit.store import StoreCatalogue
from turncredit.phone.toolkit.tables import Database, Value
from turncredit.phone.toolkit.widgets import Window

__all__ = ["PhoneParts", "ShownWindow"]


class ShownWindow(Protocol):
    """A window on the screen."""

    @property
    def page(self) -> AppPage:
        """The page whose window it is."""
        ...

    @property
    def window(self) -> Window:
        """What its screen function returned."""
        ...

    @property
    def asked(self) -> Mapping[str, object]:
        """What the screen takes for keys that the page does not keep."""
        ...


class PhoneParts(Protocol):
    """What the toolkit, the apps and the system use of a phone; `turncredit.phone.Phone` documents it."""

    state: State

    # What it shows and holds

    @property
    def seed(self) -> int | str:
        """The seed of the content of all apps."""
        ...

    @property
    def page(self) -> AppPage:
        """The page in front."""
        ...

    @property
    def frame(self) -> ShownWindow:
        """The window in front."""
        ...

    @property
    def rotation(self) -> int:
        """Quarter turns of the screen, 0 to 3."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen in pixels."""
        ...

    @property
    def files(self) -> Mapping[str, File]:
        """The files of the storage by absolute path."""
        ...

    @property
    def stock(self) -> StoreCatalogue:
        """What the store in the browser sells."""
        ...

    def tables(self, package: str) -> Database:
        """Return the tables of an app."""
        ...

    def setting(self, name: str, namespace: str = "system") -> str:
        """Return a setting, "" if it is not set."""
        ...

    # What changes it

    def set_setting(self, name: str, value: str | None, namespace: str = "system") -> None:
        """Change a setting; None deletes it."""
        ...

    def write_file(self, path: str, data: bytes, modified: int | None = None) -> None:
        """Write a file."""
        ...

    def delete_file(self, path: str) -> None:
        """Remove a file."""
        ...

    def change_page(self, page: AppPage) -> None:
        """Put a page in place of the one in front."""
        ...

    def push(self, page: AppPage) -> None:
        """Open a page in front."""
        ...

    def pop(self) -> None:
        """Close the page in front."""
        ...

    def start(self, package: str, screen: str = "", params: Arguments = ()) -> None:
        """Bring an app to the front."""
        ...

    def stop(self, package: str) -> None:
        """Close an app with all its pages."""
        ...

    def go_home(self, screen: str = "home") -> None:
        """Show a screen of the launcher."""
        ...

    def run(self, action: Do | None, package: str, value: Value = None, frame: ShownWindow | None = None) -> None:
        """Run an action of an app."""
        ...

    def notify(self, notification: Notification) -> None:
        """Post a notification."""
        ...

    def grant(self, package: str, permission: str, granted: bool = True) -> None:
        """Grant a permission to an app, or take it away."""
        ...

    def ask_permission(self, package: str, permission: str, then: Do) -> None:
        """Run `then` if the permission is granted, after asking the user where it is not."""
        ...

    def _changed(self) -> None:
        """Forget what was computed from the state before it changed."""
        ...
