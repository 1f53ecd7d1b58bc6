"""The elements of a screen that an agent sees: a numbered list made from an accessibility tree.

`folded`: a row that can be tapped is one element with all texts in it, and what cannot be touched and says nothing is
left out. `leaves`: the elements that AndroidWorld lists (leaves, nodes with a description, nodes that scroll).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turncredit.phone.screen.box import TextRow
from turncredit.tools.android.node import Node

__all__ = ["ScreenElement", "find", "folded", "leaves", "normal"]

_KINDS: Final = {
    "Button": "button",
    "CheckBox": "checkbox",
    "EditText": "field",
    "ImageButton": "button",
    "ImageView": "image",
    "RadioButton": "radio",
    "SeekBar": "slider",
    "Spinner": "choice",
    "Switch": "switch",
}


@dataclass(slots=True, eq=False)
class ScreenElement:
    """One line of the list. `texts` are its own text and description, then those of what is folded into it."""

    index: int
    node: Node
    texts: tuple[str, ...]
    kind: str  # field, button, switch, checkbox, radio, slider, choice, image, item (can be touched) or text
    checkable: bool = False
    checked: bool = False
    selected: bool = False

    @property
    def center(self) -> tuple[int, int]:
        """The pixel to tap."""
        return self.node.center

    @property
    def value(self) -> str:
        """The text in a field, or what a slider or choice stands at."""
        return self.node.text

    @property
    def label(self) -> str:
        """The name of a field, slider or choice; else its texts."""
        if self.kind in ("field", "slider", "choice"):
            return self.node.description
        return ", ".join(self.texts)

    def says(self, text: str) -> bool:
        """Return whether one of its texts is this one; case and white space do not count."""
        target = normal(text)
        return any(normal(own) == target for own in self.texts)

    def mentions(self, text: str) -> bool:
        """Return whether this text occurs in one of its texts; case and white space do not count."""
        target = normal(text)
        return any(target in normal(own) for own in self.texts)


def normal(text: str) -> str:
    """Return a text casefolded, with single spaces.

    >>> normal("  Ana \\n BERG ")
    'ana berg'
    """
    return " ".join(text.casefold().split())


def folded(root: Node, size: tuple[int, int]) -> list[ScreenElement]:
    """Return the elements of a screen of this width and height, each row as one."""
    elements: list[ScreenElement] = []
    _fold(root, False, size, elements)
    return elements


def _fold(node: Node, inside: bool, size: tuple[int, int], elements: list[ScreenElement]) -> None:
    """Add the elements of a node; `inside`: it is in something that can be touched."""
    touchable, row = node.clickable or node.long_clickable, node if isinstance(node, TextRow) and node.closed else None
    children = node.children if row is None else row.buttons
    speaks = touchable or (not inside and (node.text or node.description or node.checkable))
    if speaks and _visible(node, size):
        texts = _own(node) if row is None else row.texts
        checkable, checked, selected = node.checkable, node.checked, node.selected
        if touchable and children and row is None:
            state = [checkable, checked, selected]
            _gather(node, texts, state)
            checkable, checked, selected = state
        kind, unique = _kind(node, checkable), tuple(dict.fromkeys(texts) if len(texts) > 1 else texts)
        elements.append(ScreenElement(len(elements), node, unique, kind, checkable, checked, selected))
    if children:
        inside = inside or touchable
        for child in children:
            _fold(child, inside, size, elements)


def _own(node: Node) -> list[str]:
    if node.text:
        return [node.text, node.description] if node.description else [node.text]
    return [node.description] if node.description else []


def _visible(node: Node, size: tuple[int, int]) -> bool:
    width, height = size
    left, right, top, bottom = node.left, node.right, node.top, node.bottom
    return left < right and left < width and right > 0 and top < bottom and top < height and bottom > 0


def _gather(node: Node, texts: list[str], state: list[bool]) -> None:
    """Add the texts and marks of what is in a node and cannot be touched on its own."""
    for child in node.children:
        if child.clickable or child.long_clickable:
            continue
        if child.checkable:
            state[0], state[1] = True, child.checked
        if child.selected:
            state[2] = True
        if child.text:
            texts.append(child.text)
        if child.description:
            texts.append(child.description)
        if child.children:
            _gather(child, texts, state)


@lru_cache(maxsize=256)
def _kind_of(class_name: str) -> str | None:
    return _KINDS.get(class_name.rpartition(".")[2])


def _kind(node: Node, checkable: bool) -> str:
    kind = _kind_of(node.class_name)
    if kind is None and checkable:
        inner = next((child for child in node.walk() if child.checkable), node)
        kind = _kind_of(inner.class_name) or "checkbox"
    if kind == "image" and (node.clickable or node.long_clickable):
        return "button"
    return kind or ("item" if node.clickable or node.long_clickable else "text")


def leaves(root: Node, size: tuple[int, int]) -> list[ScreenElement]:
    """Return the elements that AndroidWorld lists: leaves, nodes with a description, and nodes that scroll."""
    nodes = [node for node in root.walk() if not node.children or node.description or node.scrollable]
    visible = [node for node in nodes if _visible(node, size)]
    return [
        ScreenElement(
            i, node, tuple(_own(node)), _kind(node, node.checkable), node.checkable, node.checked, node.selected
        )
        for i, node in enumerate(visible)
    ]


def find(elements: Sequence[ScreenElement], text: str) -> ScreenElement | None:
    """Return the first element with a text, one that can be touched before one that cannot; or None."""
    matches = [element for element in elements if element.says(text)]
    return next((element for element in matches if element.kind != "text"), matches[0] if matches else None)
