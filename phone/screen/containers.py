"""Layout of widgets that hold others: rows, columns, cards, grids, and the visible part of a scrolled stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from turncredit.phone.screen.box import Pen, UiBox, clip, dp, shift
from turncredit.phone.screen.parts import PARTS, fixed_height, natural_width, touch
from turncredit.phone.toolkit.app import BrokenApp
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Card,
    Chip,
    Column,
    Grid,
    Icon,
    IconButton,
    List,
    Picture,
    Row,
    Spacer,
    Text,
    Widget,
    wrong_field,
)

__all__ = ["place", "scrolled", "stack"]

_EDGE: Final = dp(16)
_LEAST: Final = dp(120)  # height of a picture that fills what is left
_INSET: Final = frozenset((Text, Button, Chip, IconButton, Avatar, Icon, Card, Picture))
"""Widgets that have no margin of their own."""


def place(pen: Pen, widget: Widget, x: int, y: int, width: int) -> UiBox:
    """Return the box of a widget at a place, as high as its content.

    Raises:
        BrokenApp: it is not a widget, one that only a screen can hold, or one with a wrong value.
    """
    kind = type(widget)
    lay_out = PARTS.get(kind) or _CONTAINERS.get(kind)
    if lay_out is None:
        raise BrokenApp(f"{pen.package}: a screen holds widgets, got {kind.__name__}")
    try:
        return lay_out(pen, widget, x, y, width)
    except (AttributeError, TypeError, ValueError) as error:
        problem = wrong_field(widget) or f"{kind.__name__} cannot be laid out: {type(error).__name__}: {error}"
        raise BrokenApp(f"{pen.package}: {problem}") from error


def stack(pen: Pen, widgets: Sequence[Widget], x: int, y: int, width: int, gap: int = 0) -> list[UiBox]:
    """Return widgets one below the other; those without a margin of their own get one."""
    boxes = []
    for widget in widgets:
        box = _stacked(pen, widget, x, y, width)
        boxes.append(box)
        y = box.bottom + gap
    return boxes


def _stacked(pen: Pen, widget: Widget, x: int, y: int, width: int) -> UiBox:
    inset = _EDGE if type(widget) in _INSET and width > 2 * _EDGE else 0
    return place(pen, widget, x + inset, y, width - 2 * inset)


def _column(pen: Pen, w: Column, x: int, y: int, width: int) -> UiBox:
    pad = dp(w.padding)
    box = pen.box("android.widget.LinearLayout", x, y, width, 0)
    children = stack(pen, w.children, x + pad, y + pad, width - 2 * pad, dp(w.gap))
    box.children = children
    box.bottom = (children[-1].bottom if children else y + pad) + pad
    return box


def _row(pen: Pen, w: Row, x: int, y: int, width: int) -> UiBox:
    pad, gap = dp(w.padding), dp(w.gap)
    widths = [natural_width(pen, child) for child in w.children]
    left = width - 2 * pad - gap * max(0, len(widths) - 1) - sum(wide or 0 for wide in widths)
    share = max(1, left // max(1, widths.count(None)))
    box = pen.box("android.widget.LinearLayout", x, y, width, 0)
    boxes, at = [], x + pad
    for child, wide in zip(w.children, widths, strict=True):
        room = max(1, min(share if wide is None else wide, x + width - at))  # none reaches out of its row
        if not isinstance(child, Spacer):
            boxes.append(place(pen, child, at, y, room))
        at += room + gap
    height = max((placed.bottom - y for placed in boxes), default=0)
    for placed in boxes:
        shift(placed, (height - (placed.bottom - y)) // 2)
    box.children, box.bottom = boxes, y + height
    return box


def _card(pen: Pen, w: Card, x: int, y: int, width: int) -> UiBox:
    box = pen.box("androidx.cardview.widget.CardView", x, y, width, 0)
    if w.on_tap or w.on_long_press:
        touch(box, w, w.on_tap is not None, w.on_long_press is not None)
    children = stack(pen, w.children, x, y + dp(12), width)
    box.description, box.selected = w.description, w.selected
    box.children = children
    box.bottom = (children[-1].bottom if children else y) + dp(12)
    box.paint = (("card", w.colour, w.selected),)
    outer = pen.box("android.widget.FrameLayout", x, y, width, box.bottom - y + dp(10))
    outer.children = [box]
    return outer


def _grid(pen: Pen, w: Grid, x: int, y: int, width: int) -> UiBox:
    pad, gap = dp(w.padding), dp(w.gap)
    wide = (width - 2 * pad - gap * (w.columns - 1)) // w.columns
    box = pen.box("android.widget.GridView", x, y, width, 0)
    boxes, bottom, top = [], y, y
    for i, child in enumerate(w.children):
        column = i % w.columns
        if column == 0:
            top = bottom + (gap if i else 0)
        placed = place(pen, child, x + pad + column * (wide + gap), top, wide)
        boxes.append(placed)
        bottom = max(bottom, placed.bottom)
    box.children, box.bottom = boxes, bottom
    return box


_CONTAINERS: Final[dict[type, Any]] = {Column: _column, Row: _row, Card: _card, Grid: _grid}


Scrolled = tuple[int, int, tuple[int, int] | None]


def scrolled(pen: Pen, widgets: Sequence[Widget], viewport: UiBox, scroll: int | None, from_end: bool) -> Scrolled:
    """Put the visible part of a stack of widgets into a viewport.

    Args:
        pen: for the page.
        widgets: the stack; what cannot be seen is not built, where its height is known without.
        viewport: gets the boxes, and becomes scrollable if there is more.
        scroll: pixels above the viewport; None: at the beginning.
        from_end: the beginning is the end.

    Returns:
        Where the stack stands now, the most that it can be scrolled, and top and bottom of the field with the focus.
    """
    left, width = viewport.left, viewport.right - viewport.left
    pieces: list[tuple[int, UiBox | Widget]] = []  # (height, box, or what is built later)
    start = y = viewport.top - (scroll or 0)  # boxes are placed here, and moved if this proves to be too far
    for widget in widgets:
        if isinstance(widget, List):
            # All rows of a list are as high as its first: a thousand of them cost as much as those that are seen.
            row = place(pen, widget.row(widget.items[0]), left, 0, width) if widget.items else None
            pieces.append((row.bottom * len(widget.items) if row else 0, widget))
        elif isinstance(widget, Picture) and widget.fill:
            remaining = max(_LEAST, viewport.bottom - y - (scroll or 0))
            box = place(pen, replace(widget, height=remaining * widget.width / width), left, y, width)
            pieces.append((remaining, box))
        elif (height := fixed_height(pen, widget)) is not None:
            pieces.append((height, widget))
        else:
            box = _stacked(pen, widget, left, y, width)
            pieces.append((box.bottom - y, box))
        y += pieces[-1][0]
    room = viewport.bottom - viewport.top
    edge = 0 if not widgets or (isinstance(widgets[-1], Picture) and widgets[-1].fill) else _EDGE
    limit = max(0, sum(height for height, _ in pieces) + edge - room)
    at = min(limit, scroll if scroll is not None else limit if from_end else 0)
    focus = _focus(pieces, start) if pen.page.focus else None
    # Where the stack stands follows from its height, which is known only now: what was built too far up or down moves.
    boxes: list[UiBox] = []
    y = viewport.top - at
    off = y - start
    for height, piece in pieces:
        if y < viewport.bottom and y + height > viewport.top:
            boxes += _visible(pen, piece, height, y, viewport, off)
        y += height
    viewport.children, viewport.scrollable = boxes, limit > 0
    return at, limit, focus


def _focus(pieces: list[tuple[int, UiBox | Widget]], start: int) -> tuple[int, int] | None:
    for _, piece in pieces:
        for box in piece.walk() if isinstance(piece, UiBox) else ():
            if box.focused:
                return box.top - start, box.bottom - start
    return None


def _visible(pen: Pen, piece: UiBox | Widget, height: int, y: int, viewport: UiBox, off: int) -> list[UiBox]:
    if isinstance(piece, UiBox):
        if off:
            shift(piece, off)
        return [piece] if clip(piece, viewport.top, viewport.bottom) else []
    if not isinstance(piece, List):
        box = place(pen, piece, viewport.left, y, viewport.right - viewport.left)
        return [box] if clip(box, viewport.top, viewport.bottom) else []
    each = height // len(piece.items)
    first = max(0, (viewport.top - y) // each)
    last = min(len(piece.items), -(-(viewport.bottom - y) // each))  # rounded up: a row that begins is seen
    width = viewport.right - viewport.left
    boxes = stack_rows(pen, piece, first, last, viewport.left, y, width, each)
    return [box for box in boxes if clip(box, viewport.top, viewport.bottom)]


def stack_rows(pen: Pen, rows: List, first: int, last: int, x: int, y: int, width: int, each: int) -> list[UiBox]:
    """Return the boxes of some rows of a list, each at its own place."""
    return [place(pen, rows.row(rows.items[i]), x, y + i * each, width) for i in range(first, last)]
