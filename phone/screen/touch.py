"""Touches of a finger: a tap, a long press or a swipe at a pixel becomes an action of what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from turncredit.phone.screen import text_input
from turncredit.phone.screen.box import UiBox
from turncredit.phone.screen.keyboard import Key
from turncredit.phone.screen.layout import STATUS, Frame, Keys
from turncredit.phone.screen.parts import Toggle, field_text
from turncredit.phone.screen.screen_phone import ScreenPhone
from turncredit.phone.toolkit.forms import keep_value
from turncredit.phone.toolkit.handlers import Do
from turncredit.phone.toolkit.state import AppPage, Snackbar
from turncredit.phone.toolkit.tables import Value
from turncredit.phone.toolkit.widgets import (
    Checkbox,
    Choice,
    DateField,
    Dialog,
    Item,
    Picture,
    Radio,
    Screen,
    Slider,
    Switch,
    Text,
    TextField,
    TimeField,
)

__all__ = ["long_press", "swipe", "tap"]


_STILL: Final = 24  # pixels that a finger may move in a tap
_HOLD: Final = 400  # milliseconds from which it is a long press


def tap(phone: ScreenPhone, x: int, y: int) -> None:
    """Tap a pixel."""
    if not phone.state.screen_on:
        return
    frame = phone.frame
    path = frame.at(x, y)
    target = next((box for box in path if box.clickable and box.widget is not None), None)
    phone.state.snackbar = None
    if frame.page.toolbar and not (target and isinstance(target.widget, Keys)):
        _drop_toolbar(phone, frame.page)
    if target is not None:
        _act(phone, frame, target, x, y)
    elif not path[-1].contains(x, y):
        _outside(phone, frame)


def _drop_toolbar(phone: ScreenPhone, page: AppPage) -> None:
    focus = "" if page.focus.startswith("text:") else page.focus
    phone.change_page(replace(page, toolbar=False, focus=focus, selection=(page.selection[1],) * 2))


def _outside(phone: ScreenPhone, frame: Frame) -> None:
    """Close what is in front of the screen, after a touch beside it."""
    if not (isinstance(frame.window, Dialog) and frame.window.modal):
        phone.pop()


def _act(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    widget = box.widget
    handler = _HANDLERS.get(type(widget))
    if handler is not None:
        handler(phone, frame, box, x, y)
        return
    if isinstance(frame.window, Dialog) and any(widget is button for button in frame.window.buttons):
        phone.pop()
    phone.run(widget.on_tap, frame.page.package, frame=frame)


def _key(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    text_input.press_soft_key(phone, box.widget.name)


def _navigate(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    name = box.widget.name
    if name in ("cut", "copy", "paste", "select_all"):
        text_input.edit(phone, name)
    elif name == "back":
        hide = box.package == "com.android.systemui" and frame.page.keyboard
        phone.change_page(replace(frame.page, keyboard=False)) if hide else phone.leave()
    else:
        phone.go_home(name)


def _entry(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    phone.pop()
    phone.run(box.widget[1], frame.page.package, frame=frame)


def _undo(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    phone.run(box.widget.on_tap, box.widget.package, frame=frame)


def _focus(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    field: TextField = box.widget
    at = text_input.index_at(box, x, y)
    whole = field.select_all and phone.page.focus != field.key
    selection = (0, len(field_text(phone.page.values, field))) if whole else (at, at)
    phone.change_page(replace(phone.page, focus=field.key, selection=selection, keyboard=True, toolbar=False))
    text_input.reveal(phone)


def _change(phone: ScreenPhone, frame: Frame, key: str, value: Value, action: Do | None) -> None:
    """Store the new value of a widget and tell the app."""
    if key:
        keep_value(phone, key, value)
    phone.run(action, frame.page.package, value, frame)


def _flip(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    widget: Switch | Checkbox = box.widget.checkbox if isinstance(box.widget, Toggle) else box.widget
    if isinstance(widget, Checkbox) and widget.on_tap and not isinstance(box.widget, Toggle):
        phone.run(widget.on_tap, frame.page.package, frame=frame)
        return
    current = frame.page.values.get(widget.key, widget.checked) if widget.key else widget.checked
    _change(phone, frame, widget.key, not current, widget.on_change)


def _choose(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    _change(phone, frame, box.widget.key, box.widget.choice, box.widget.on_change)


def _slide(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    widget: Slider = box.widget
    inner = max(1, box.right - box.left - 2 * _EDGE)
    share = min(1.0, max(0.0, (x - box.left - _EDGE) / inner))
    value = widget.minimum + round(share * (widget.maximum - widget.minimum))
    _change(phone, frame, widget.key, value, widget.on_change)


_EDGE: Final = 26  # pixels of a slider beyond its ends


def _pick(phone: ScreenPhone, frame: Frame, box: UiBox, x: int, y: int) -> None:
    """Open the picker of a field."""
    widget: Choice | DateField | TimeField = box.widget
    value = frame.page.values.get(widget.key, widget.value) if widget.key else widget.value
    params: dict[str, object] = {"key": widget.key, "title": widget.label, "value": value}
    params |= {"on_change": widget.on_change, "owner": frame.page.package}
    if isinstance(widget, Choice):
        params["options"] = widget.options
    screen = {Choice: "choose", DateField: "pick_date", TimeField: "pick_time"}[type(widget)]
    phone.push(AppPage("android", screen, tuple(params.items())))


_HANDLERS: Final[dict[type, Callable[[ScreenPhone, Frame, UiBox, int, int], None]]] = {
    Key: _key,
    Keys: _navigate,
    tuple: _entry,
    Snackbar: _undo,
    TextField: _focus,
    Switch: _flip,
    Checkbox: _flip,
    Toggle: _flip,
    Radio: _choose,
    Slider: _slide,
    Choice: _pick,
    DateField: _pick,
    TimeField: _pick,
}


def long_press(phone: ScreenPhone, x: int, y: int) -> None:
    """Hold a pixel."""
    if not phone.state.screen_on:
        return
    frame = phone.frame
    target = next((box for box in frame.at(x, y) if box.long_clickable and box.widget is not None), None)
    phone.state.snackbar = None
    if target is None:
        return
    widget = target.widget
    if isinstance(widget, TextField | Text):
        text_input.select_word(phone, target, x, y)
    else:
        phone.run(widget.on_long_press, frame.page.package, frame=frame)


def swipe(phone: ScreenPhone, start: tuple[int, int], end: tuple[int, int], milliseconds: int) -> None:
    """Draw a finger from one pixel to another."""
    right, down = end[0] - start[0], end[1] - start[1]
    if max(abs(right), abs(down)) < _STILL:
        (long_press if milliseconds >= _HOLD else tap)(phone, *start)
        return
    if not phone.state.screen_on:
        return
    frame = phone.frame
    path = frame.at(*start)
    phone.state.snackbar = None
    if start[1] < STATUS and down > 0:
        phone.open_shade()
        return
    slider = next((box for box in path if isinstance(box.widget, Slider)), None)
    picture = next((box for box in path if isinstance(box.widget, Picture) and box.widget.on_drag), None)
    if slider is not None:
        _slide(phone, frame, slider, *end)
    elif picture is not None:
        _drag(phone, frame, picture, right, down)
    elif abs(right) > abs(down):
        swiped = next((box for box in path if isinstance(box.widget, Item) and box.widget.on_swipe), None)
        if swiped is not None:
            phone.run(swiped.widget.on_swipe, frame.page.package, frame=frame)
    elif path[-1] is frame.root:
        _scroll(phone, frame, -down)


def _drag(phone: ScreenPhone, frame: Frame, box: UiBox, right: int, down: int) -> None:
    """Tell the app how far a finger has moved on a picture, in the picture's units."""
    unit = (box.right - box.left) / box.widget.width
    drag: Do = box.widget.on_drag
    moved = (("right", round(right / unit, 1)), ("down", round(down / unit, 1)))
    phone.run(Do(drag.function, (*drag.arguments, *moved)), frame.page.package, frame=frame)


def _scroll(phone: ScreenPhone, frame: Frame, by: int) -> None:
    """Scroll the page by pixels, or do what it does beyond its end."""
    at = min(frame.scroll_limit, max(0, frame.scroll + by))
    if at != frame.scroll:
        phone.change_page(replace(frame.page, scroll=frame.kept_scroll(at)))
    elif by > 0 and isinstance(frame.window, Screen) and frame.window.on_swipe_up:
        phone.run(frame.window.on_swipe_up, frame.page.package, frame=frame)
