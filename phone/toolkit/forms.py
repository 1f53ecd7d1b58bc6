"""The fields of a window and their values, found by walking its widgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from turncredit.phone.toolkit.phone_interface import PhoneParts
from turncredit.phone.toolkit.tables import Value
from turncredit.phone.toolkit.widgets import (
    Card,
    Checkbox,
    Choice,
    Column,
    DateField,
    Dialog,
    Grid,
    Row,
    Screen,
    Sheet,
    Slider,
    Switch,
    TextField,
    TimeField,
    Widget,
    Window,
)

__all__ = ["fields", "form_values", "keep_value", "text_fields"]


def fields(window: Window | None) -> Iterator[Widget]:
    """Yield the widgets of a window that are not containers, from top to bottom; rows of a List are left out."""
    if isinstance(window, Screen):
        for part in (window.top, window.body, window.bottom):
            yield from _leaves(part)
    elif isinstance(window, Dialog | Sheet):
        yield from _leaves(window.body)


def _leaves(widgets: object) -> Iterator[Widget]:
    for widget in widgets if isinstance(widgets, tuple | list) else ():
        if isinstance(widget, Row | Column | Card | Grid):
            yield from _leaves(widget.children)
        else:
            yield widget


def text_fields(window: Window | None) -> list[TextField]:
    """Return the text fields of a window, from top to bottom."""
    return [widget for widget in fields(window) if isinstance(widget, TextField)]


def form_values(window: Window | None, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of each field with a key: from `values`, else the one that the widget shows."""
    form: dict[str, Value] = {}
    for widget in fields(window):
        if isinstance(widget, TextField | Choice | DateField | TimeField | Slider):
            form[widget.key] = values.get(widget.key, widget.value)
        elif isinstance(widget, Switch | Checkbox):
            form[widget.key] = values.get(widget.key, widget.checked)
    form.pop("", None)
    return form


def keep_value(phone: PhoneParts, key: str, value: Value) -> None:
    """Keep a value in the page in front; one that its screen takes anyway is dropped, so that it is one state."""
    frame, page = phone.frame, phone.page
    shown = frame.asked if key in frame.asked else form_values(frame.window, {})
    if key in shown and shown[key] == value:
        phone.change_page(replace(page, values={name: old for name, old in page.values.items() if name != key}))
    else:
        phone.change_page(page.with_value(key, value))
