"""Inputs of a person to the phone in the browser, as they come over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.errors import EnvError
from turncredit.phone.phone import Phone
from turncredit.phone.screen.keys import KEY_CODES

__all__ = ["KEYS", "BadInput", "Input", "do", "placed", "read_input"]

KEYS: Final[dict[str, tuple[int, ...]]] = {
    "Backspace": (KEY_CODES["DEL"],),
    "Delete": (KEY_CODES["FORWARD_DEL"],),
    "Enter": (KEY_CODES["ENTER"],),
    "ArrowLeft": (KEY_CODES["DPAD_LEFT"],),
    "ArrowRight": (KEY_CODES["DPAD_RIGHT"],),
    "SelectAll": (KEY_CODES["CTRL_LEFT"], KEY_CODES["A"]),
    "Back": (KEY_CODES["BACK"],),
    "Home": (KEY_CODES["HOME"],),
    "Overview": (KEY_CODES["APP_SWITCH"],),
}
"""Keys of the page by name, and what the phone is told."""

_POINTS: Final = {"tap": 1, "long_press": 1, "swipe": 2, "scroll": 2, "text": 0, "key": 0}
_LONGEST: Final = 5000
_STILL: Final = 24  # pixels below which a swipe would be a tap


class BadInput(EnvError):
    """The phone has no such input."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input. A scroll is a swipe of the wheel: nothing under its start is dragged."""

    kind: str
    x: int = 0
    y: int = 0
    x2: int = 0
    y2: int = 0
    text: str = ""  # what is typed, or the name of a key
    milliseconds: int = 300

    @property
    def edits(self) -> bool:
        """Whether it may change the text of a field."""
        return self.kind == "text" or (self.kind == "key" and self.text not in ("Back", "Home", "Overview"))

    @property
    def vertical(self) -> int:
        """How far the finger goes down, in pixels."""
        return self.y2 - self.y


def read_input(fields: object) -> Input:
    """Return an input from its JSON object.

    Raises:
        BadInput: it is none.
    """
    if not isinstance(fields, Mapping):
        raise BadInput(f"an input is a JSON object, got {type(fields).__name__}")
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _POINTS:
        raise BadInput(f"kind must be one of {', '.join(_POINTS)}; got {str(kind)[:40]!r}")
    names = ("x", "y", "x2", "y2")[: 2 * _POINTS[kind]]
    numbers: dict[str, Any] = {name: _whole(fields, name) for name in names}
    if kind in ("swipe", "scroll") and "milliseconds" in fields:
        numbers["milliseconds"] = _whole(fields, "milliseconds")
    text = fields.get("text", "")
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise BadInput(f"text must be a text of at most {_LONGEST:,} characters")
    if kind == "key" and text not in KEYS:
        raise BadInput(f"a key is one of {', '.join(KEYS)}; got {text[:40]!r}")
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half an emoji is no text
    return Input(kind, text=text, **numbers)


def _whole(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e6:
        raise BadInput(f"{name} must be a number of pixels or milliseconds, got {str(value)[:40]!r}")
    return round(value)


def placed(user_input: Input, phone: Phone, elements: list[ScreenElement]) -> Input:
    """Return an input with its points on the screen; a scroll starts beside sliders."""
    width, height = phone.size

    def on(x: int, y: int) -> tuple[int, int]:
        return min(max(x, 0), width - 1), min(max(y, 0), height - 1)

    (x, y), (x2, y2) = on(user_input.x, user_input.y), on(user_input.x2, user_input.y2)
    if user_input.kind == "scroll":
        by = user_input.y2 - user_input.y
        y = min(max(y, height // 4), 3 * height // 4)
        if any(element.kind == "slider" and element.node.contains(x, y) for element in elements):
            x = 8
        x2, y2 = on(x, y + by)
    return Input(user_input.kind, x, y, x2, y2, user_input.text, user_input.milliseconds)


def do(phone: Phone, user_input: Input) -> None:
    """Do an input on a phone."""
    if user_input.kind == "tap":
        phone.tap(user_input.x, user_input.y)
    elif user_input.kind == "long_press":
        phone.long_press(user_input.x, user_input.y)
    elif user_input.kind == "swipe":
        phone.swipe(user_input.x, user_input.y, user_input.x2, user_input.y2, user_input.milliseconds)
    elif user_input.kind == "scroll" and abs(user_input.vertical) >= _STILL:
        phone.swipe(user_input.x, user_input.y, user_input.x2, user_input.y2)
    elif user_input.kind == "text":
        phone.text(user_input.text)
    elif user_input.kind == "key":
        phone.key(*KEYS[user_input.text])
