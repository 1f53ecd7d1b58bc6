"""Intents: what `am start` and `am broadcast` ask of the phone, and which app answers.

An app names the actions that it answers in `App.intents` ("ACTION" or "ACTION scheme") and `App.receivers`. The
screen or receiver gets those extras whose last word is the name of one of its parameters, and from the data what it
has a parameter for: `data` (all of it), `number`, `address` or `to` (what follows tel:, sms:, mailto:), `id` (the
number at the end of a content uri).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from turnwise.envs.android.phone.app import App
from turnwise.envs.android.phone.handlers import do
from turnwise.envs.android.phone.phone import Phone, UnknownApp

__all__ = ["Intent", "NoActivity", "broadcast", "start_activity"]

_MAIN: Final = "android.intent.action.MAIN"
_HOME: Final = "android.intent.category.HOME"


class NoActivity(LookupError):
    """No app answers the intent; the message is the one of `am`."""


@dataclass(frozen=True)
class Intent:
    """What is asked for, with the fields of Android's class of that name."""

    action: str = ""
    data: str = ""
    type: str = ""
    component: str = ""
    package: str = ""
    category: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the intent as `am` prints it."""
        shown = {"act": self.action, "cat": f"[{self.category}]" if self.category else "", "dat": self.data}
        shown |= {"typ": self.type, "pkg": self.package, "cmp": self.component}
        parts = [f"{name}={value}" for name, value in shown.items() if value]
        return f"Intent {{ {' '.join([*parts, '(has extras)'] if self.extras else parts)} }}"


def start_activity(phone: Phone, intent: Intent) -> str:
    """Bring the app that answers to the front, and return its component.

    Raises:
        NoActivity: none does.
    """
    phone.log("ActivityTaskManager", f"START u0 {intent}")
    if intent.category == _HOME:
        phone.home()
        return phone.activity
    app, screen = _find(phone, intent)
    if screen:
        phone.launch(app.package, screen, **_arguments(app.screen(screen), intent))
    else:
        phone.launch(app.package)
    phone.log("ActivityTaskManager", f"Displayed {app.component}")
    return app.component


def broadcast(phone: Phone, intent: Intent) -> list[str]:
    """Give the intent to all receivers for its action, and return the packages of those."""
    phone.log("BroadcastQueue", f"{intent}")
    reached = []
    for app in phone.apps.values():
        receiver = app.receivers.get(intent.action)
        if receiver is not None and intent.package in ("", app.package):
            phone.run(do(receiver, **_arguments(receiver, intent)), app.package)
            reached.append(app.package)
    phone.change()
    return reached


def _find(phone: Phone, intent: Intent) -> tuple[App, str]:
    """Return the app that answers and its screen, "" for the one where it was left."""
    if intent.component:
        app = _by_component(phone, intent.component)
        return app, _screen(app, intent)
    if intent.package and (not intent.action or intent.action == _MAIN):
        try:
            return phone.find_app(intent.package), ""
        except UnknownApp:
            raise NoActivity(f"Error: Activity not started, unable to resolve {intent}") from None
    named = [app for app in phone.apps.values() if intent.package in ("", app.package)]
    for exact in (True, False):
        for app in named:
            screen = _screen(app, intent, exact)
            if screen:
                return app, screen
    raise NoActivity(f"Error: Activity not started, unable to resolve {intent}")


def _by_component(phone: Phone, component: str) -> App:
    package, _, activity = component.partition("/")
    app = phone.apps.get(package)
    known = {app.activity, f"{package}{app.activity}"} if app else set()
    if app is None or activity not in known:
        raise NoActivity(f"Error type 3\nError: Activity class {{{component}}} does not exist.")
    return app


def _screen(app: App, intent: Intent, exact: bool = False) -> str:
    """Return the screen of an app for an action; `exact`: declared for the scheme or the type of the data too."""
    scheme = intent.data.partition(":")[0] if ":" in intent.data else ""
    for kind in (scheme, intent.type):
        found = app.intents.get(f"{intent.action} {kind}") if kind else None
        if found:
            return found
    return "" if exact and (scheme or intent.type) else app.intents.get(intent.action, "")


def _arguments(function: Callable[..., Any], intent: Intent) -> dict[str, Any]:
    """Return the arguments of a screen or receiver that the intent has values for, of the types of their defaults."""
    values: dict[str, Any] = {"data": intent.data, "url": intent.data}
    rest = unquote(intent.data.partition(":")[2]).partition("?")[0].removeprefix("//")
    values |= dict.fromkeys(("number", "address", "to", "phone"), rest) if rest else {}
    last = re.search(r"/(\d+)$", intent.data)
    values |= {"id": int(last[1])} if last else {}
    values |= {name.rsplit(".", 1)[-1].casefold(): value for name, value in intent.extras.items()}
    found = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        value = values.get(name.casefold().replace("_", ""), values.get(name, ""))
        if value != "":
            found[name] = _as_type_of(parameter.default, value)
    return found


def _as_type_of(default: Any, value: Any) -> Any:
    if isinstance(default, str):
        return str(value)
    if isinstance(default, int) and not isinstance(value, int | float):
        return int(value) if re.fullmatch(r"[+-]?\d{1,15}", str(value)) else default
    return value
