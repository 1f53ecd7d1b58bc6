"""Intents: what `am start` and `am broadcast` ask of the phone, and which app answers.

An app names in `App.intents` what it answers: "ACTION", or "ACTION KIND" where the kind is a scheme ("tel"), a type
("text/plain") or the authority of content ("content://com.android.calendar"), with a screen's name or an action. It
names actions for `am broadcast` in `App.receivers`. Screens and actions get what they have a parameter for: extras by
their last word, parameters of the data's query, `data` and `url` (the whole data), `number`, `address`, `to` or
`phone` (what follows tel:, sms:, mailto:), and `id` (the number at the end of a content uri).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from turncredit.phone.phone import HOME, Phone, UnknownApp
from turncredit.phone.toolkit.app import Action, App
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.tables import Value

__all__ = ["Intent", "NoActivity", "answering", "broadcast", "start_activity"]

_MAIN: Final = "android.intent.action.MAIN"
_HOME_CATEGORY: Final = "android.intent.category.HOME"
_TO_SOMEBODY: Final = frozenset(("tel", "sms", "smsto", "mms", "mmsto", "mailto"))


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
    extras: Mapping[str, Value] = field(default_factory=dict)

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
    if intent.category == _HOME_CATEGORY:
        phone.home()
        return phone.activity
    app, answer = _find(phone, intent)
    if isinstance(answer, str) and answer:
        phone.launch(app.package, answer, **_arguments(app.screen(answer), intent))
    else:
        phone.launch(app.package)
    if callable(answer):
        phone.run(do(answer, **_arguments(answer, intent)), app.package, frame=phone.frame)
    phone.log("ActivityTaskManager", f"Displayed {app.component}")
    return app.component


def answering(phone: Phone, intent: Intent) -> list[App]:
    """Return the apps with an activity for an intent, the one that would be started first."""
    if intent.category == _HOME_CATEGORY:
        return [phone.apps[HOME]]
    try:
        first, answer = _find(phone, intent)
    except NoActivity:
        first, answer = None, ""
    named = [app for app in phone.apps.values() if intent.package in ("", app.package)]
    if intent.component or (first is not None and not answer):
        return [first] if first is not None else []
    if intent.action == _MAIN:
        return [app for app in named if not app.hidden]
    every = [app for app in named if _answer(app, intent, exact=False)]
    return [first, *(app for app in every if app is not first)] if first is not None else every


def broadcast(phone: Phone, intent: Intent) -> list[str]:
    """Give the intent to all receivers for its action, and return the packages of those."""
    phone.from_outside()
    phone.log("BroadcastQueue", f"{intent}")
    reached = []
    for app in phone.apps.values():
        receiver = app.receivers.get(intent.action)
        if receiver is not None and intent.package in ("", app.package):
            phone.run(do(receiver, **_arguments(receiver, intent)), app.package)
            reached.append(app.package)
    phone.change()
    return reached


def _find(phone: Phone, intent: Intent) -> tuple[App, str | Action]:
    """Return the app that answers, and its screen or action; "" for the screen where it was left."""
    if intent.component:
        app = _by_component(phone, intent.component)
        return app, _answer(app, intent, exact=False)
    if intent.package and (not intent.action or intent.action == _MAIN):
        try:
            return phone.startable(intent.package), ""
        except UnknownApp:
            raise NoActivity(f"Error: Activity not started, unable to resolve {intent}") from None
    named = [app for app in phone.apps.values() if intent.package in ("", app.package)]
    for exact in (True, False):
        for app in named:
            answer = _answer(app, intent, exact)
            if answer:
                return app, answer
    raise NoActivity(f"Error: Activity not started, unable to resolve {intent}")


def _by_component(phone: Phone, component: str) -> App:
    try:
        if "/" in component:
            return phone.startable(component)
    except UnknownApp:
        pass
    raise NoActivity(f"Error type 3\nError: Activity class {{{component}}} does not exist.")


def _answer(app: App, intent: Intent, exact: bool) -> str | Action:
    """Return what an app has for an intent, "" for nothing; `exact`: declared for its data or type, if it has any."""
    uri = re.match(r"(?P<authority>(?P<scheme>[a-z][a-z0-9+.-]*):(//[^/?#]*)?)", intent.data)
    kinds = [*(uri.group("authority", "scheme") if uri else ()), *([intent.type] if intent.type else ())]
    for kind in kinds:
        answer = app.intents.get(f"{intent.action} {kind}")
        if answer:
            return answer
    return "" if exact and kinds else app.intents.get(intent.action, "")


def _arguments(function: Callable[..., object], intent: Intent) -> dict[str, Value]:
    """Return the arguments of a screen or action that the intent has values for, of the types of their defaults."""
    values = _values(intent)
    arguments = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        value = values.get(name.casefold().replace("_", ""), values.get(name, ""))
        if value != "":
            arguments[name] = _as_type_of(parameter.default, value)
    return arguments


def _values(intent: Intent) -> dict[str, Value]:
    """Return what an intent carries by name: its data itself before its extras, and those before the data's query."""
    scheme, _, target = intent.data.partition(":")
    whom, _, query = target.partition("?")
    query = query.replace("+", "%2B") if scheme == "mailto" else query  # RFC 6068: a plus there is no space
    extras = {name.rsplit(".", 1)[-1].casefold(): value for name, value in intent.extras.items()}
    values: dict[str, Value] = {**dict(parse_qsl(query)), **extras}
    if intent.data:
        values |= {"data": intent.data, "url": intent.data}
    if scheme in _TO_SOMEBODY and whom:
        values |= dict.fromkeys(("number", "address", "to", "phone"), unquote(whom).removeprefix("//"))
    last = re.search(r"^content:.*/(\d{1,15})$", intent.data)
    return values | ({"id": int(last[1])} if last else {})


def _as_type_of(default: object, value: Value) -> Value:
    """Return a value with the type of a default; the default itself where it is a whole number and the value is not."""
    if isinstance(default, str):
        return str(value)
    if isinstance(default, int) and not isinstance(value, int):
        return int(str(value)) if re.fullmatch(r"[+-]?\d{1,15}", str(value)) else default
    return value
