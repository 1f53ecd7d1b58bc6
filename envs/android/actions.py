"""Actions of an agent on an Android device: AndroidWorld's JSON, and a short grammar of one line.

    tap 5                 tap 540 1200          double tap 5         long press 5
    type 3 hello          replaces the text of element 3; `type hello` adds to the field with the focus
    scroll down           scroll 4 down         swipe left           swipe 4 left
    scroll 540 1200 down  scrolls what is at this point, as far as it is high
    swipe 540 1800 540 600                      (a finger from one point to another)
    open Clock            back                  home                 enter           wait
    answer 17:30          done                  infeasible           done 17:30 (answers, and ends)

AndroidWorld's JSON has three more fields here: x2 and y2, where a swipe from x and y ends, and press_enter, which says
whether Enter follows the text of input_text (there it always does).

`parse` knows the text alone, and raises `BadAction` with one sentence that says what was expected; `write` is its
inverse. `performing` does an action on a device.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from turncredit.envs.android.values import JsonObject

__all__ = ["ACTION_TYPES", "DIRECTIONS", "Action", "BadAction", "NotAnAction", "parse", "to_json", "write"]

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

_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class BadAction(ValueError):
    """The text is not an action, or one that this screen does not allow."""


class NotAnAction(BadAction):
    """The text is no action at all; what is one depends on the screen and on how the agent sees it (`examples`)."""


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
    x2: int | None = None  # where a swipe from x and y ends
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
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAction(f"the action starts like JSON and cannot be read as JSON: {error}") from None
    if not isinstance(table, dict):
        raise BadAction(f"a JSON action is an object, got {type(table).__name__}")
    names = Action.__dataclass_fields__.keys()
    unknown = sorted(table.keys() - names)
    if unknown:
        raise BadAction(f"a JSON action has no field {unknown[0]!r}; fields: {', '.join(sorted(names))}")
    values = {name: value for name, value in table.items() if value is not None}
    kind = values.get("action_type")
    if kind not in ACTION_TYPES:
        raise BadAction(f"action_type must be one of {', '.join(ACTION_TYPES)}; got {kind!r}")
    _check_types(values)
    action = Action(**{"press_enter": kind == "input_text", **values})
    _check_fields(action)
    return action


def _check_types(values: JsonObject) -> None:
    for name in ("index", "x", "y", "x2", "y2"):
        if name in values:
            values[name] = _whole(name, values[name])
    for name in ("text", "app_name", "keycode"):
        if name in values:
            value = values[name]
            if isinstance(value, bool | list | dict):
                raise BadAction(f"{name} must be a text, got {value!r}")
            values[name] = str(value)
    for name in ("clear_text", "press_enter"):
        if not isinstance(values.get(name, False), bool):
            raise BadAction(f"{name} must be true or false, got {values[name]!r}")
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
    end = (action.x2 is not None, action.y2 is not None)
    if any(end) and not (all(end) and all(point) and kind == "swipe" and action.direction is None):
        raise BadAction("x2 and y2 come together: they are where a swipe from x and y ends, which has no direction")
    if kind in ("click", "double_tap", "long_press") and action.index is None and not all(point):
        raise BadAction(f"{kind} needs an index, or x and y")
    for needs, name in (("input_text", "text"), ("answer", "text"), ("open_app", "app_name")):
        if kind == needs and getattr(action, name) is None:
            raise BadAction(f"{kind} needs the field {name!r}")
    if kind in ("scroll", "swipe") and action.direction is None and not any(end):
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
_MOVE: Final = re.compile(r"(scroll|swipe)\s+(?:(-?\d{1,9})(?:[\s,]+(-?\d{1,9}))?\s+)?(up|down|left|right)")
_DRAW: Final = re.compile(r"swipe\s+" + r"[\s,]+".join([r"(-?\d{1,9})"] * 4))
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
        kind, first, second, direction = move.groups()
        if second is not None:
            return Action(kind, x=int(first), y=int(second), direction=direction)
        return Action(kind, index=int(first) if first else None, direction=direction)
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
    if word == "done" and argument.strip():
        return Action("status", goal_status="complete", text=argument.strip())
    raise NotAnAction(f"{text[:80]!r} is not an action")


# Writing


def write(action: Action) -> str:
    """Return one printable line that `parse` reads as the action: words where they say all of it, else JSON.

    >>> write(Action("click", x=540, y=1200))
    'tap 540 1200'
    >>> write(Action("input_text", text="3 apples"))
    '{"action_type": "input_text", "text": "3 apples", "press_enter": false}'
    """
    words = _in_words(action)
    try:
        if words.isprintable() and parse(words) == action:
            return words
    except BadAction:
        pass
    return to_json(action)


def to_json(action: Action) -> str:
    """Return an action as one printable line of JSON that `parse` reads."""
    values = {entry.name: getattr(action, entry.name) for entry in fields(action)}
    default = {"press_enter": action.action_type == "input_text", "clear_text": False}
    table = {name: value for name, value in values.items() if value is not None and value != default.get(name)}
    line = json.dumps(table, ensure_ascii=False)
    return line if line.isprintable() else json.dumps(table)


def _in_words(action: Action) -> str:
    """Return words that may say an action, "" if none can."""
    kind = action.action_type
    plain = next((word for word, meant in _PLAIN.items() if meant == action), "")
    target = [str(number) for number in (action.index, action.x, action.y, action.x2, action.y2) if number is not None]
    text = action.text or ""
    words = {
        "input_text": ["type", *target, text],
        "open_app": ["open", action.app_name or ""],
        "answer": ["answer", text],
        "status": ["done", text],
    }.get(kind, [])
    if kind in _WORDS:
        words = [_WORDS[kind], *target, *([action.direction] if action.direction else [])]
    return plain or " ".join(words)


_WORDS: Final = {kind: word for word, kind in _TOUCHES.items() if word != "click"} | {
    "scroll": "scroll",
    "swipe": "swipe",
}
