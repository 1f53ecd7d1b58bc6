"""The soft keyboard: its layouts, and the boxes of its keys. What a key does is in `typing`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turncredit.phone.screen.box import Pen, UiBox, dp
from turncredit.phone.screen.parts import touch
from turncredit.phone.toolkit.forms import text_fields
from turncredit.phone.toolkit.widgets import Window

__all__ = ["KEYBOARD_MODE", "Key", "keyboard_box", "keyboard_height"]

KEYBOARD_MODE: Final = "keyboard mode"
"""Where a page keeps which layout its keyboard shows: "", "shift" or "symbols"."""

_PACKAGE: Final = "com.android.inputmethod"
_LETTERS: Final = ("q w e r t y u i o p", "a s d f g h j k l", "SHIFT z x c v b n m DELETE", "SYMBOLS , SPACE . ENTER")
_SYMBOLS: Final = ("1 2 3 4 5 6 7 8 9 0", "@ # $ % & - + ( )", "* \" ' : ; ! ? / DELETE", "SYMBOLS _ SPACE . ENTER")
_NUMBERS: Final = ("1 2 3 -", "4 5 6 .", "7 8 9 DELETE", "* 0 + ENTER")
_WIDE: Final = {"SPACE": 4.4, "SHIFT": 1.5, "DELETE": 1.5, "SYMBOLS": 1.5, "ENTER": 1.6}
_LABELS: Final = {"SPACE": "space", "SHIFT": "Shift", "DELETE": "Delete", "SYMBOLS": "Symbols", "ENTER": "Enter"}


@dataclass(frozen=True, slots=True)
class Key:
    """A key: a character, or SHIFT, DELETE, SYMBOLS, SPACE, ENTER."""

    name: str


def keyboard_height(size: tuple[int, int]) -> int:
    """Return the height of the keyboard in pixels on a screen of this size."""
    return dp(272) if size[1] > size[0] else dp(190)


def keyboard_box(pen: Pen, window: Window, width: int, top: int, height: int) -> UiBox:
    """Return the keyboard for the field with the focus. It is shared: nobody may change it."""
    kind = next((field.keyboard for field in text_fields(window) if field.key == pen.page.focus), "text")
    return _board(kind in ("number", "phone"), str(pen.values.get(KEYBOARD_MODE, "")), width, top, height)


@lru_cache(maxsize=64)
def _board(numbers: bool, mode: str, width: int, top: int, height: int) -> UiBox:
    rows = _NUMBERS if numbers else _SYMBOLS if mode == "symbols" else _LETTERS
    board = UiBox("android.widget.FrameLayout", 0, top, width, top + height, package=_PACKAGE)
    board.paint = (("keyboard",),)
    board.children = boxes = []
    edge, gap = dp(4), dp(6)
    each = (height - 2 * edge) // len(rows)
    for i, line in enumerate(rows):
        names = line.split(" ")
        total = sum(_WIDE.get(name, 1.0) for name in names) if rows is not _NUMBERS else len(names)
        unit = (width - 2 * edge) / max(total, 10 if rows is not _NUMBERS else 4)
        x = (width - unit * total) / 2
        for name in names:
            wide = unit * (_WIDE.get(name, 1.0) if rows is not _NUMBERS else 1)
            char = name.upper() if mode == "shift" and len(name) == 1 else name
            y = top + edge + i * each
            box = UiBox("android.widget.TextView", round(x) + 3, y, round(x + wide) - 3, y + each - gap)
            box.package = _PACKAGE
            box.text, box.description = (char, "") if len(name) == 1 else ("", _LABELS[name])
            box.paint = (("key", char, mode == "shift"),)
            boxes.append(touch(box, Key(char)))
            x += wide
    return board
