"""The apps that a phone has. A new app is one file in `apps` and one line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Final

from turncredit.phone.toolkit.app import App, BrokenApp

__all__ = ["APPS", "all_apps", "installed"]

APPS: Final[tuple[str, ...]] = (
    "turncredit.phone.apps.browser",
    "turncredit.phone.apps.calendar",
    "turncredit.phone.apps.clock",
    "turncredit.phone.apps.contacts",
    "turncredit.phone.apps.dialer",
    "turncredit.phone.apps.expenses",
    "turncredit.phone.apps.files",
    "turncredit.phone.apps.gallery",
    "turncredit.phone.apps.mail",
    "turncredit.phone.apps.maps",
    "turncredit.phone.apps.messages",
    "turncredit.phone.apps.music",
    "turncredit.phone.apps.notes",
    "turncredit.phone.apps.recipes",
    "turncredit.phone.apps.settings",
    "turncredit.phone.apps.tasks",
)
"""Modules with an `APP`, in the order of the home screen."""

_SYSTEM: Final = (
    "turncredit.phone.system.launcher",
    "turncredit.phone.system.pickers",
    "turncredit.phone.system.shade",
)


@lru_cache(maxsize=1)
def all_apps() -> tuple[App, ...]:
    """Return the apps of `APPS`."""
    return _load(APPS)


@lru_cache(maxsize=1)
def _system_apps() -> tuple[App, ...]:
    return _load(_SYSTEM)


def _load(modules: Iterable[str]) -> tuple[App, ...]:
    apps = []
    for name in modules:
        app = getattr(import_module(name), "APP", None)
        if not isinstance(app, App):
            raise BrokenApp(f"{name} must define APP = App(...), got {app!r}")
        apps.append(app)
    return tuple(apps)


def installed(apps: Iterable[App] | None = None) -> Mapping[str, App]:
    """Return apps by package, with the system's own.

    Args:
        apps: default: all of the registry.

    Raises:
        BrokenApp: two have the same package or name.
    """
    return _registered() if apps is None else _together(apps)


@lru_cache(maxsize=1)
def _registered() -> Mapping[str, App]:
    """Return those of a phone that leaves none out; all such phones share it."""
    return _together(all_apps())


def _together(apps: Iterable[App]) -> Mapping[str, App]:
    result: dict[str, App] = {}
    for app in (*_system_apps(), *apps):
        if app.package in result:
            raise BrokenApp(f"two apps have the package {app.package}: {result[app.package].name} and {app.name}")
        same = next((other for other in result.values() if other.name.casefold() == app.name.casefold()), None)
        if same:
            raise BrokenApp(f"two apps have the name {app.name}: {same.package} and {app.package}")
        result[app.package] = app
    return result
