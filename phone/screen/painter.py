"""Painters of boxes: `PAINTERS` maps each instruction of a box (see `parts` and `layout`) to what draws it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from turncredit.phone.screen.box import UiBox, dp
from turncredit.phone.screen.brush import Brush
from turncredit.phone.screen.fonts import fit, text_width, wrap
from turncredit.phone.screen.layout import STATUS
from turncredit.phone.screen.pictures import paint_picture
from turncredit.phone.screen.theme import avatar_colour, rgb
from turncredit.phone.toolkit.state import HOME

__all__ = ["PAINTERS"]


Colour = tuple[int, int, int]


# Windows and bars


def _screen(brush: Brush, box: UiBox, style: str) -> None:
    if style == "wallpaper":
        brush.canvas.gradient(brush.colour("wallpaper"), brush.colour("wallpaper_low"))
        return
    role = "shade" if style == "shade" else "background"
    brush.canvas.box(0, 0, box.right, box.bottom, brush.colour(role))


def _bar(brush: Brush, box: UiBox) -> None:
    top = 0 if box.top <= STATUS else box.top
    if box.package == HOME and not brush.dark and box.resource_id == "":
        return
    brush.canvas.box(box.left, top, box.right, box.bottom, brush.colour("background"))


def _panel(brush: Brush, box: UiBox, kind: str) -> None:
    radius = {"dialog": dp(26), "menu": dp(14), "sheet": dp(26), "toolbar": dp(22)}[kind]
    bottom = box.bottom + (dp(30) if kind == "sheet" else 0)
    brush.canvas.box(box.left, box.top, box.right, bottom, brush.colour("panel"), radius)
    if kind == "toolbar":
        brush.canvas.frame(*box.bounds, brush.colour("outline"), brush.colour("panel"), radius, 3)
    if kind == "sheet":
        middle = (box.left + box.right) / 2
        grip = brush.colour("faint")
        brush.canvas.box(middle - dp(16), box.top + dp(12), middle + dp(16), box.top + dp(16), grip, dp(2))


def _tab(brush: Brush, box: UiBox, text: str, icon: str, selected: bool, kind: str, size: int) -> None:
    middle = (box.left + box.right) // 2
    colour = brush.colour("primary" if selected else "muted")
    if kind == "tabs":
        brush.middle(text, box.left, box.right, (box.top + box.bottom) // 2, size, colour, True)
        role = "primary" if selected else "line"
        brush.canvas.box(box.left, box.bottom - (8 if selected else 3), box.right, box.bottom, brush.colour(role), 2)
        return
    brush.canvas.box(box.left, box.top, box.right, box.bottom, brush.colour("surface"))
    if selected:
        disc = brush.colour("container")
        brush.canvas.box(middle - dp(32), box.top + dp(10), middle + dp(32), box.top + dp(42), disc, dp(16))
    on = brush.colour("on_container" if selected else "muted")
    brush.canvas.icon(icon or "apps", middle - dp(12), box.top + dp(14), dp(24), on)
    brush.middle(text, box.left, box.right, box.bottom - dp(18), size, on, selected)


def _fab(brush: Brush, box: UiBox, icon: str, text: str, size: int) -> None:
    canvas = brush.canvas
    canvas.box(box.left, box.top + 6, box.right, box.bottom + 8, brush.colour("shadow"), dp(16))
    canvas.box(*box.bounds, brush.colour("container"), dp(16))
    canvas.icon(icon, box.left + dp(16), box.top + dp(16), dp(24), brush.colour("on_container"))
    if text:
        middle = (box.top + box.bottom) // 2
        brush.middle(text, box.left + dp(44), box.right - dp(12), middle, size, brush.colour("on_container"), True)


def _snackbar(brush: Brush, box: UiBox) -> None:
    brush.canvas.box(*box.bounds, brush.colour("inverse"), dp(10))


def _key_icon(brush: Brush, box: UiBox, name: str) -> None:
    x, y = box.center
    canvas, colour = brush.canvas, brush.colour("muted")
    if name == "back":
        canvas.icon("left", x - dp(11), y - dp(11), dp(22), colour)
    elif name == "home":
        canvas.disc(x, y, dp(8), colour)
    else:
        canvas.icon("recents", x - dp(11), y - dp(11), dp(22), colour)


def _keyboard(brush: Brush, box: UiBox) -> None:
    brush.canvas.box(*box.bounds, brush.colour("keyboard"))


def _key(brush: Brush, box: UiBox, name: str, shifted: bool) -> None:
    special = name in ("SHIFT", "DELETE", "SYMBOLS", "ENTER")
    role = "container" if name == "ENTER" or (name == "SHIFT" and shifted) else "line" if special else "key"
    brush.canvas.box(*box.bounds, brush.colour(role), dp(7))
    middle, colour = (box.top + box.bottom) // 2, brush.colour("text")
    icons = {"SHIFT": "up", "DELETE": "backspace", "ENTER": "check"}
    if name in icons:
        brush.canvas.icon(icons[name], (box.left + box.right) / 2 - dp(11), middle - dp(11), dp(22), colour)
    else:
        label = {"SYMBOLS": "?123", "SPACE": "English"}.get(name, name)
        brush.middle(label, box.left, box.right, middle, 52 if len(label) == 1 else 36, colour)


# Widgets


def _text(
    brush: Brush,
    box: UiBox,
    lines: tuple[str, ...],
    size: int,
    line: int,
    bold: bool,
    role: str,
    align: str,
    struck: bool,
) -> None:
    left, top, right, _ = box.full
    colour = brush.colour(role)
    for i, text in enumerate(lines):
        x = float(left)
        if align != "left":
            spare = right - left - text_width(text, size, bold)
            x += spare if align == "right" else spare / 2
        y = top + i * line + (line - size * 1.17) / 2
        brush.canvas.text(text, x, y, size, colour, bold)
        if struck:
            middle = y + size * 0.66
            brush.canvas.box(x, middle, x + text_width(text, size, bold), middle + 4, colour)


def _selection(
    brush: Brush, box: UiBox, text: str, size: int, line: int, bold: bool, selected: tuple[int, int], *details: object
) -> None:
    start, end = sorted(selected)
    left, top, right, _ = box.full
    x = left + text_width(text[:start], size, bold)
    brush.canvas.box(
        x, top, min(right, left + text_width(text[:end], size, bold)), top + line, brush.colour("container")
    )


def _icon(brush: Brush, box: UiBox, name: str, role: str, size: int) -> None:
    left, top, right, bottom = box.full
    brush.canvas.icon(name, (left + right - size) / 2, (top + bottom - size) / 2, size, brush.colour(role))


def _disc(brush: Brush, box: UiBox, role: str, inset: int) -> None:
    left, top, right, bottom = box.full
    brush.canvas.disc((left + right) / 2, (top + bottom) / 2, (right - left) / 2 - inset, brush.colour(role))


def _avatar(brush: Brush, box: UiBox, name: str, icon: str) -> None:
    left, top, right, bottom = box.full
    size = right - left
    x, y = (left + right) // 2, (top + bottom) // 2
    brush.canvas.disc(x, y, size / 2, rgb(avatar_colour(name)))
    letter = next((character for character in name if character.isalnum()), "#").upper()
    if icon:
        brush.canvas.icon(icon, x - size * 0.28, y - size * 0.28, size * 0.56, (255, 255, 255))
    else:
        brush.middle(letter, left, right, y, round(size * 0.46), (255, 255, 255), True)


_BUTTONS: Final = {
    "filled": ("primary", "on_primary"),
    "tonal": ("container", "on_container"),
    "danger": ("error", "on_error"),
}


def _button(brush: Brush, box: UiBox, text: str, kind: str, icon: str, size: int, enabled: bool) -> None:
    left, top, right, bottom = box.full
    back, front = _BUTTONS.get(kind, ("", "primary"))
    if not enabled:
        back, front = ("line" if back else ""), "faint"
    middle, inset = (top + bottom) // 2, dp(2)
    if kind == "outlined":
        brush.canvas.frame(
            left, top + inset, right, bottom - inset, brush.colour("outline"), brush.colour("background"), dp(20), 3
        )
    elif back:
        brush.canvas.box(left, top + inset, right, bottom - inset, brush.colour(back), dp(20))
    if icon:
        wide = text_width(text, size, True) + (dp(32) if text else dp(24))
        x = (left + right - wide) / 2
        brush.canvas.icon(icon, x, middle - dp(11), dp(22), brush.colour(front))
        left = round(x) + dp(28)
        right = left + text_width(text, size, True) + 2
    brush.middle(text, left, right, middle, size, brush.colour(front), True)


def _link(brush: Brush, box: UiBox, text: str, size: int) -> None:
    colour = brush.colour("container") if not brush.dark else brush.colour("primary")
    brush.middle(text, box.left, box.right, box.center[1], size, colour, True)


def _link_dark(brush: Brush, box: UiBox, text: str, size: int) -> None:
    brush.middle(text, box.left, box.right, box.center[1], size, brush.colour("text"), True)


def _round(brush: Brush, box: UiBox, role: str, radius: int, inset: int) -> None:
    left, top, right, bottom = box.full
    brush.canvas.box(left + inset, top, right - inset, bottom, brush.colour(role), radius)


def _switch(brush: Brush, box: UiBox, on: bool, enabled: bool) -> None:
    left, top, right, bottom = box.full
    middle, radius = (top + bottom) / 2, (bottom - top) / 2
    if on:
        brush.canvas.box(left, top, right, bottom, brush.colour("primary" if enabled else "faint"), radius)
        brush.canvas.disc(right - radius, middle, radius * 0.74, brush.colour("on_primary"))
    else:
        brush.canvas.frame(left, top, right, bottom, brush.colour("muted"), brush.colour("field"), radius, 5)
        brush.canvas.disc(left + radius, middle, radius * 0.5, brush.colour("muted"))


def _checkbox(brush: Brush, box: UiBox, on: bool, enabled: bool) -> None:
    left, top, right, bottom = box.full
    x, y, half = (left + right) / 2, (top + bottom) / 2, dp(9)
    if on:
        brush.canvas.box(x - half, y - half, x + half, y + half, brush.colour("primary"), dp(3))
        brush.canvas.icon("check", x - half, y - half, 2 * half, brush.colour("on_primary"))
    else:
        behind = brush.colour("background")
        brush.canvas.frame(x - half, y - half, x + half, y + half, brush.colour("muted"), behind, dp(3), 5)


def _radio(brush: Brush, box: UiBox, on: bool) -> None:
    left, top, right, bottom = box.full
    x, y = (left + right) / 2, (top + bottom) / 2
    brush.canvas.disc(x, y, dp(10), brush.colour("primary" if on else "muted"))
    brush.canvas.disc(x, y, dp(8), brush.colour("background"))
    if on:
        brush.canvas.disc(x, y, dp(5), brush.colour("primary"))


def _slider(brush: Brush, box: UiBox, share: float) -> None:
    left, top, right, bottom = box.full
    y, start, end = (top + bottom) / 2, left + 26, right - 26
    at = start + (end - start) * min(1.0, max(0.0, share))
    brush.canvas.box(start - 8, y - dp(6), end + 8, y + dp(6), brush.colour("container"), dp(6))
    brush.canvas.box(start - 8, y - dp(6), at + 8, y + dp(6), brush.colour("primary"), dp(6))
    brush.canvas.box(at - 16, y - dp(17), at + 16, y + dp(17), brush.colour("panel"), dp(3))
    brush.canvas.box(at - 6, y - dp(16), at + 6, y + dp(16), brush.colour("primary"), dp(2))


def _field(
    brush: Brush,
    box: UiBox,
    label: str,
    hint: str,
    icon: str,
    wrong: bool,
    focused: bool,
    cursor: tuple[int, int] | None,
    view: Any,
    multiline: bool,
) -> None:
    left, top, right, bottom = box.full
    lines, shown, offset, size, line, inset, room = view
    canvas = brush.canvas
    edge = brush.colour("error" if wrong else "primary" if focused else "field")
    canvas.frame(left, top, right, bottom, edge, brush.colour("field"), dp(14), 5)
    if icon:
        y = top + dp(16) if multiline else (top + bottom) / 2 - dp(11)
        canvas.icon(icon, left + dp(13), y, dp(22), brush.colour("muted"))
    x, body = left + inset, top + dp(20)
    if not shown and not focused:
        y = top + dp(16) if multiline else (top + bottom) / 2 - size * 0.58
        canvas.text(fit(hint or label, size, room), x, y, size, brush.colour("muted"))
        return
    canvas.text(fit(label, 30, room), x, top + dp(7), 30, brush.colour("primary" if focused else "muted"))
    texts = lines if len(lines) > 1 else (shown[offset:],)
    if cursor and cursor[0] != cursor[1] and len(texts) == 1:
        start, end = (max(0, part - offset) for part in sorted(cursor))
        a, b = text_width(texts[0][:start], size), text_width(texts[0][:end], size)
        canvas.box(x + a, body, x + min(b, room), body + line, brush.colour("container"))
    for n, text in enumerate(texts):
        canvas.text(text, x, body + n * line + (line - size * 1.17) / 2, size, brush.colour("text"))
    if cursor:
        row, before = _cursor_line(texts, max(0, cursor[1] - offset))
        at = x + text_width(texts[row][:before], size)
        canvas.box(at, body + row * line + 6, at + 5, body + (row + 1) * line - 6, brush.colour("primary"))


def _cursor_line(lines: tuple[str, ...], at: int) -> tuple[int, int]:
    """Return row and column of a place in wrapped text."""
    for row, text in enumerate(lines):
        if at <= len(text):
            return row, at
        at -= len(text) + 1
    return len(lines) - 1, len(lines[-1])


def _picker(brush: Brush, box: UiBox, label: str, text: str, icon: str, size: int) -> None:
    left, top, right, bottom = box.full
    canvas = brush.canvas
    canvas.frame(left, top, right, bottom, brush.colour("outline"), brush.colour("background"), dp(14), 3)
    canvas.icon(icon, right - dp(38), (top + bottom) / 2 - dp(11), dp(22), brush.colour("muted"))
    room = right - left - dp(60)
    if text:
        canvas.text(label, left + dp(16), top + dp(7), 30, brush.colour("muted"))
        canvas.text(fit(text, size, room), left + dp(16), top + dp(21), size, brush.colour("text"))
    else:
        y = (top + bottom) / 2 - size * 0.58
        canvas.text(fit(label, size, room), left + dp(16), y, size, brush.colour("muted"))


def _chip(brush: Brush, box: UiBox, text: str, selected: bool, size: int) -> None:
    left, top, right, bottom = box.full
    edge = brush.colour("container" if selected else "outline")
    inner = brush.colour("container" if selected else "background")
    brush.canvas.frame(left, top + dp(4), right, bottom - dp(4), edge, inner, dp(10), 3)
    role = "on_container" if selected else "muted"
    brush.middle(text, left, right, (top + bottom) // 2, size, brush.colour(role), True)


def _line(brush: Brush, box: UiBox) -> None:
    left, top, right, bottom = box.full
    brush.canvas.box(left, (top + bottom) // 2, right, (top + bottom) // 2 + 3, brush.colour("line"))


def _bubble(brush: Brush, box: UiBox, lines: tuple[str, ...], size: int, line: int, mine: bool) -> None:
    left, top, right, bottom = box.full
    back, front = ("primary", "on_primary") if mine else ("card", "text")
    brush.canvas.box(left, top, right, bottom, brush.colour(back), dp(18))
    for i, text in enumerate(lines):
        y = top + dp(8) + i * line + (line - size * 1.17) / 2
        brush.canvas.text(text, left + dp(14), y, size, brush.colour(front))


def _card(brush: Brush, box: UiBox, colour: str, selected: bool) -> None:
    left, top, right, bottom = box.full
    role = "container" if selected else colour or "card"
    brush.canvas.box(left, top, right, bottom, brush.colour(role), dp(18))


def _tile(
    brush: Brush,
    box: UiBox,
    kind: str,
    text: str,
    icon: str,
    colour: str,
    selected: bool,
    marked: bool,
    size: int,
    dots: int,
) -> None:
    left, top, right, bottom = box.full
    middle, canvas = (left + right) // 2, brush.canvas
    if kind in ("app", "home"):
        role = "on_wallpaper" if kind == "home" else "text"
        canvas.box(
            middle - dp(28), top + dp(4), middle + dp(28), top + dp(60), brush.colour(colour or "primary"), dp(18)
        )
        canvas.icon(icon, middle - dp(15), top + dp(17), dp(30), (255, 255, 255))
        lines = wrap(text, size, right - left + dp(8))[:2]
        for n, line in enumerate(lines):
            low = top + dp(78) + round((n - (len(lines) - 1) / 2) * size * 1.2) + dp(4) * (len(lines) - 1)
            brush.middle(line, left - dp(4), right + dp(4), low, size, brush.colour(role))
    elif kind == "toggle":
        back, front = ("primary", "on_primary") if selected else ("line", "text")
        canvas.box(left, top + 4, right, bottom - 4, brush.colour(back), dp(24))
        canvas.icon(icon, left + dp(16), (top + bottom) / 2 - dp(12), dp(24), brush.colour(front))
        shown = fit(text, size + 3, right - left - dp(60), True)
        y = (top + bottom) / 2 - size * 0.62
        canvas.text(shown, left + dp(50), y, size + 3, brush.colour(front), True)
    elif kind == "day":
        y = (top + bottom) // 2
        if selected:
            canvas.disc(middle, y, dp(18), brush.colour("primary"))
        elif marked:
            canvas.disc(middle, y, dp(18), brush.colour("container"))
        front = "on_primary" if selected else colour or "text"
        brush.middle(text, left, right, y, size + 3, brush.colour(front), selected or marked)
        for n in range(min(dots, 3)):
            x = middle + dp(7) * n - dp(7) * (min(dots, 3) - 1) / 2
            canvas.disc(x, bottom - dp(2), dp(2), brush.colour("primary"))
    else:
        canvas.box(left + 6, top + 4, right - 6, bottom - 4, brush.colour("card"), dp(30))
        if icon:
            canvas.icon(icon, middle - dp(13), (top + bottom) / 2 - dp(13), dp(26), brush.colour("text"))
        brush.middle(text, left, right, (top + bottom) // 2, 60, brush.colour("text"))


PAINTERS: Final[dict[str, Callable[..., None]]] = {
    "avatar": _avatar,
    "bar": _bar,
    "bubble": _bubble,
    "button": _button,
    "card": _card,
    "checkbox": _checkbox,
    "chip": _chip,
    "disc": _disc,
    "fab": _fab,
    "field": _field,
    "icon": _icon,
    "key": _key,
    "key_icon": _key_icon,
    "keyboard": _keyboard,
    "line": _line,
    "link": _link,
    "link_dark": _link_dark,
    "panel": _panel,
    "picker": _picker,
    "picture": paint_picture,
    "radio": _radio,
    "round": _round,
    "screen": _screen,
    "selection": _selection,
    "slider": _slider,
    "snackbar": _snackbar,
    "switch": _switch,
    "tab": _tab,
    "text": _text,
    "tile": _tile,
}
