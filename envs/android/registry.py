"""The apps that a phone has. A new app is one file in `apps` and one line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Final

from turnwise.envs.android.phone.app import App, BrokenApp

__all__ = ["APPS", "all_apps", "installed"]

APPS: Final[tuple[str, ...]] = (
    "turnwise.envs.android.apps.browser",
    "turnwise.envs.android.apps.calendar",
    "turnwise.envs.android.apps.clock",
    "turnwise.envs.android.apps.contacts",
    "turnwise.envs.android.apps.dialer",
    "turnwise.envs.android.apps.expenses",
    "turnwise.envs.android.apps.files",
    "turnwise.envs.android.apps.gallery",
    "turnwise.envs.android.apps.mail",
    "turnwise.envs.android.apps.maps",
    "turnwise.envs.android.apps.messages",
    "turnwise.envs.android.apps.music",
    "turnwise.envs.android.apps.notes",
    "turnwise.envs.android.apps.recipes",
    "turnwise.envs.android.apps.settings",
    "turnwise.envs.android.apps.tasks",
)
"""Modules with an `APP`, in the order of the home screen."""

_SYSTEM: Final = (
    "turnwise.envs.android.system.launcher",
    "turnwise.envs.android.system.pickers",
    "turnwise.envs.android.system.shade",
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
    result: dict[str, App] = {}
    for app in (*_system_apps(), *(all_apps() if apps is None else apps)):
        if app.package in result:
            raise BrokenApp(f"two apps have the package {app.package}: {result[app.package].name} and {app.name}")
        same = next((other for other in result.values() if other.name.casefold() == app.name.casefold()), None)
        if same:
            raise BrokenApp(f"two apps have the name {app.name}: {same.package} and {app.package}")
        result[app.package] = app
    return result
