"""Typing: what keys, the soft keyboard and the clipboard do to the field with the focus."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from turncredit.phone.screen.box import UiBox
from turncredit.phone.screen.fonts import text_width
from turncredit.phone.screen.keyboard import KEYBOARD_MODE
from turncredit.phone.screen.parts import field_text
from turncredit.phone.screen.screen_phone import ScreenPhone
from turncredit.phone.toolkit.forms import keep_value, text_fields
from turncredit.phone.toolkit.widgets import Text, TextField

__all__ = [
    "delete",
    "edit",
    "editor_action",
    "enter",
    "index_at",
    "insert",
    "move",
    "press_soft_key",
    "reveal",
    "select_word",
]


_MARGIN: Final = 40  # pixels around a field that is scrolled into view
_NEXT, _PREVIOUS = 5, 7  # of EditorInfo.IME_ACTION_*
_ALLOWED: Final = {"number": frozenset("0123456789.,-"), "phone": frozenset("0123456789+-*#() ,;")}


def focused(phone: ScreenPhone) -> TextField | None:
    """Return the field with the focus, or None."""
    page = phone.page
    if not page.focus:
        return None
    return next((field for field in text_fields(phone.frame.window) if field.key == page.focus), None)


def insert(phone: ScreenPhone, text: str) -> None:
    """Put a text in place of the selection. A field keeps out what its keyboard does not have."""
    field = focused(phone)
    if field is None or not phone.state.screen_on:
        return
    phone.state.snackbar = None
    allowed = _ALLOWED.get(field.keyboard)
    if allowed:
        text = "".join(character for character in text if character in allowed)
    if not field.multiline:
        text = text.replace("\r", "").replace("\n", " ")
    _splice(phone, field, text, *_selection(phone, field))


def _selection(phone: ScreenPhone, field: TextField) -> tuple[int, int]:
    page = phone.page
    length = len(field_text(page.values, field))
    start, end = sorted(page.selection)
    return min(start, length), min(end, length)


def _splice(phone: ScreenPhone, field: TextField, text: str, start: int, end: int) -> None:
    """Replace a range of the field's text, put the cursor behind, and tell the app."""
    page, frame = phone.page, phone.frame
    old = field_text(page.values, field)
    new = old[:start] + text + old[end:]
    at = start + len(text)
    keep_value(phone, field.key, new)
    phone.change_page(replace(phone.page, selection=(at, at), toolbar=False))
    if new != old and field.on_change:
        phone.run(field.on_change, page.package, new, frame)


def delete(phone: ScreenPhone, forward: bool = False) -> None:
    """Remove the selection, or the character before (or after) the cursor."""
    field = focused(phone)
    if field is None:
        return
    start, end = _selection(phone, field)
    if start == end:
        start, end = (start, end + 1) if forward else (start - 1, end)
    if start >= 0:
        _splice(phone, field, "", start, end)


def enter(phone: ScreenPhone) -> None:
    """Break the line, or submit the field, or go to the next one, or close the keyboard."""
    field = focused(phone)
    if field is None:
        return
    if field.multiline:
        insert(phone, "\n")
    elif field.on_submit:
        phone.change_page(replace(phone.page, keyboard=False))
        phone.run(field.on_submit, phone.page.package, field_text(phone.page.values, field), phone.frame)
    else:
        next_field(phone, field)


def next_field(phone: ScreenPhone, field: TextField | None = None) -> None:
    """Move the focus to the text field below; from the last one, close the keyboard."""
    fields = text_fields(phone.frame.window)
    keys = [other.key for other in fields]
    after = keys.index(field.key) + 1 if field else 0
    if after >= len(fields):
        phone.change_page(replace(phone.page, keyboard=False))
        return
    _focus(phone, fields[after])


def editor_action(phone: ScreenPhone, code: int) -> None:
    """Do what the key of a keyboard at the lower right does, by Android's number: go, search, send, next, done, ..."""
    field = focused(phone)
    if field is None:
        return
    if code == _NEXT:
        next_field(phone, field)
    elif code == _PREVIOUS:
        previous_field(phone, field)
    elif field.on_submit:
        enter(phone)
    else:
        phone.change_page(replace(phone.page, keyboard=False))


def previous_field(phone: ScreenPhone, field: TextField) -> None:
    """Move the focus to the text field above; from the first one, nowhere."""
    keys = [other.key for other in text_fields(phone.frame.window)]
    before = keys.index(field.key) - 1
    if before >= 0:
        _focus(phone, text_fields(phone.frame.window)[before])


def _focus(phone: ScreenPhone, field: TextField) -> None:
    end = len(field_text(phone.page.values, field))
    page = replace(phone.page, focus=field.key, selection=(end, end), keyboard=True, toolbar=False)
    phone.change_page(page)
    reveal(phone)


def reveal(phone: ScreenPhone) -> None:
    """Scroll the field with the focus out from under the keyboard."""
    frame = phone.frame
    if frame.focus is None or frame.viewport is None:
        return
    top, bottom = frame.focus
    room = frame.viewport.bottom - frame.viewport.top
    at = min(max(frame.scroll, bottom + _MARGIN - room), max(0, top - _MARGIN))
    if at != frame.scroll:
        phone.change_page(replace(phone.page, scroll=frame.kept_scroll(min(at, frame.scroll_limit))))


def move(phone: ScreenPhone, by: int, select: bool = False) -> None:
    """Move the cursor by characters; `select` moves the end of the selection alone."""
    field = focused(phone)
    if field is None:
        return
    start, end = phone.page.selection
    at = min(len(field_text(phone.page.values, field)), max(0, end + by))
    phone.change_page(replace(phone.page, selection=(start if select else at, at), toolbar=False))


def edit(phone: ScreenPhone, command: str) -> None:
    """Cut, copy, paste or select all ('cut', 'copy', 'paste', 'select_all')."""
    page, field = phone.page, focused(phone)
    text = field_text(page.values, field) if field else page.focus.removeprefix("text:")
    if not page.focus or (field is None and not page.focus.startswith("text:")):
        return
    start, end = sorted(page.selection)
    if command == "select_all":
        phone.change_page(replace(page, selection=(0, len(text)), toolbar=bool(text)))
    elif command == "paste":
        insert(phone, phone.state.clipboard)
    elif start < end and not (field and field.password):
        phone.state.clipboard = text[start:end]
        if command == "cut" and field:
            _splice(phone, field, "", start, end)
    if command == "copy":
        focus = page.focus if field else ""
        phone.change_page(replace(page, toolbar=False, focus=focus, selection=(end, end)))


def press_soft_key(phone: ScreenPhone, name: str) -> None:
    """Press a key of the soft keyboard."""
    page = phone.page
    mode = str(page.values.get(KEYBOARD_MODE, ""))
    if name in ("SHIFT", "SYMBOLS"):
        phone.change_page(page.with_value(KEYBOARD_MODE, "" if mode == name.lower() else name.lower()))
    elif name == "DELETE":
        delete(phone)
    elif name == "ENTER":
        enter(phone)
    else:
        insert(phone, " " if name == "SPACE" else name)
        if mode == "shift" and phone.page.values.get(KEYBOARD_MODE) == "shift":
            phone.change_page(phone.page.with_value(KEYBOARD_MODE, ""))


def index_at(box: UiBox, x: int, y: int) -> int:
    """Return the place between two characters of a text that is nearest to a pixel."""
    paint = next(paint for paint in box.paint if paint[0] in ("field", "text"))
    if paint[0] == "field":
        lines, shown, offset, size, line, inset, _ = paint[7]
        left, top = box.left + inset, box.full[1] + 60
    else:
        (_, lines, size, line, *_), offset, left, top = paint, 0, box.left, box.full[1]
        shown = box.text
    row = min(len(lines) - 1, max(0, (y - top) // line))
    before = sum(len(other) + 1 for other in lines[:row]) if len(lines) > 1 else offset
    text = lines[row] if len(lines) > 1 else shown[offset:]
    at = next((n for n in range(len(text)) if text_width(text[: n + 1], size) > x - left + size // 4), len(text))
    return min(len(shown), before + at)


def select_word(phone: ScreenPhone, box: UiBox, x: int, y: int) -> None:
    """Select the word at a pixel and offer cut, copy and paste."""
    widget: TextField | Text = box.widget
    page = phone.page
    text = widget.text if isinstance(widget, Text) else field_text(page.values, widget)
    at = min(index_at(box, x, y), len(text))
    start, end = at, at
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    key = f"text:{widget.text}" if isinstance(widget, Text) else widget.key
    keyboard = isinstance(widget, TextField)
    phone.change_page(replace(page, focus=key, selection=(start, end), keyboard=keyboard, toolbar=True))
