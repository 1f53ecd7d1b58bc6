"""Actions of an agent on an Android device: AndroidWorld's JSON, and a short grammar of one line.

    tap 5                 tap 540 1200          double tap 5         long press 5
    type 3 hello          replaces the text of element 3; `type hello` adds to the field with the focus
    scroll down           scroll 4 down         swipe left           swipe 4 left
    swipe 540 1800 540 600                      (a finger from one point to another; JSON has no such action)
    open Clock            back                  home                 enter           wait
    answer 17:30          done                  infeasible

`parse` knows the text alone; `perform` also knows the screen. Both raise `BadAction` with one sentence that says what
was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from turnwise.envs.android.elements import ScreenElement
from turnwise.envs.android.values import JsonObject
from turnwise.tools.android.device import Device, DeviceError, DeviceLost

__all__ = ["ACTION_TYPES", "Action", "BadAction", "parse", "perform"]

ACTION_TYPES: Final = (
    "answer",
    "click",
    "double_tap",
    "input_text",
    "keyboard_enter",
    "long_press",
    "navigate_back",
    "navigate_home",
    "open_app",
    "scroll",
    "status",
    "swipe",
    "unknown",
    "wait",
)
DIRECTIONS: Final = ("up", "down", "left", "right")
STATUSES: Final = ("complete", "infeasible")
_FORMS: Final = (
    "tap 5, tap 540 1200, type 3 hello, scroll down, long press 5, double tap 5, swipe left, open Clock, back, home, "
    "enter, wait, answer 17:30, done, infeasible"
)


_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class BadAction(ValueError):
    """The text is not an action, or one that this screen does not allow."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action in the terms of AndroidWorld's JSON."""

    action_type: str
    index: int | None = None
    x: int | None = None
    y: int | None = None
    text: str | None = None
    direction: str | None = None
    goal_status: str | None = None
    app_name: str | None = None
    keycode: str | None = None
    clear_text: bool = False
    press_enter: bool = False  # after typing, as AndroidWorld does
    x2: int | None = None  # where a swipe from x and y ends; only in the short grammar
    y2: int | None = None

    @property
    def ends(self) -> bool:
        """Whether the agent says that the task is over."""
        return self.action_type == "status"


@lru_cache(maxsize=1024)
def parse(text: str) -> Action:
    """Return the action that a text stands for: JSON if it starts with '{', else the short grammar.

    Raises:
        BadAction: it stands for none.
    """
    text = text.lstrip() if text.strip() else ""
    action = _from_json(text) if text.startswith("{") else _from_words(text)
    for typed in (action.text, action.app_name):
        if typed is not None and _LONE_SURROGATE.search(typed):
            raise BadAction(f"half a surrogate pair is no character and cannot be typed: {typed[:80]!r}")
    return action


# JSON


def _from_json(text: str) -> Action:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAction(f"the action starts like JSON and cannot be read as JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadAction(f"a JSON action is an object, got {type(fields).__name__}")
    names = Action.__dataclass_fields__.keys() - {"press_enter", "x2", "y2"}
    unknown = sorted(fields.keys() - names)
    if unknown:
        raise BadAction(f"a JSON action has no field {unknown[0]!r}; fields: {', '.join(sorted(names))}")
    values = {name: value for name, value in fields.items() if value is not None}
    kind = values.get("action_type")
    if kind not in ACTION_TYPES:
        raise BadAction(f"action_type must be one of {', '.join(ACTION_TYPES)}; got {kind!r}")
    _check_types(values)
    if values.get("clear_text") is None:
        values.pop("clear_text", None)
    action = Action(**values, press_enter=kind == "input_text")
    _check_fields(action)
    return action


def _check_types(values: JsonObject) -> None:
    for name in ("index", "x", "y"):
        if name in values:
            values[name] = _whole(name, values[name])
    for name in ("text", "app_name", "keycode"):
        if name in values:
            value = values[name]
            if isinstance(value, bool | list | dict):
                raise BadAction(f"{name} must be a text, got {value!r}")
            values[name] = str(value)
    if not isinstance(values.get("clear_text", False), bool):
        raise BadAction(f"clear_text must be true or false, got {values['clear_text']!r}")
    for name, choices in (("direction", DIRECTIONS), ("goal_status", STATUSES)):
        if name in values and values[name] not in choices:
            raise BadAction(f"{name} must be one of {', '.join(choices)}; got {values[name]!r}")
    if "keycode" in values and not values["keycode"].startswith("KEYCODE_"):
        raise BadAction(f"keycode must start with KEYCODE_, got {values['keycode']!r}")


def _whole(name: str, value: Any) -> int:
    """Return a number as int; agents also write 5.0 and "5"."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadAction(f"{name} must be a whole number, got {value!r}") from None


def _check_fields(action: Action) -> None:
    """Raise BadAction unless the action has the fields that its type needs."""
    kind, point = action.action_type, (action.x is not None, action.y is not None)
    if action.index is not None and any(point):
        raise BadAction("an action has either an index or x and y, not both")
    if any(point) and not all(point):
        raise BadAction("x and y come together")
    if kind in ("click", "double_tap", "long_press") and action.index is None and not all(point):
        raise BadAction(f"{kind} needs an index, or x and y")
    for needs, name in (("input_text", "text"), ("answer", "text"), ("open_app", "app_name")):
        if kind == needs and getattr(action, name) is None:
            raise BadAction(f"{kind} needs the field {name!r}")
    if kind in ("scroll", "swipe") and action.direction is None:
        raise BadAction(f"{kind} needs a direction: {', '.join(DIRECTIONS)}")
    if kind == "status" and action.goal_status is None:
        raise BadAction(f"status needs a goal_status: {', '.join(STATUSES)}")
    if kind == "unknown":
        raise BadAction("the action_type 'unknown' does nothing")


# Words

_PLAIN: Final = {
    "back": Action("navigate_back"),
    "home": Action("navigate_home"),
    "enter": Action("keyboard_enter"),
    "wait": Action("wait"),
    "done": Action("status", goal_status="complete"),
    "infeasible": Action("status", goal_status="infeasible"),
}
_TOUCH: Final = re.compile(r"(tap|click|double tap|long press)\s+(-?\d{1,9})(?:[\s,]+(-?\d{1,9}))?")
_MOVE: Final = re.compile(r"(scroll|swipe)\s+(?:(\d{1,9})\s+)?(up|down|left|right)")
_DRAW: Final = re.compile(r"swipe\s+(\d{1,9})[\s,]+(\d{1,9})[\s,]+(\d{1,9})[\s,]+(\d{1,9})")
_TYPE: Final = re.compile(r"type (?:(\d{1,9}) )?(.*)", re.DOTALL)
_TOUCHES: Final = {"tap": "click", "click": "click", "double tap": "double_tap", "long press": "long_press"}


def _from_words(text: str) -> Action:
    word, _, argument = text.partition(" ")
    lower = text.strip().lower()
    if lower in _PLAIN:
        return _PLAIN[lower]
    if touch := _TOUCH.fullmatch(lower):
        kind, first, second = touch.groups()
        if second is None:
            return Action(_TOUCHES[kind], index=int(first))
        return Action(_TOUCHES[kind], x=int(first), y=int(second))
    if move := _MOVE.fullmatch(lower):
        kind, index, direction = move.groups()
        return Action(kind, index=int(index) if index else None, direction=direction)
    if drawn := _DRAW.fullmatch(lower):
        x, y, x2, y2 = map(int, drawn.groups())
        return Action("swipe", x=x, y=y, x2=x2, y2=y2)
    word = word.lower()
    if word == "type" and argument and (typed := _TYPE.fullmatch(f"type {argument}")):
        number = typed[1]
        return Action("input_text", index=int(number) if number else None, text=typed[2], clear_text=bool(number))
    if word == "open" and argument.strip():
        return Action("open_app", app_name=argument.strip())
    if word == "answer" and argument.strip():
        return Action("answer", text=argument.strip())
    raise BadAction(f"{text[:80]!r} is not an action; actions look like: {_FORMS}, or are JSON objects")


# Doing it


def perform(action: Action, device: Device, elements: Sequence[ScreenElement], apps: Mapping[str, str]) -> None:
    """Do on a device what an action says; `answer` and `status` do nothing there.

    Args:
        action: from `parse`.
        device: where.
        elements: the screen as the agent saw it.
        apps: what can be opened: name -> package or activity.

    Raises:
        BadAction: the screen has no such element or point, or the phone no such app. Nothing was done.
        DeviceLost: the device is gone.
    """
    element = _element(action, elements)
    for x, y in ((action.x, action.y), (action.x2, action.y2)):
        if x is None or y is None:
            continue
        width, height = device.size()
        if not (0 <= x < width and 0 <= y < height):
            raise BadAction(f"({x}, {y}) is not on the screen of {width} x {height} pixels")
    _DO[action.action_type](action, device, element, apps)


def _element(action: Action, elements: Sequence[ScreenElement]) -> ScreenElement | None:
    if action.index is None:
        return None
    if not 0 <= action.index < len(elements):
        choices = f"the elements are 0 to {len(elements) - 1}" if elements else "the screen shows no elements"
        raise BadAction(f"there is no element {action.index}: {choices}")
    return elements[action.index]


def _point(action: Action, element: ScreenElement | None) -> tuple[int, int]:
    if element is not None:
        return element.center
    if action.x is None or action.y is None:
        raise BadAction(f"{action.action_type} needs an index, or x and y")
    return action.x, action.y


def _touch(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> None:
    touch = {"click": device.tap, "double_tap": device.double_tap, "long_press": device.long_press}
    touch[action.action_type](*_point(action, element))


def _input(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> None:
    if element is not None and not element.node.editable:
        raise BadAction(f"element {element.index} is not a text field")
    if element is not None or action.x is not None:
        device.tap(*_point(action, element))
    if action.clear_text and (element is None or element.value):
        device.key(_CTRL, _A)
        device.key(_DELETE)
    if action.text:
        device.type_text(action.text)
    if action.press_enter:
        device.key(_ENTER)


_CTRL, _A, _DELETE, _ENTER, _HOME, _BACK = 113, 29, 67, 66, 3, 4


def _move(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> None:
    """Scroll: the finger goes the other way, from the middle to the edge. Swipe: the finger goes the way it says."""
    if action.x2 is not None and action.y2 is not None:
        device.swipe(_point(action, None), (action.x2, action.y2))
        return
    width, height = device.size()
    # AndroidWorld takes index 0 for none; here an index is an index.
    left, top, right, bottom = element.node.bounds if element else (0, 0, width, height)
    left, top, right, bottom = max(0, left), max(0, top), min(width, right), min(height, bottom)
    middle = ((left + right) // 2, (top + bottom) // 2)
    edges = {
        "up": (middle[0], top),
        "down": (middle[0], bottom - 1),
        "left": (left, middle[1]),
        "right": (right - 1, middle[1]),
    }
    other = {"up": "down", "down": "up", "left": "right", "right": "left"}
    direction = str(action.direction)
    if action.action_type == "scroll":
        device.swipe(middle, edges[other[direction]])
    else:
        device.swipe(edges[other[direction]] if element else middle, edges[direction])


def _open(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> None:
    name = str(action.app_name)
    component = next((apps[app] for app in apps if app.casefold() == name.casefold()), None)
    if component is None and "." not in name:
        raise BadAction(f"there is no app {name[:80]!r}; apps: {', '.join(sorted(apps))}")
    try:
        device.launch(component or name)
    except DeviceLost:
        raise
    except DeviceError as error:
        raise BadAction(f"{name[:80]!r} cannot be opened: {error}") from None


def _nothing(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> None:
    pass


_DO: Final[dict[str, Callable[[Action, Device, ScreenElement | None, Mapping[str, str]], None]]] = {
    "answer": _nothing,
    "click": _touch,
    "double_tap": _touch,
    "input_text": _input,
    "keyboard_enter": lambda action, device, element, apps: device.key(_ENTER),
    "long_press": _touch,
    "navigate_back": lambda action, device, element, apps: device.key(_BACK),
    "navigate_home": lambda action, device, element, apps: device.key(_HOME),
    "open_app": _open,
    "scroll": _move,
    "status": _nothing,
    "swipe": _move,
    "wait": lambda action, device, element, apps: device.wait(1),
}
