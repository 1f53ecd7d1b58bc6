"""Layout of windows: what `screen(ctx)` returned becomes a frame, with the boxes of everything that can be seen.

A screen is, from above: status bar, app bar, tabs, fixed part, body that scrolls, fixed part, bar, navigation keys.
The navigation keys and the soft keyboard belong to the system: they can be touched but are not in the dump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

from turncredit.phone.screen.box import Pen, TextRow, UiBox, clip, dp, shift
from turncredit.phone.screen.containers import place, scrolled, stack
from turncredit.phone.screen.keyboard import keyboard_box, keyboard_height
from turncredit.phone.screen.parts import touch
from turncredit.phone.toolkit.handlers import Do
from turncredit.phone.toolkit.state import AppPage, Snackbar
from turncredit.phone.toolkit.widgets import Button, Dialog, Fab, IconButton, Menu, Screen, Sheet, Tab, Widget, Window
from turncredit.tools.android.node import Node

__all__ = ["NAVIGATION", "STATUS", "Frame", "Keys", "lay_out"]

STATUS: Final = dp(32)
NAVIGATION: Final = dp(48)
_BAR: Final = dp(64)
_LEAST: Final = dp(96)  # height that is left to what scrolls


@dataclass(slots=True, eq=False)
class Frame:
    """A window laid out on the screen."""

    page: AppPage
    window: Window
    root: UiBox
    system: list[UiBox]  # navigation keys and keyboard: in front of the window, not in the dump
    viewport: UiBox | None = None  # the part that scrolls
    scroll: int = 0  # where it stands, in pixels
    scroll_limit: int = 0
    focus: tuple[int, int] | None = None  # top and bottom of the field with the focus, in what scrolls
    asked: Mapping[str, object] = field(default_factory=dict)  # values for keys that the page does not keep

    def kept_scroll(self, at: int) -> int | None:
        """Return what a page keeps when it stands at `at`: None where the screen begins, which is one state."""
        begin = self.scroll_limit if isinstance(self.window, Screen) and self.window.from_end else 0
        return None if at == begin else at

    def at(self, x: int, y: int) -> list[UiBox]:
        """Return the boxes at a pixel, from the innermost to the root; the system's are in front."""
        for box in reversed(self.system):
            if box.contains(x, y):
                return _path(box, x, y)
        return _path(self.root, x, y)


def _path(box: UiBox, x: int, y: int) -> list[UiBox]:
    # Later children are painted over earlier ones, so the last one that contains the pixel is the one that is seen.
    for child in reversed(box.children):
        if child.contains(x, y):
            return [*_path(child, x, y), box]  # type: ignore[arg-type]
    return [box]


@dataclass(frozen=True, slots=True)
class Keys:
    """A navigation key: back, home or recents."""

    name: str


def lay_out(
    window: Window, page: AppPage, size: tuple[int, int], scale: float, snackbar: Snackbar | None, first: bool
) -> Frame:
    """Return a window as a frame.

    Args:
        window: what the screen function returned.
        page: whose window it is.
        size: width and height of the screen in pixels.
        scale: of the font.
        snackbar: the message to show above the bottom, if any.
        first: the page is the first of its app, which has no arrow to go back.
    """
    width, height = size
    pen = Pen(page, page.package, width, scale)
    root = pen.box("android.widget.FrameLayout", 0, 0, width, height)
    frame = Frame(page, window, root, [_navigation(width, height)])
    # `low` is the lowest pixel that is free: what stands at the bottom takes its height first, and all that follows is
    # laid out in what is left. So a window gets lower, and never lies behind the keyboard.
    low = height - NAVIGATION
    if page.keyboard:
        tall = keyboard_height(size)
        frame.system.append(keyboard_box(pen, window, width, low - tall, tall))
        low -= tall
    if isinstance(window, Screen):
        if snackbar:
            low = _snackbar(pen, root, snackbar, low)
        _screen(pen, frame, window, low, first)
    elif isinstance(window, Sheet):
        _sheet(pen, frame, window, low)
    elif isinstance(window, Menu):
        _menu(pen, frame, window, low)
    elif isinstance(window, Dialog):
        _dialog(pen, frame, window, low)
    if page.toolbar:
        _toolbar(pen, frame, low)
    return frame


def _screen(pen: Pen, frame: Frame, w: Screen, low: int, first: bool) -> None:
    root = frame.root
    root.paint = (("screen", w.style),)
    bar = _app_bar(pen, w, first) if w.style == "page" and (w.title or w.actions or w.up) else None
    y = bar.bottom if bar else STATUS
    above: list[UiBox] = [bar] if bar else []
    if w.tabs:
        above.append(_tabs(pen, w.tabs, y, dp(52), "tabs"))
        y = above[-1].bottom
    below: list[UiBox] = []
    if w.bar:
        below.append(_tabs(pen, w.bar, low - dp(76), dp(76), "bar"))
        low -= dp(76)
    if w.bottom:
        part = _fixed(pen, w.bottom, 0)  # its height is known once it is laid out: at 0 first, then moved
        low -= part.bottom
        shift(part, low)
        below.append(part)
    body = w.body
    if w.top:
        part = _fixed(pen, w.top, y)
        if low - part.bottom < _LEAST:  # on a low screen it scrolls with the rest
            body = [*w.top, *w.body]
        else:
            above.append(part)
            y = part.bottom
    viewport = pen.box("android.widget.ScrollView", 0, y, pen.width, max(1, low - y), "content")
    _fill(pen, frame, body, viewport, w.from_end)
    # The snackbar was laid out first, because it takes height, and has to come last, because it is in front.
    snackbars = root.children
    root.children = [*above, viewport, *below, *snackbars]
    for part in (*above, *below):
        clip(part, STATUS if part in above else 0, root.bottom - NAVIGATION)
    if w.fab:
        _float(pen, root, viewport, w.fab, low)


def _fill(pen: Pen, frame: Frame, body: Sequence[Widget], viewport: UiBox, from_end: bool = False) -> None:
    """Put the visible part of the body into the viewport, and note where it stands."""
    position = scrolled(pen, body, viewport, frame.page.scroll, from_end)
    frame.viewport = viewport
    frame.scroll, frame.scroll_limit, frame.focus = position


def _fixed(pen: Pen, widgets: Sequence[Widget], y: int) -> UiBox:
    boxes = stack(pen, widgets, 0, y, pen.width)
    part = pen.box("android.widget.LinearLayout", 0, y, pen.width, boxes[-1].bottom - y)
    part.children = boxes
    part.paint = (("bar",),)
    return part


def _app_bar(pen: Pen, w: Screen, first: bool) -> UiBox:
    bar = pen.box("android.view.ViewGroup", 0, STATUS, pen.width, _BAR, "toolbar")
    bar.paint = (("bar",),)
    boxes, left, right = [], dp(20), pen.width - dp(4)
    if w.up and (not first or w.on_back):
        boxes.append(_icon_at(pen, w.up_icon, "Navigate up" if w.up_icon == "back" else "Close", w.on_back, dp(4)))
        left = dp(60)
    actions = [place(pen, action, right - dp(48) * (i + 1), STATUS + dp(8), dp(48)) for i, action in _numbered(w)]
    right -= dp(48) * len(w.actions)
    font = pen.style("title")
    y = STATUS + (_BAR - font.line) // 2
    if w.title:
        boxes.append(pen.text(w.title, left, y, right - left, "title", "action_bar_title"))
    bar.children = [*boxes, *reversed(actions)]
    return bar


def _numbered(w: Screen) -> list[tuple[int, IconButton]]:
    return list(enumerate(reversed(w.actions)))


def _icon_at(pen: Pen, icon: str, description: str, on_tap: Do | None, x: int) -> UiBox:
    box = place(pen, IconButton(icon, description, on_tap, colour="text"), x, STATUS + dp(8), dp(48))
    if on_tap is None:
        box.widget = Keys("back")
    return box


def _tabs(pen: Pen, tabs: Sequence[Tab], y: int, height: int, kind: str) -> UiBox:
    bar = pen.box("android.widget.HorizontalScrollView", 0, y, pen.width, height, kind)
    bar.paint = (("bar",),)
    wide = pen.width // len(tabs)
    size = pen.style("label" if kind == "tabs" else "small").size
    bar.children = boxes = []
    for i, tab in enumerate(tabs):
        box = touch(pen.box("android.widget.LinearLayout", i * wide, y, wide, height), tab)
        box.text, box.selected = tab.text, tab.selected
        box.paint = (("tab", tab.text, tab.icon, tab.selected, kind, size),)
        boxes.append(box)
    return bar


def _float(pen: Pen, root: UiBox, viewport: UiBox, fab: Fab, low: int) -> None:
    wide = dp(56) + (pen.natural(fab.text, "label") + dp(20) if fab.text else 0)
    box = pen.box("android.widget.ImageButton", pen.width - dp(16) - wide, low - dp(72), wide, dp(56), "fab")
    touch(box, fab)
    box.text, box.description = fab.text, fab.description
    box.paint = (("fab", fab.icon, fab.text, pen.style("label").size),)
    uncover(viewport, box)
    root.children = [*root.children, box]


def uncover(box: UiBox, front: UiBox) -> None:
    """Take out of `box` what cannot be tapped in its middle, because `front` is there."""
    # Agents and uiautomator tap the middle of a node. One whose middle is covered would hand its tap to what is in
    # front, so it is not in the dump; one that is covered elsewhere stays, as on a device.
    visible = []
    for child in box.children:
        covered = (child.clickable or child.long_clickable) and front.contains(*child.center)
        if not covered:
            if child.bottom > front.top and child.top < front.bottom and child.children:
                uncover(child, front)  # type: ignore[arg-type]
            visible.append(child)
    box.children = visible


def _snackbar(pen: Pen, root: UiBox, snackbar: Snackbar, low: int) -> int:
    height = dp(48)
    top = low - height - dp(8)
    bar = pen.box("android.widget.FrameLayout", dp(8), top, pen.width - dp(16), height)
    bar.paint = (("snackbar",),)
    room = bar.right - bar.left - dp(32)
    y = top + (height - pen.style("body").line) // 2
    buttons = []
    if snackbar.label:
        wide = pen.natural(snackbar.label, "label") + dp(32)
        room -= wide
        button = touch(
            pen.box("android.widget.Button", bar.right - wide, top, wide, height, "snackbar_action"), snackbar
        )
        button.text = snackbar.label
        button.paint = (("link", snackbar.label, pen.style("label").size),)
        buttons.append(button)
    text = pen.text(snackbar.text, bar.left + dp(16), y, room, "body", "snackbar_text", "on_inverse")
    bar.children = [text, *buttons]
    root.children = [bar]
    return top - dp(8)


def _panel(pen: Pen, frame: Frame, left: int, top: int, right: int, bottom: int, kind: str) -> UiBox:
    panel = pen.box("android.widget.FrameLayout", left, top, right - left, bottom - top, "parentPanel")
    panel.paint = (("panel", kind),)
    # A dialog is a window of its own: its dump begins with the panel, and a touch outside of the root closes it.
    root = frame.root
    root.left, root.top, root.right, root.bottom = left, top, right, bottom
    root.children = [panel]
    return panel


def _dialog(pen: Pen, frame: Frame, w: Dialog, low: int) -> None:
    width = min(pen.width - dp(48), dp(340))
    left = (pen.width - width) // 2
    title = pen.text(w.title, left + dp(24), 0, width - dp(48), "title", "alertTitle", lines=0)
    buttons = _buttons(pen, w.buttons, left, width)
    body = stack(pen, w.body, left + dp(8), 0, width - dp(16))
    foot = (buttons[0].bottom - buttons[0].top) * _button_rows(buttons) + dp(16) if buttons else dp(16)
    inner = sum(box.bottom - box.top for box in body) + (dp(16) if body else 0)
    head = dp(24) + title.bottom + dp(8)
    total = min(head + inner + foot, low - STATUS - dp(16))
    top = (STATUS + low - total) // 2
    panel = _panel(pen, frame, left, top, left + width, top + total, "dialog")
    title.top, title.bottom = top + dp(24), top + dp(24) + title.bottom
    panel.children = boxes = [title]
    if w.body:
        viewport = pen.box("android.widget.ScrollView", left + dp(8), top + head, width - dp(16), total - head - foot)
        _fill(pen, frame, w.body, viewport)
        boxes.append(viewport)
    for button in buttons:
        button.top += panel.bottom - dp(8)
        button.bottom += panel.bottom - dp(8)
    boxes += buttons


def _buttons(pen: Pen, buttons: Sequence[Button], left: int, width: int) -> list[UiBox]:
    """Return the buttons of a dialog from right to left, their tops measured upwards from its end."""
    boxes: list[UiBox] = []
    right, y = left + width - dp(16), 0
    for button in reversed(buttons):
        box = place(pen, button, 0, 0, width - dp(32))
        wide, high = box.right, box.bottom
        if right - wide < left + dp(16) and boxes:
            right, y = left + width - dp(16), y - high
        box.left, box.right, box.top, box.bottom = right - wide, right, y - high, y
        right -= wide + dp(4)
        boxes.append(box)
    return boxes


def _button_rows(buttons: list[UiBox]) -> int:
    return len({box.top for box in buttons})


def _menu(pen: Pen, frame: Frame, w: Menu, low: int) -> None:
    each = pen.tall(dp(52))
    width = min(pen.width - dp(32), max(dp(180), *(pen.natural(text, "body") + dp(40) for text, _ in w.entries)))
    natural = each * len(w.entries) + dp(16)
    total = min(natural, low - STATUS - dp(40))
    left, top = pen.width - width - dp(12), STATUS + dp(12)
    if total > dp(400) or w.selected:
        left, top = (pen.width - width) // 2, (STATUS + low - total) // 2
    panel = _panel(pen, frame, left, top, left + width, top + total, "menu")
    viewport = pen.box("android.widget.ListView", left, top + dp(8), width, total - dp(16))
    frame.viewport = viewport
    frame.scroll_limit = max(0, natural - total)
    frame.scroll = min(frame.page.scroll or 0, frame.scroll_limit)
    viewport.scrollable = frame.scroll_limit > 0
    boxes = []
    for i, entry in enumerate(w.entries):
        top = viewport.top + i * each - frame.scroll
        box = touch(
            TextRow((left, top, left + width, top + each), pen.package, [entry[0]], [], partial(_in_entry, pen)), entry
        )
        box.selected = bool(w.selected) and entry[0] == w.selected
        box.paint = (("round", "container", dp(8), dp(4)),) if box.selected else ()
        if clip(box, viewport.top, viewport.bottom):
            boxes.append(box)
    viewport.children, panel.children = boxes, [viewport]


def _in_entry(pen: Pen, row: TextRow) -> list[Node]:
    """Return the text in a row of a menu."""
    y = row.top + (row.bottom - row.top - pen.style("body").line) // 2
    return [pen.text(row.texts[0], row.left + dp(16), y, row.right - row.left - dp(32), "body", "title")]


def _sheet(pen: Pen, frame: Frame, w: Sheet, low: int) -> None:
    boxes = stack(pen, w.body, 0, 0, pen.width)
    head = dp(28) + (pen.style("title").line + dp(8) if w.title else 0)
    total = min(head + sum(box.bottom - box.top for box in boxes) + dp(24), low - STATUS - dp(24))
    top = low - total
    panel = _panel(pen, frame, 0, top, pen.width, low, "sheet")
    boxes = []
    if w.title:
        boxes.append(pen.text(w.title, dp(24), top + dp(24), pen.width - dp(48), "title", "sheet_title"))
    viewport = pen.box("android.widget.ScrollView", 0, top + head, pen.width, total - head)
    _fill(pen, frame, w.body, viewport)
    panel.children = [*boxes, viewport]


@lru_cache(maxsize=8)
def _navigation(width: int, height: int) -> UiBox:
    bar = UiBox("android.widget.FrameLayout", 0, height - NAVIGATION, width, height, package="com.android.systemui")
    third = width // 3
    bar.children = boxes = []
    for i, (name, label) in enumerate((("back", "Back"), ("home", "Home"), ("recents", "Overview"))):
        box = UiBox("android.widget.ImageView", i * third, bar.top, (i + 1) * third, bar.bottom, "", label)
        box.package = "com.android.systemui"
        box.paint = (("key_icon", name),)
        boxes.append(touch(box, Keys(name)))
    return bar


_TOOLS: Final = (("Cut", "cut"), ("Copy", "copy"), ("Paste", "paste"), ("Select all", "select_all"))


def _toolbar(pen: Pen, frame: Frame, low: int) -> None:
    """Put cut, copy and paste above the text that is selected, or below it where there is no room."""
    owner = next((box for box in frame.root.walk() if box.focused or (box.selected and box.long_clickable)), None)
    if owner is None:
        return
    editable = owner.editable
    tools = [tool for tool in _TOOLS if editable or tool[1] in ("copy", "select_all")]
    widths = [pen.natural(label, "label") + dp(28) for label, _ in tools]
    height = dp(44)
    top = owner.top - height - dp(8)
    if top < STATUS:
        top = min(owner.bottom + dp(8), low - height)
    left = max(frame.root.left, min(owner.left, pen.width - sum(widths) - dp(8)))
    bar = pen.box("android.widget.FrameLayout", left, top, sum(widths), height, "floating_toolbar")
    bar.paint = (("panel", "toolbar"),)
    bar.children = boxes = []
    for (label, name), wide in zip(tools, widths, strict=True):
        box = touch(pen.box("android.widget.Button", left, top, wide, height, name), Keys(name))
        box.text = label
        box.paint = (("link_dark", label, pen.style("label").size),)
        boxes.append(box)
        left += wide
    root = frame.root
    uncover(root, bar)
    root.top, root.bottom = min(root.top, bar.top), max(root.bottom, bar.bottom)
    root.children = [*root.children, bar]
