"""Screens that were built before: the same page with the same data gives the same frame, so it is built once.

A screen is a function of its page and of what it reads of the phone. What it reads is noted while it is built; a frame
that is kept is shown again on a phone of the same content where all of this is the same. It does not matter what else
has changed, nor on which phone it was built: those that the agents of a group play on share their frames.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple

from turncredit.phone.screen.layout import Frame
from turncredit.phone.screen.screen_phone import ScreenPhone
from turncredit.phone.toolkit.state import State
from turncredit.phone.toolkit.tables import Table

__all__ = ["KEPT", "frame_for"]


KEPT: Final = 48
"""How many pages are kept, of all phones together: more would keep the garbage collector busy."""
VERSIONS: Final = 4
"""How many frames of one page are kept: the agents of a group change the same pages in different ways."""

Read = tuple[str, ...]
"""What a screen has read: a field of the state; ("setting", name, namespace); ("tables", package)."""
_CONTENT: Final = frozenset(("tables", "files", "seed"))
"""What differs between phones of different seeds at their start."""


class _Kept(NamedTuple):
    frame: Frame
    names: tuple[Read, ...]
    values: list[object]


_frames: OrderedDict[Hashable, list[_Kept]] = OrderedDict()  # the last ones of each page, the newest first


class WatchedState:
    """Stands in for a state while a screen is built, and notes what is read."""

    def __init__(self, state: State) -> None:
        """Watch a state."""
        self.__dict__.update(watched=state, read=set())

    def __getattr__(self, name: str) -> Any:
        """Return a field, and note it."""
        self.read.add((name,))
        return getattr(self.watched, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field of the state: the storage is filled when it is first needed."""
        setattr(self.watched, name, value)

    def setting(self, name: str, namespace: str) -> str:
        """Return a setting, and note it."""
        self.read.add(("setting", name, namespace))
        return self.watched.setting(name, namespace)  # type: ignore[no-any-return]

    def tables(self, package: str) -> dict[str, Table] | None:
        """Return the tables of an app, and note them."""
        self.read.add(("tables", package))
        return self.watched.tables(package)  # type: ignore[no-any-return]

    def open_tables(self, package: str, tables: dict[str, Table]) -> None:
        """Give an app its first tables."""
        self.watched.open_tables(package, tables)


def frame_for(phone: ScreenPhone, content: Hashable, about: Hashable, build: Callable[[], Frame]) -> Frame:
    """Return the frame that `build()` returns now, or the same one built before.

    Args:
        phone: whose state `build` reads.
        content: what the seed of the phone determines; phones of other content share the frames that do not show it.
        about: all else that the frame depends on.
        build: builds it; must not change the state.
    """
    for key in ((content, about), (None, about)):
        for version in _frames.get(key, ()):
            if all(map(_same, version.values, _values(phone, version.names))):
                return _keep(key, version)
    version = _built(phone, build)
    return _keep((content if any(name[0] in _CONTENT for name in version.names) else None, about), version)


def _keep(key: Hashable, version: _Kept) -> Frame:
    """Make a frame the newest of all, and return it."""
    versions = _frames.pop(key, [])
    if not versions or versions[0] is not version:
        versions = [version, *[other for other in versions if other is not version][: VERSIONS - 1]]
    _frames[key] = versions
    if len(_frames) > KEPT:
        _frames.popitem(last=False)
    return version.frame


def _built(phone: ScreenPhone, build: Callable[[], Frame]) -> _Kept:
    """Build a frame, and note what it reads of the phone."""
    state = phone.state
    watched = WatchedState(state)
    phone.state = watched  # type: ignore[assignment]  # it stands in for a state
    try:
        frame = build()
    finally:
        phone.state = state
    names = tuple(watched.read)
    return _Kept(frame, names, _values(phone, names))


def _values(phone: ScreenPhone, names: tuple[Read, ...]) -> list[object]:
    """Return what was read, as it is now."""
    values: list[object] = []
    for name, *arguments in names:
        if name == "setting":
            values.append(phone.setting(*arguments))
        elif name == "tables":
            values += (phone.state.tables(*arguments) or phone.tables(*arguments).tables).values()
        else:
            values.append(phone.files if name == "files" else getattr(phone.state, name))
    return values


def _same(old: object, new: object) -> bool:
    """Return whether two values are the same: values never change, so most that are equal are the same object."""
    return old is new or (isinstance(old, (str, int)) and old == new)
