"""The screen as text: numbered lines of elements, in one of three formats, or none.

    compact   0 field "Search contacts": ""          short lines, each row of a list as one element
    m3a       UI element 0: {"index": 0, "text": ...}          the format of AndroidWorld's agent M3A
    t3a       UI element 0: UIElement(text=..., ...)           the format of AndroidWorld's agent T3A
    none                                             for agents that see the picture; marks number elements as compact

A format also decides which elements are listed and how an agent may act on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.envs.android.elements import ScreenElement, folded, leaves
from turncredit.envs.android.tasks.expert import Writer, as_read, by_leaves
from turncredit.envs.points import PointScale
from turncredit.phone.screen.box import TextRow
from turncredit.phone.screen.frames import KEPT
from turncredit.tools.android.node import Node

__all__ = ["FORMATS", "Format", "ScreenView", "admissible", "admissible_at", "compact", "scrolls", "view_of"]

_STATES: Final = {"switch": ("off", "on"), "checkbox": ("not checked", "checked"), "radio": ("not chosen", "chosen")}


def compact(elements: Sequence[ScreenElement], scrolls: bool) -> str:
    """Return one short line for each element: number, kind, texts in quotes, marks; and whether there is more."""
    lines = list(map(_compact_line, elements))
    return "\n".join([*lines, "(scrolls)"] if scrolls else lines)


def _compact_line(element: ScreenElement) -> str:
    kind, node = element.kind, element.node
    if kind == "text":
        words = _quoted(element.texts)
    elif kind in ("field", "slider", "choice"):
        words = f"{kind} {_quote(node.description)}: {_quote(node.text)}"
        if node.focused:
            words += " focused"
    else:
        words = f"{kind} {_quoted(element.texts)}" if element.texts else kind
    if element.checkable:
        words += f" {_STATES.get(kind, _STATES['checkbox'])[element.checked]}"
    if element.selected:
        words += " selected"
    return f"{element.index} {words}" if node.enabled else f"{element.index} {words} disabled"


def _quoted(texts: tuple[str, ...]) -> str:
    together = "".join(texts)
    if together.isprintable() and '"' not in together and "\\" not in together:  # which quotes would need no escapes in
        return '"' + '" "'.join(texts) + '"' if texts else ""
    return " ".join(map(_quote, texts))


def _quote(text: str) -> str:
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else json.dumps(text, ensure_ascii=False)


def m3a(elements: Sequence[ScreenElement], scrolls: bool) -> str:
    """Return the lines of AndroidWorld's agent M3A."""
    return "\n".join(map(_m3a_line, elements))


def _m3a_line(element: ScreenElement) -> str:
    node = element.node
    parts = [f'"index": {element.index}']
    parts += [f'"text": {_quote(node.text)}', f'"content_description": {_quote(node.description)}']
    parts += ['"hint_text": ""', '"tooltip": ""']
    parts += [f'"is_clickable": {node.clickable}', f'"is_long_clickable": {node.long_clickable}']
    parts += [f'"is_editable": {node.editable}']
    parts += ['"is_scrollable": True'] if node.scrollable else []
    parts += ['"is_focusable": True'] if node.focusable else []
    parts += [f'"is_selected": {node.selected}', f'"is_checked": {node.checked}']
    return f"UI element {element.index}: {{{', '.join(parts)}}}"


def t3a(elements: Sequence[ScreenElement], scrolls: bool) -> str:
    """Return the lines of AndroidWorld's agent T3A."""
    return "\n".join(map(_t3a_line, elements))


def _t3a_line(element: ScreenElement) -> str:
    node = element.node
    left, top, right, bottom = node.bounds
    fields = {
        "text": node.text or None,
        "content_description": node.description or None,
        "class_name": node.class_name,
        "bbox": None,
        "bbox_pixels": _Box(left, right, top, bottom),
        "hint_text": None,
        "is_checked": node.checked,
        "is_checkable": node.checkable,
        "is_clickable": node.clickable,
        "is_editable": node.editable,
        "is_enabled": node.enabled,
        "is_focused": node.focused,
        "is_focusable": node.focusable,
        "is_long_clickable": node.long_clickable,
        "is_scrollable": node.scrollable,
        "is_selected": node.selected,
        "is_visible": True,
        "package_name": node.package,
        "resource_name": node.resource_id or None,
    }
    words = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return f"UI element {element.index}: UIElement({words})"


@dataclass(frozen=True, slots=True)
class _Box:
    x_min: int
    x_max: int
    y_min: int
    y_max: int

    def __repr__(self) -> str:
        return f"BoundingBox(x_min={self.x_min}, x_max={self.x_max}, y_min={self.y_min}, y_max={self.y_max})"


@dataclass(frozen=True, slots=True)
class Format:
    """How a screen is listed (`elements`) and written (`text`), and how the expert writes its actions for it."""

    name: str
    elements: Callable[[Node, tuple[int, int]], list[ScreenElement]]
    text: Callable[[Sequence[ScreenElement], bool], str]
    expert: Writer


FORMATS: Final = {
    "compact": Format("compact", folded, compact, as_read),
    "m3a": Format("m3a", leaves, m3a, by_leaves),
    "t3a": Format("t3a", leaves, t3a, by_leaves),
    "none": Format("none", folded, lambda elements, scrolls: "", as_read),
}


def scrolls(root: Node) -> bool:
    """Return whether a part of a screen can be scrolled."""
    waiting = [root]
    for node in waiting:
        if node.scrollable:
            return True
        if not isinstance(node, TextRow):  # which never scrolls, and makes its boxes when they are asked for
            waiting += node.children  # which the loop comes to in its turn
    return False


def admissible(
    elements: Sequence[ScreenElement],
    scrollable: bool,
    apps: Sequence[str],
    target: Callable[[ScreenElement], str] = lambda element: str(element.index),
) -> list[str]:
    """Return the actions of the short grammar that a screen allows, without those that take a text of the agent's own.

    Args:
        elements: the screen.
        scrollable: whether a part of it can be scrolled.
        apps: names of the apps that can be opened.
        target: how an element is named.
    """
    # A leaf has no row around it here, so it may be what a touch of its row reaches.
    actions = [f"tap {target(e)}" for e in elements if e.kind != "text" and e.node.enabled]
    actions += [f"long press {target(e)}" for e in elements if e.node.long_clickable]
    if scrollable:
        actions += ["scroll down", "scroll up"]
    return [*actions, *_always(tuple(apps))]


@lru_cache(maxsize=16)
def _always(apps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the actions that every screen allows."""
    return ("back", "home", *(f"open {app}" for app in apps), "wait", "done", "infeasible")


def admissible_at(
    elements: Sequence[ScreenElement],
    scrollable: bool,
    apps: Sequence[str],
    scale: PointScale | None,
    size: tuple[int, int],
) -> list[str]:
    """Return the same with points on a scale in place of the numbers of elements, if there is one, each action once."""
    if scale is None:
        return admissible(elements, scrollable, apps)

    def point(element: ScreenElement) -> str:
        return "{} {}".format(*scale.write(*element.center, size))

    return list(dict.fromkeys(admissible(elements, scrollable, apps, point)))


class ScreenView(NamedTuple):
    """The screen as the agent sees it."""

    elements: list[ScreenElement]
    text: str
    admissible: list[str]


@lru_cache(maxsize=KEPT)
def view_of(
    root: Node, size: tuple[int, int], format: str, apps: tuple[str, ...], scale: PointScale | None = None
) -> ScreenView:
    """Return a screen of this width and height; one that a phone shows again is read once.

    Args:
        root: the screen.
        size: its width and height.
        format: name of a format.
        apps: names of the apps that can be opened.
        scale: of the points that stand for elements in the admissible actions; None: their numbers stand there.
    """
    reader = FORMATS[format]
    elements, more = reader.elements(root, size), scrolls(root)
    return ScreenView(elements, reader.text(elements, more), admissible_at(elements, more, apps, scale, size))
