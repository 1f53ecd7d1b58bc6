"""The action format of Qwen2.5-VL and Qwen3-VL: one call of the function mobile_use or computer_use.

The call stands between ``<tool_call>`` and ``</tool_call>``, or is all of the answer. Qwen2.5-VL was trained to write
points in pixels of the picture that its processor makes, Qwen3-VL on a scale from 0 to 999 or 1000. A drag begins at
``coordinate`` and ends at ``coordinate2`` here, since an action does not depend on where the mouse was left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from turncredit.agents.prompts.screen_formats.translation import (
    NoAction,
    Point,
    browser_parser,
    key_name,
    phone_parser,
)
from turncredit.envs.android.actions import Action
from turncredit.registry import suggest
from turncredit.tools.browser.actions import BrowserAction
from turncredit.tools.functions import Call, call_format

__all__ = ["BROWSER", "PHONE"]

_MOBILE: Final = "mobile_use"
_COMPUTER: Final = "computer_use"
_HERMES: Final = call_format("hermes")

Arguments = Mapping[str, object]


def _arguments(answer: str, function: str) -> Arguments:
    """Return the arguments of the only call of an answer.

    Raises:
        NoAction: there is none, more than one, or one of another function.
    """
    bare = answer.rpartition("</think>")[2].strip()
    parsed = _HERMES.parse(f"<tool_call>{bare}</tool_call>" if bare.startswith("{") else answer, [])
    if not parsed.calls:
        raise NoAction(parsed.error)
    if len(parsed.calls) > 1:
        raise NoAction(f"there was more than one call of {function}")
    call = parsed.calls[0]
    if call.name != function:
        raise NoAction(f"the function is {function}, got {call.name[:40]!r}")
    return call.arguments


def _point(arguments: Arguments, name: str = "coordinate") -> Point:
    value = arguments.get(name)
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 2 or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise NoAction(f"{name} must be a list of two numbers, got {str(value)[:60]}")
    x, y = numbers
    if not (math.isfinite(x) and math.isfinite(y) and abs(x) < 1e6 and abs(y) < 1e6):
        raise NoAction(f"{name} is not on the screen: {str(value)[:60]}")
    return round(x), round(y)


def _text(arguments: Arguments, name: str = "text") -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise NoAction(f"{name} must be a text, got {str(value)[:60]!r}")
    return value


def _chosen(value: str, choices: Mapping[str, Action], subject: str) -> Action:
    action = choices.get(value.strip().lower())
    if action is None:
        raise NoAction(f"there is no {subject} {value[:40]!r}{suggest(value[:40], list(choices))}")
    return action


def _written(function: str, **arguments: object) -> str:
    return _HERMES.write([Call(function, arguments)], [])


# Phones

_BUTTONS: Final = {
    "back": Action("navigate_back"),
    "home": Action("navigate_home"),
    "enter": Action("keyboard_enter"),
}
_STATUSES: Final = {
    "success": Action("status", goal_status="complete"),
    "failure": Action("status", goal_status="infeasible"),
}


def _touch(kind: str) -> Callable[[Arguments], Action]:
    def read(arguments: Arguments) -> Action:
        x, y = _point(arguments)
        return Action(kind, x=x, y=y)

    return read


def _swipe(arguments: Arguments) -> Action:
    (x, y), (x2, y2) = _point(arguments), _point(arguments, "coordinate2")
    return Action("swipe", x=x, y=y, x2=x2, y2=y2)


_PHONE: Final[dict[str, Callable[[Arguments], Action]]] = {
    "click": _touch("click"),
    "long_press": _touch("long_press"),
    "swipe": _swipe,
    "type": lambda arguments: Action("input_text", text=_text(arguments)),
    "system_button": lambda arguments: _chosen(_text(arguments, "button"), _BUTTONS, "button"),
    "key": lambda arguments: _chosen(_text(arguments), _BUTTONS, "key"),
    "open": lambda arguments: Action("open_app", app_name=_text(arguments).strip()),
    "wait": lambda arguments: Action("wait"),
    "answer": lambda arguments: Action("answer", text=_text(arguments).strip()),
    "terminate": lambda arguments: _chosen(_text(arguments, "status"), _STATUSES, "status"),
}


def _read_phone(answer: str) -> Action:
    arguments = _arguments(answer, _MOBILE)
    kind = str(arguments.get("action", ""))
    if kind not in _PHONE:
        raise NoAction(f"{_MOBILE} has no action {kind[:40]!r}{suggest(kind[:40], list(_PHONE))}")
    return _PHONE[kind](arguments)


def _write_phone(action: Action) -> str:
    kind = action.action_type
    for button, meant in _BUTTONS.items():
        if action == meant:
            return _written(_MOBILE, action="system_button", button=button.title())
    for status, meant in _STATUSES.items():
        if action == meant:
            return _written(_MOBILE, action="terminate", status=status)
    if kind in ("click", "long_press") and action.x is not None:
        return _written(_MOBILE, action=kind, coordinate=[action.x, action.y])
    if action.x2 is not None:
        points = {"coordinate": [action.x, action.y], "coordinate2": [action.x2, action.y2]}
        return _written(_MOBILE, action="swipe", **points)
    if action == Action("input_text", text=action.text) and action.text:
        return _written(_MOBILE, action="type", text=action.text)
    if kind == "open_app":
        return _written(_MOBILE, action="open", text=action.app_name)
    if kind == "answer":
        return _written(_MOBILE, action="answer", text=action.text)
    if kind == "wait":
        return _written(_MOBILE, action="wait", time=1)
    raise NoAction(f"{_MOBILE} has no such action; make the environment with points")


PHONE: Final = phone_parser(
    _read_phone, _write_phone, '<tool_call>{"name": "mobile_use", "arguments": {"action": ...}}</tool_call>'
)
"""The parser for phones."""


# Browsers

_CLICKS: Final = {"left_click": "click", "double_click": "double_click", "mouse_move": "move"}


def _read_browser(answer: str) -> BrowserAction:
    arguments = _arguments(answer, _COMPUTER)
    kind = str(arguments.get("action", ""))
    if kind in _CLICKS:
        return BrowserAction(_CLICKS[kind], points=(_point(arguments),))
    if kind == "left_click_drag":
        if "coordinate2" not in arguments:
            raise NoAction("left_click_drag needs coordinate, where it begins, and coordinate2, where it ends")
        return BrowserAction("drag", points=(_point(arguments), _point(arguments, "coordinate2")))
    if kind == "type":
        return BrowserAction("write", "", _text(arguments))
    if kind == "key":
        return BrowserAction("press", "", "+".join(_keys(arguments)))
    if kind == "scroll":
        return _scroll(arguments)
    if kind == "wait":
        return BrowserAction("wait")
    if kind in ("terminate", "answer"):
        raise NoAction("the episode ends by itself; go on with the task")
    names = [*_CLICKS, "left_click_drag", "type", "key", "scroll", "wait"]
    raise NoAction(f"{_COMPUTER} has no action {kind[:40]!r}{suggest(kind[:40], names)}")


def _keys(arguments: Arguments) -> list[str]:
    keys = arguments.get("keys")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise NoAction(f"keys must be a list of names, got {str(keys)[:60]}")
    return [key_name(key) for key in keys]


def _scroll(arguments: Arguments) -> BrowserAction:
    pixels = arguments.get("pixels")
    if not isinstance(pixels, int | float) or isinstance(pixels, bool) or not pixels:
        raise NoAction(f"pixels must be a number above 0 (up) or below (down), got {str(pixels)[:60]}")
    places = (_point(arguments),) if arguments.get("coordinate") is not None else ()
    return BrowserAction("scroll", "", "up" if pixels > 0 else "down", places)


def _write_browser(action: BrowserAction) -> str:
    places = [[x, y] for x, y in action.points]
    for name, kind in _CLICKS.items():
        if action.kind == kind and places:
            return _written(_COMPUTER, action=name, coordinate=places[0])
    if action.kind == "drag":
        return _written(_COMPUTER, action="left_click_drag", coordinate=places[0], coordinate2=places[1])
    if action.kind == "write":
        return _written(_COMPUTER, action="type", text=action.text)
    if action.kind == "press" and "+" not in (action.text, action.text[-1:]):
        return _written(_COMPUTER, action="key", keys=[key.lower() if len(key) > 1 else key for key in _parts(action)])
    if action.kind == "scroll" and not action.ref:
        start = {"coordinate": places[0]} if places else {}
        return _written(_COMPUTER, action="scroll", **start, pixels=-500 if action.text == "down" else 500)
    if action.kind == "wait":
        return _written(_COMPUTER, action="wait", time=1)
    raise NoAction(f"{_COMPUTER} has no such action; make the environment with points")


def _parts(action: BrowserAction) -> list[str]:
    return action.text.split("+")


BROWSER: Final = browser_parser(
    _read_browser, _write_browser, '<tool_call>{"name": "computer_use", "arguments": {"action": ...}}</tool_call>'
)
"""The parser for browsers."""
