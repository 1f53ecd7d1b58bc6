"""Layout of widgets that hold no others: each function returns the box of one at a place, with a width.

The height follows from the content. `PARTS` maps the type of a widget to its function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any, Final

from turncredit.phone.screen.box import Paint, Pen, TextRow, UiBox, clip, dp
from turncredit.phone.screen.fonts import fit, text_width, wrap
from turncredit.phone.toolkit.tables import Value
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Bubble,
    Button,
    Checkbox,
    Chip,
    Choice,
    DateField,
    Divider,
    Empty,
    Icon,
    IconButton,
    Item,
    Picture,
    Radio,
    Section,
    Slider,
    Spacer,
    Spot,
    Switch,
    Text,
    TextField,
    Tile,
    TimeField,
)
from turncredit.tools.android.node import Node

__all__ = ["PARTS", "Toggle", "field_text", "fixed_height", "format_date", "natural_width"]

_ROW: Final = "android.widget.LinearLayout"
_EDGE: Final = dp(16)


def touch(box: UiBox, widget: object, tap: bool = True, hold: bool = False) -> UiBox:
    """Make a box react to touches."""
    box.widget = widget
    box.clickable = box.focusable = tap
    box.long_clickable = hold
    return box


def _text(pen: Pen, w: Text, x: int, y: int, width: int) -> UiBox:
    box = pen.text(w.text, x, y, width, w.style, w.id, w.colour, align=w.align, lines=w.lines)
    if w.selectable:
        touch(box, w, tap=False, hold=True)
        if pen.page.focus == f"text:{w.text}":
            font = pen.style(w.style)
            select = (("selection", w.text, font.size, font.line, font.bold, pen.page.selection, 0, 0, False),)
            box.paint = (*select, *box.paint)
            box.selected = True
    return box


def _icon(pen: Pen, w: Icon, x: int, y: int, width: int) -> UiBox:
    box = _symbol(pen, x, y, dp(w.size), w.icon, w.colour or "muted")
    box.description = w.description
    return box


def _symbol(pen: Pen, x: int, y: int, size: int, icon: str, colour: str = "muted") -> UiBox:
    box = _image(pen, x, y, size)
    box.paint = (("icon", icon, colour, size),)
    return box


def _avatar(pen: Pen, w: Avatar, x: int, y: int, width: int) -> UiBox:
    return _portrait(pen, x, y, dp(w.size), w.name, w.icon)


def _portrait(pen: Pen, x: int, y: int, size: int, name: str, icon: str = "") -> UiBox:
    box = _image(pen, x, y, size)
    box.paint = (("avatar", name, icon),)
    return box


def _image(pen: Pen, x: int, y: int, size: int) -> UiBox:
    kind = "android.widget.ImageView"
    return UiBox(kind, x, y, x + size, y + size, "", "", "", pen.package)


def _button(pen: Pen, w: Button, x: int, y: int, width: int) -> UiBox:
    wide = width if w.wide else min(width, natural_width(pen, w) or width)
    height = max(dp(44), pen.tall(dp(44)))
    box = touch(pen.box("android.widget.Button", x, y, wide, height), w)
    box.text, box.enabled, box.description = w.text, w.enabled, w.description
    box.clickable = w.enabled
    font = pen.style("label")
    box.paint = (("button", w.text, w.kind, w.icon, font.size, w.enabled),)
    return box


def _icon_button(pen: Pen, w: IconButton, x: int, y: int, width: int) -> UiBox:
    box = touch(pen.box("android.widget.ImageButton", x, y, dp(48), dp(48)), w, w.enabled, w.on_long_press is not None)
    box.description, box.enabled = w.description, w.enabled
    colour = w.colour or ("muted" if w.enabled else "faint")
    disc: tuple[Paint, ...] = (("disc", "container", dp(4)),) if w.filled else ()
    box.paint = (*disc, ("icon", w.icon, "on_container" if w.filled else colour, dp(24)))
    return box


def _lead(pen: Pen, icon: str, avatar: str, row: UiBox) -> tuple[list[Node], int]:
    """Return the icon or avatar at the start of a row, if any, and where its text starts."""
    middle = (row.top + row.bottom) // 2
    if avatar:
        portrait = _portrait(pen, row.left + _EDGE, middle - dp(20), dp(40), avatar)
        return [portrait], row.left + _EDGE + dp(40) + dp(16)
    if icon:
        symbol = _symbol(pen, row.left + _EDGE, middle - dp(12), dp(24), icon)
        return [symbol], row.left + _EDGE + dp(24) + dp(20)
    return [], row.left + _EDGE


def _titles(
    pen: Pen, row: UiBox, left: int, right: int, title: str, subtitle: str, bold: bool = False, struck: bool = False
) -> list[Node]:
    """Return title and subtitle of a row, centred vertically."""
    style = "subtitle" if bold else "body"
    first, second = pen.style(style).line, pen.style("caption").line if subtitle else 0
    y = (row.top + row.bottom - first - second) // 2
    colour = "muted" if struck else "" if row.enabled else "faint"
    texts: list[Node] = [pen.text(title, left, y, right - left, style, "title", colour, struck=struck)]
    if subtitle:
        texts.append(pen.text(subtitle, left, y + first, right - left, "caption", "summary"))
    return texts


def fixed_height(pen: Pen, widget: object) -> int | None:
    """Return the height of a widget whose content does not matter for it, in pixels, or None."""
    height = _HEIGHTS.get(type(widget))
    return None if height is None else height(pen, widget)


def _row_height(pen: Pen, w: Item | Switch | Checkbox | Radio) -> int:
    return pen.tall(dp(72) if w.subtitle else dp(56))


def _section_height(pen: Pen, w: Section) -> int:
    return pen.tall(dp(44))


def _divider_height(pen: Pen, w: Divider) -> int:
    return dp(9)


def _spacer_height(pen: Pen, w: Spacer) -> int:
    return dp(w.height)


_HEIGHTS: Final[dict[type, Callable[..., int]]] = {
    **dict.fromkeys((Item, Switch, Checkbox, Radio), _row_height),
    Section: _section_height,
    Divider: _divider_height,
    Spacer: _spacer_height,
}


def _row(pen: Pen, w: Item | Switch | Checkbox | Radio, x: int, y: int, width: int, name: str = "") -> UiBox:
    return pen.box(_ROW, x, y, width, _row_height(pen, w), name)


def _item(pen: Pen, w: Item, x: int, y: int, width: int) -> UiBox:
    tap, hold, end = w.on_tap is not None, w.on_long_press is not None, _end_button(pen, w, x, y, width)
    if (tap or hold) and (end is None or end.clickable):
        row: UiBox = _text_row(pen, w, x, y, width, end)
        row.resource_id = pen.resource(w.id)
    else:
        row = _row(pen, w, x, y, width, w.id)
        row.children = _in_item(pen, w, end, row)
    if tap or hold or w.on_swipe is not None:
        touch(row, w, tap, hold)
    row.selected = w.selected
    if w.selected:
        row.paint = (("round", "container", dp(12), dp(4)),)
    return row


def _end_button(pen: Pen, w: Item, x: int, y: int, width: int) -> UiBox | None:
    if w.end is None:
        return None
    return _icon_button(pen, w.end, x + width - dp(4) - dp(48), y + _row_height(pen, w) // 2 - dp(24), 0)


def _text_row(pen: Pen, w: Item, x: int, y: int, width: int, end: UiBox | None) -> TextRow:
    texts = (w.title, w.subtitle, w.trailing)
    "".join(texts)  # raises TypeError for anything but texts, now and not when the boxes are made
    bounds = (x, y, x + width, y + _row_height(pen, w))
    buttons: list[Node] = [] if end is None else [end]
    return TextRow(bounds, pen.package, [text for text in texts if text], buttons, partial(_in_item, pen, w, end))


def _in_item(pen: Pen, w: Item, end: UiBox | None, row: UiBox) -> list[Node]:
    """Return the boxes in the row of an item."""
    lead, left = _lead(pen, w.icon, w.avatar, row)
    right = row.right - _EDGE if end is None else end.left
    tail: list[Node] = []
    if w.trailing:
        wide = min(pen.natural(w.trailing, "caption"), (row.right - row.left) // 3)
        right -= wide
        y = (row.top + row.bottom) // 2 - pen.style("caption").line // 2
        tail.append(pen.text(w.trailing, right, y, wide, "caption", "trailing", align="right"))
        right -= dp(12)
    tail += [] if end is None else [end]
    return [*lead, *_titles(pen, row, left, right, w.title, w.subtitle, bold=w.bold), *tail]


def _value(pen: Pen, key: str, shown: Value) -> Any:
    return pen.values.get(key, shown) if key else shown


def _switch(pen: Pen, w: Switch, x: int, y: int, width: int) -> UiBox:
    row = touch(_row(pen, w, x, y, width), w, w.enabled)
    row.enabled = w.enabled
    right = x + width - _EDGE - dp(52)
    boxes, left = _lead(pen, w.icon, "", row)
    middle = (row.top + row.bottom) // 2
    box = pen.box("android.widget.Switch", right, middle - dp(16), dp(52), dp(32), "switch_widget")
    _check(box, w.title, bool(_value(pen, w.key, w.checked)), w.enabled)
    box.paint = (("switch", box.checked, w.enabled),)
    row.children = [*boxes, *_titles(pen, row, left, right - dp(12), w.title, w.subtitle), box]
    return row


def _check(box: UiBox, title: str, checked: bool, enabled: bool = True) -> None:
    box.description, box.checkable, box.checked, box.enabled = title, True, checked, enabled


def _checkbox(pen: Pen, w: Checkbox, x: int, y: int, width: int) -> UiBox:
    row = touch(_row(pen, w, x, y, width), w, w.enabled, w.on_long_press is not None)
    row.enabled = w.enabled
    middle = (row.top + row.bottom) // 2
    box = pen.box("android.widget.CheckBox", x + dp(4), middle - dp(24), dp(48), dp(48), "checkbox")
    if w.on_tap is not None:
        touch(box, Toggle(w))
    _check(box, w.title, bool(_value(pen, w.key, w.checked)), w.enabled)
    box.paint = (("checkbox", box.checked, w.enabled),)
    left, right = x + dp(4) + dp(48) + dp(12), x + width - _EDGE
    row.children = [box, *_titles(pen, row, left, right, w.title, w.subtitle, struck=w.struck)]
    return row


class Toggle:
    """The box of a checkbox whose text has an action of its own."""

    __slots__ = ("checkbox",)

    def __init__(self, checkbox: Checkbox) -> None:
        """Stand for the box of this checkbox."""
        self.checkbox = checkbox


def _radio(pen: Pen, w: Radio, x: int, y: int, width: int) -> UiBox:
    row = touch(_row(pen, w, x, y, width), w)
    middle = (row.top + row.bottom) // 2
    box = pen.box("android.widget.RadioButton", x + dp(4), middle - dp(24), dp(48), dp(48), "radio")
    _check(box, w.title, w.checked)
    box.paint = (("radio", w.checked),)
    titles = _titles(pen, row, x + dp(4) + dp(48) + dp(12), x + width - _EDGE, w.title, w.subtitle)
    row.children = [box, *titles]
    return row


def _slider(pen: Pen, w: Slider, x: int, y: int, width: int) -> UiBox:
    value = int(_value(pen, w.key, w.value))
    row = pen.box(_ROW, x, y, width, pen.tall(dp(24)) + dp(56) if w.title else dp(56))
    boxes, top = [], y + dp(8)
    if w.title:
        boxes.append(pen.text(w.title, x + _EDGE, top, width - 2 * _EDGE, "body", "title"))
        top += pen.tall(dp(24))
    left = x + _EDGE
    if w.icon:
        boxes.append(_symbol(pen, left, top + dp(12), dp(24), w.icon))
        left += dp(36)
    bar = touch(pen.box("android.widget.SeekBar", left, top, x + width - _EDGE - left, dp(48), w.key or "seekbar"), w)
    bar.text, bar.description = str(value), w.title or w.icon
    bar.paint = (("slider", (value - w.minimum) / max(1, w.maximum - w.minimum)),)
    row.children = [*boxes, bar]
    return row


def field_text(page_values: Mapping[str, Value], w: TextField) -> str:
    """Return the text in a field."""
    return str(page_values.get(w.key, w.value))


def _text_field(pen: Pen, w: TextField, x: int, y: int, width: int) -> UiBox:
    font, focused = pen.style("body"), pen.page.focus == w.key
    value = field_text(pen.values, w)
    shown = "\u2022" * len(value) if w.password else value
    inset = dp(16) + (dp(32) if w.icon else 0)
    room = width - 2 * _EDGE - inset - dp(16)
    lines = wrap(shown, font.size, room) if w.multiline else (shown,)
    rows = max(len(lines), 4) if w.multiline else 1
    height = dp(32) + rows * font.line
    row = pen.box("android.widget.FrameLayout", x, y, width, height + dp(12) + (pen.tall(dp(20)) if w.error else 0))
    box = touch(
        pen.box("android.widget.EditText", x + _EDGE, y + dp(6), width - 2 * _EDGE, height, w.key), w, hold=True
    )
    box.text, box.description, box.password, box.focused = shown, w.label, w.password, focused
    offset = _first_shown(shown, pen, font.size, room) if focused and not w.multiline else 0
    drawn = shown if focused or w.multiline else fit(shown, font.size, room)
    view = (lines if w.multiline else (drawn,), drawn, offset, font.size, font.line, inset, room)
    cursor = pen.page.selection if focused else None
    box.paint = (("field", w.label, w.hint, w.icon, bool(w.error), focused, cursor, view, w.multiline),)
    row.children = boxes = [box]
    if w.error:
        top = box.bottom + dp(2)
        boxes.append(pen.text(w.error, box.left + dp(16), top, room, "caption", "textinput_error", "error"))
    return row


def _first_shown(text: str, pen: Pen, size: int, room: int) -> int:
    """Return the first character of a long line that is shown, so that its end can be seen."""
    start = 0
    while start < len(text) and text_width(text[start:], size) > room:
        start += 1
    return start


def _picker(pen: Pen, w: Choice | DateField | TimeField, x: int, y: int, width: int) -> UiBox:
    value = str(_value(pen, w.key, w.value) or "")
    kind, icon = ("android.widget.Spinner", "expand") if isinstance(w, Choice) else ("android.widget.Button", "")
    if not icon:
        icon = "calendar" if isinstance(w, DateField) else "clock"
    font = pen.style("body")
    height = dp(32) + font.line
    row = pen.box("android.widget.FrameLayout", x, y, width, height + dp(12))
    box = touch(pen.box(kind, x + _EDGE, y + dp(6), width - 2 * _EDGE, height, w.key), w)
    box.text, box.description = format_date(value) if isinstance(w, DateField) else value, w.label
    box.paint = (("picker", w.label, box.text, icon, font.size),)
    row.children = [box]
    return row


def format_date(value: str) -> str:
    """Return 'Tue, 17 Oct 2023' for '2023-10-17'; anything else stays as it is."""
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return value
    return f"{_DAYS[day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _chip(pen: Pen, w: Chip, x: int, y: int, width: int) -> UiBox:
    box = pen.box("android.widget.Button", x, y, min(width, natural_width(pen, w) or 0), dp(40))
    if w.on_tap:
        touch(box, w)
    box.text, box.selected = w.text, w.selected
    box.paint = (("chip", w.text, w.selected, pen.style("label").size),)
    return box


def _section(pen: Pen, w: Section, x: int, y: int, width: int) -> UiBox:
    row = pen.box("android.widget.FrameLayout", x, y, width, _section_height(pen, w))
    top = row.bottom - pen.style("label").line - dp(6)
    row.children = [pen.text(w.text, x + _EDGE, top, width - 2 * _EDGE, "label", "title", "primary")]
    return row


def _divider(pen: Pen, w: Divider, x: int, y: int, width: int) -> UiBox:
    box = pen.box("android.view.View", x, y, width, _divider_height(pen, w))
    box.paint = (("line",),)
    return box


def _spacer(pen: Pen, w: Spacer, x: int, y: int, width: int) -> UiBox:
    return pen.box("android.view.View", x, y, width, _spacer_height(pen, w))


def _empty(pen: Pen, w: Empty, x: int, y: int, width: int) -> UiBox:
    box = pen.box("android.widget.FrameLayout", x, y, width, dp(260))
    icon = _symbol(pen, x + (width - dp(64)) // 2, y + dp(96), dp(64), w.icon, "faint")
    top = y + dp(180)
    text = pen.text(w.text, x + dp(24), top, width - dp(48), "body", "empty", "muted", align="center", lines=2)
    box.children = [icon, text]
    return box


def _bubble(pen: Pen, w: Bubble, x: int, y: int, width: int) -> UiBox:
    font, edge = pen.style("body"), dp(14)
    lines = wrap(w.text, font.size, int(width * 0.76) - 2 * edge)
    wide = max(pen.natural(line, "body") for line in lines) + 2 * edge
    height = len(lines) * font.line + dp(16)
    row = pen.box(_ROW, x, y, width, height + dp(8) + (pen.style("small").line if w.detail else 0))
    left = x + width - _EDGE - wide if w.mine else x + _EDGE
    box = pen.box("android.widget.TextView", left, y + dp(4), wide, height, "message_text")
    if w.on_long_press:
        touch(box, w, tap=False, hold=True)
    box.text = w.text
    box.paint = (("bubble", lines, font.size, font.line, w.mine),)
    row.children = boxes = [box]
    if w.detail:
        align, room = "right" if w.mine else "left", width - 2 * _EDGE
        boxes.append(pen.text(w.detail, x + _EDGE, box.bottom, room, "small", "message_detail", align=align))
    return row


_TILES: Final = {"app": 104, "home": 104, "toggle": 76, "day": 44, "key": 68}


def _tile(pen: Pen, w: Tile, x: int, y: int, width: int) -> UiBox:
    box = pen.box("android.widget.TextView", x, y, width, dp(_TILES[w.kind]))
    if w.on_tap or w.on_long_press:
        touch(box, w, w.on_tap is not None, w.on_long_press is not None)
    box.text, box.description, box.selected = w.text, w.description, w.selected
    if w.kind == "toggle":
        box.class_name, box.checkable, box.checked = "android.widget.Switch", True, w.selected
    size = pen.style("caption").size
    box.paint = (("tile", w.kind, w.text, w.icon, w.colour, w.selected, w.marked, size, w.dots),)
    return box


def _picture(pen: Pen, w: Picture, x: int, y: int, width: int) -> UiBox:
    box = pen.box("android.widget.ImageView", x, y, width, round(width * w.height / w.width))
    if w.on_tap or w.on_long_press:
        touch(box, w, w.on_tap is not None, w.on_long_press is not None)
    if w.on_drag:
        box.widget, box.scrollable = w, True
    box.description = w.description
    box.paint = (("picture", w),)
    unit = width / w.width
    left, top = x - w.origin[0] * unit, y - w.origin[1] * unit
    spots = [_spot(pen, spot, left, top, unit) for spot in w.spots]
    box.children = [spot for spot in spots if not w.cut or _inside(spot, box)]
    return box


def _inside(spot: UiBox, box: UiBox) -> bool:
    """Cut a part of a picture to what is seen of it; return False if its middle is not."""
    if not box.contains(*spot.center):
        return False
    spot.left, spot.right = max(box.left, spot.left), min(box.right, spot.right)
    return clip(spot, box.top, box.bottom)


def _spot(pen: Pen, spot: Spot, x: float, y: float, unit: float) -> UiBox:
    left, top = round(x + spot.left * unit), round(y + spot.top * unit)
    wide, high = round((spot.right - spot.left) * unit), round((spot.bottom - spot.top) * unit)
    box = pen.box("android.view.View", left, top, max(1, wide), max(1, high))
    box.description, box.selected = spot.description, spot.selected
    return touch(box, spot) if spot.on_tap else box


PARTS: Final[dict[type, Callable[[Pen, Any, int, int, int], UiBox]]] = {
    Text: _text,
    Icon: _icon,
    Avatar: _avatar,
    Button: _button,
    IconButton: _icon_button,
    Item: _item,
    Switch: _switch,
    Checkbox: _checkbox,
    Radio: _radio,
    Slider: _slider,
    TextField: _text_field,
    Choice: _picker,
    DateField: _picker,
    TimeField: _picker,
    Chip: _chip,
    Section: _section,
    Divider: _divider,
    Spacer: _spacer,
    Empty: _empty,
    Bubble: _bubble,
    Tile: _tile,
    Picture: _picture,
}


def natural_width(pen: Pen, widget: object) -> int | None:
    """Return the width that a widget in a row keeps, in pixels, or None if it takes what is left."""
    if isinstance(widget, Button):
        text = 0 if not widget.text else pen.natural(widget.text, "label") + (dp(8) if widget.icon else 0)
        return None if widget.wide else text + (dp(24) if widget.icon else 0) + dp(40)
    if isinstance(widget, IconButton):
        return dp(48)
    if isinstance(widget, (Icon, Avatar)):
        return dp(widget.size)
    if isinstance(widget, Chip):
        return pen.natural(widget.text, "label") + dp(32)
    return None
