"""The action format of UI-TARS: a thought, then one call such as ``click(start_box='(512,305)')``.

Points are written as ``(x,y)``, ``<point>x y</point>``, with ``<|box_start|>`` around them, or as a box of four
numbers, whose middle counts; the argument is called start_box, start_point or point. ``type(content='words\\n')``
presses Enter after the words. ``finished(content='17:30')`` answers and ends, which is the action `done 17:30` of the
phone; so the answer of an expert, which says `answer 17:30` and then `done`, ends the episode at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.agents.prompts.screen_formats.translation import (
    NoAction,
    Point,
    browser_parser,
    key_name,
    phone_parser,
)
from turncredit.envs.android.actions import DIRECTIONS, Action
from turncredit.registry import suggest
from turncredit.tools.browser.actions import BrowserAction

__all__ = ["BROWSER", "PHONE"]

_EXPECTED: Final = "Thought: your reasoning, and on the next line Action: one call, such as click(start_box='(X,Y)')"
_CALL: Final = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_QUOTED: Final = r"(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
_ARGUMENT: Final = re.compile(rf"\s*(\w+)\s*=\s*({_QUOTED})\s*(?:,|$)", re.DOTALL)
_LOOSE: Final = re.compile(r"\s*(content|app_name|key|hotkey)\s*=\s*(['\"])(.*)\2\s*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\"}
_TAGS: Final = re.compile(r"<\|box_(?:start|end)\|>|</?(?:point|bbox)>|[()\[\],]")
_NUMBER: Final = re.compile(r"-?\d{1,6}(?:\.\d{1,9})?")
_START: Final = ("start_box", "start_point", "point")
_END: Final = ("end_box", "end_point")


@dataclass(frozen=True, slots=True)
class _FunctionCall:
    """A function and its arguments as text."""

    name: str
    arguments: Mapping[str, str]

    def text(self, *names: str) -> str:
        """Return the argument with one of the names, "" if there is none."""
        return next((self.arguments[name] for name in names if name in self.arguments), "")

    def point(self, names: tuple[str, ...]) -> Point:
        """Return the point of the argument with one of the names.

        Raises:
            NoAction: it has none.
        """
        if not any(name in self.arguments for name in names):
            raise NoAction(f"{self.name}() needs the argument {names[0]}")
        text = self.text(*names)
        numbers = _TAGS.sub(" ", text).split()
        if len(numbers) not in (2, 4) or not all(map(_NUMBER.fullmatch, numbers)):
            raise NoAction(f"{names[0]} must be a point, as in '(512,305)', got {text[:60]!r}")
        values = [float(number) for number in numbers]
        return round((values[0] + values[-2]) / 2), round((values[1] + values[-1]) / 2)

    def direction(self) -> str:
        """Return the direction.

        Raises:
            NoAction: there is none.
        """
        way = self.text("direction").strip().lower()
        if way not in DIRECTIONS:
            raise NoAction(f"direction must be one of {', '.join(DIRECTIONS)}, got {way[:40]!r}")
        return way


def _call(answer: str) -> _FunctionCall:
    """Return the only call of an answer.

    Raises:
        NoAction: there is none, or more than one.
    """
    _, label, call = answer.rpartition("Action:")
    if not label:
        raise NoAction("there was no 'Action:'")
    match = _CALL.fullmatch(call.strip())
    if match is None:
        raise NoAction("'Action:' must be followed by one call and nothing else, such as click(start_box='(X,Y)')")
    name, inside = match[1], match[2]
    arguments: dict[str, str] = {}
    at = 0
    while inside[at:].strip():
        argument = _ARGUMENT.match(inside, at)
        if argument is None:
            break
        arguments[argument[1]] = _ESCAPE.sub(_unescaped, argument[2][1:-1])
        at = argument.end()
    if inside[at:].strip():  # models forget to escape quotes inside of a text
        loose = _LOOSE.fullmatch(inside)
        if loose is None or re.search(r"\)\s*\n\s*\w+\(", inside):
            raise NoAction(f"the arguments of {name}() must be written as name='text'")
        arguments = {loose[1]: _ESCAPE.sub(_unescaped, loose[3])}
    return _FunctionCall(name, arguments)


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])


def _unknown(call: _FunctionCall, known: Mapping[str, object]) -> NoAction:
    return NoAction(f"there is no action {call.name[:40]}(){suggest(call.name[:40], list(known))}")


def _written(name: str, **arguments: str) -> str:
    inside = ", ".join(f"{key}='{_quoted(value)}'" for key, value in arguments.items())
    return f"Thought:\nAction: {name}({inside})"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")


# Phones


def _touch(kind: str) -> Callable[[_FunctionCall], Action]:
    def read(call: _FunctionCall) -> Action:
        x, y = call.point(_START)
        return Action(kind, x=x, y=y)

    return read


def _type(call: _FunctionCall) -> Action:
    words = call.text("content")
    if words == "\n":
        return Action("keyboard_enter")
    return Action("input_text", text=words.removesuffix("\n"), press_enter=words.endswith("\n"))


def _scroll(call: _FunctionCall) -> Action:
    x, y = call.point(_START) if call.text(*_START) else (None, None)
    return Action("scroll", x=x, y=y, direction=call.direction())


def _drag(call: _FunctionCall) -> Action:
    (x, y), (x2, y2) = call.point(_START), call.point(_END)
    return Action("swipe", x=x, y=y, x2=x2, y2=y2)


def _open(call: _FunctionCall) -> Action:
    if not call.text("app_name").strip():
        raise NoAction("open_app() needs the argument app_name")
    return Action("open_app", app_name=call.text("app_name").strip())


def _finished(call: _FunctionCall) -> Action:
    return Action("status", goal_status="complete", text=call.text("content").strip() or None)


_PHONE: Final[dict[str, Callable[[_FunctionCall], Action]]] = {
    "click": _touch("click"),
    "left_double": _touch("double_tap"),
    "long_press": _touch("long_press"),
    "type": _type,
    "scroll": _scroll,
    "drag": _drag,
    "open_app": _open,
    "press_home": lambda call: Action("navigate_home"),
    "press_back": lambda call: Action("navigate_back"),
    "wait": lambda call: Action("wait"),
    "finished": _finished,
    "call_user": lambda call: Action("status", goal_status="infeasible"),
}


def _read_phone(answer: str) -> Action:
    call = _call(answer)
    if call.name not in _PHONE:
        raise _unknown(call, _PHONE)
    return _PHONE[call.name](call)


_TOUCHES: Final = {"click": "click", "double_tap": "left_double", "long_press": "long_press"}
_PLAIN: Final = {"navigate_home": "press_home", "navigate_back": "press_back", "wait": "wait"}


def _write_phone(action: Action) -> str:
    kind, text = action.action_type, action.text or ""
    if kind in _PLAIN:
        return _written(_PLAIN[kind])
    if kind == "keyboard_enter":
        return _written("type", content="\n")
    if kind == "input_text" and action.x is None and action.index is None and not action.clear_text:
        if not text.endswith("\n"):
            return _written("type", content=text + "\n" * action.press_enter)
    elif kind == "open_app":
        return _written("open_app", app_name=str(action.app_name))
    elif kind == "answer" or (kind == "status" and action.goal_status == "complete"):
        return _written("finished", content=text)
    elif kind == "status":
        return _written("call_user")
    elif action.x is not None and kind in _TOUCHES:
        return _written(_TOUCHES[kind], start_box=f"({action.x},{action.y})")
    elif action.x2 is not None:
        return _written("drag", start_box=f"({action.x},{action.y})", end_box=f"({action.x2},{action.y2})")
    elif kind == "scroll" and action.index is None and action.direction is not None:
        start = {} if action.x is None else {"start_box": f"({action.x},{action.y})"}
        return _written("scroll", **start, direction=action.direction)
    raise NoAction("UI-TARS has no such action; make the environment with points")


PHONE: Final = phone_parser(_read_phone, _write_phone, _EXPECTED)
"""The parser for phones."""


# Browsers


def _read_browser(answer: str) -> BrowserAction:
    call = _call(answer)
    if call.name in ("click", "left_single", "left_double"):
        kind = "double_click" if call.name == "left_double" else "click"
        return BrowserAction(kind, points=(call.point(_START),))
    if call.name in ("drag", "select"):
        return BrowserAction("drag", points=(call.point(_START), call.point(_END)))
    if call.name == "type":
        words = call.text("content")
        if not words:
            raise NoAction("type() needs the argument content")
        return BrowserAction("press", "", "Enter") if words == "\n" else BrowserAction("write", "", words)
    if call.name == "hotkey":
        keys = [key_name(name) for name in call.text("key", "hotkey").split()]
        if not keys:
            raise NoAction("hotkey() needs the argument key")
        return BrowserAction("press", "", "+".join(keys))
    if call.name == "scroll":
        way = call.direction()
        if way not in ("up", "down"):
            raise NoAction("a page can be scrolled up and down")
        return BrowserAction("scroll", "", way, (call.point(_START),) if call.text(*_START) else ())
    if call.name == "wait":
        return BrowserAction("wait")
    if call.name in ("finished", "call_user"):
        raise NoAction("the episode ends by itself; go on with the task")
    raise _unknown(call, dict.fromkeys(("click", "left_double", "drag", "type", "hotkey", "scroll", "wait")))


_KEY_NAMES: Final = {"Control": "ctrl", "Meta": "cmd", "Escape": "esc"}


def _write_browser(action: BrowserAction) -> str:
    places = [f"({x},{y})" for x, y in action.points]
    if action.kind in ("click", "double_click") and places:
        return _written("click" if action.kind == "click" else "left_double", start_box=places[0])
    if action.kind == "drag":
        return _written("drag", start_box=places[0], end_box=places[1])
    if action.kind == "write" and action.text != "\n":
        return _written("type", content=action.text)
    if action.kind == "press" and "+" not in (action.text, action.text[-1:]):
        names = [_KEY_NAMES.get(key, key if len(key) == 1 else key.lower()) for key in action.text.split("+")]
        return _written("hotkey", key=" ".join(names))
    if action.kind == "scroll" and not action.ref:
        return _written("scroll", **({"start_box": places[0]} if places else {}), direction=action.text)
    if action.kind == "wait":
        return _written("wait")
    raise NoAction("UI-TARS has no such action; make the environment with points")


BROWSER: Final = browser_parser(_read_browser, _write_browser, _EXPECTED)
"""The parser for browsers."""
