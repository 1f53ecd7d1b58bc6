"""The accessibility tree of a screen, and its XML as `uiautomator dump` writes it.

Not included: drawing order, display ids and other attributes that newer versions of uiautomator add; they are skipped
when read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

__all__ = ["BadDump", "Node", "parse_xml", "write_xml"]


class BadDump(ValueError):
    """The text is not a dump of uiautomator."""


@dataclass(slots=True, eq=False)
class Node:
    """One element of a screen. Bounds are in pixels: left and top inclusive, right and bottom exclusive.

    Not frozen, since a phone builds thousands of them a second; nobody changes one after it is built.
    """

    class_name: str = "android.view.View"
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0
    text: str = ""
    description: str = ""
    resource_id: str = ""
    package: str = ""
    checkable: bool = False
    checked: bool = False
    clickable: bool = False
    enabled: bool = True
    focusable: bool = False
    focused: bool = False
    scrollable: bool = False
    long_clickable: bool = False
    password: bool = False
    selected: bool = False
    children: Sequence[Node] = ()

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom."""
        return self.left, self.top, self.right, self.bottom

    @property
    def center(self) -> tuple[int, int]:
        """The pixel in the middle."""
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2

    @property
    def editable(self) -> bool:
        """Whether text can be typed into it."""
        return self.class_name == "android.widget.EditText"

    def contains(self, x: int, y: int) -> bool:
        """Return whether the pixel is inside the bounds."""
        return self.left <= x < self.right and self.top <= y < self.bottom

    def walk(self) -> Iterator[Node]:
        """Return this node and all below it, parents before children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            if node.children:
                waiting.extend(reversed(node.children))

    def find(self, text: str) -> Node | None:
        """Return the first node with this text or description, or None."""
        return next((node for node in self.walk() if text in (node.text, node.description)), None)


_FLAGS: Final = (
    "checkable",
    "checked",
    "clickable",
    "enabled",
    "focusable",
    "focused",
    "scrollable",
    "long_clickable",
    "password",
    "selected",
)
_NAMES: Final = {flag: flag.replace("_", "-") for flag in _FLAGS}
_BOUNDS: Final = re.compile(r"\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]")
_QUOTES: Final = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
_FORBIDDEN: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_xml(root: Node, rotation: int = 0) -> str:
    """Return the tree in the XML of `uiautomator dump`; characters that XML cannot hold become '.'.

    Args:
        root: the root of the active window.
        rotation: quarter turns of the screen, 0 to 3.
    """
    parts = [f"<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"{rotation}\">"]
    _write(root, 0, parts)
    parts.append("</hierarchy>")
    return "".join(parts)


def _write(node: Node, index: int, parts: list[str]) -> None:
    flags = " ".join(f'{_NAMES[flag]}="{str(getattr(node, flag)).lower()}"' for flag in _FLAGS)
    parts.append(
        f'<node index="{index}" text={_quote(node.text)} resource-id={_quote(node.resource_id)} '
        f'class="{node.class_name}" package="{node.package}" content-desc={_quote(node.description)} {flags} '
        f'bounds="[{node.left},{node.top}][{node.right},{node.bottom}]"'
    )
    if not node.children:
        parts.append(" />")
        return
    parts.append(">")
    for position, child in enumerate(node.children):
        _write(child, position, parts)
    parts.append("</node>")


def _quote(text: str) -> str:
    if text.isalnum():
        return f'"{text}"'
    quoted = quoteattr(_FORBIDDEN.sub(".", text), _QUOTES)
    return quoted if quoted[0] == '"' else f'"{quoted[1:-1]}"'


def parse_xml(text: str) -> tuple[Node, int]:
    """Return the root of a dump and the rotation of the screen in quarter turns.

    A dump with several windows gets its own root around them. What follows the XML, such as the line that
    uiautomator prints, is ignored.

    Raises:
        BadDump: the text is not such XML.
    """
    start, end = text.find("<hierarchy"), text.rfind("</hierarchy>")
    if start < 0 or end < 0:
        raise BadDump(f"expected the XML of uiautomator with a <hierarchy>, got {text[:80]!r}")
    try:
        hierarchy = ElementTree.fromstring(text[start : end + len("</hierarchy>")])
        roots = [_read(element) for element in hierarchy if element.tag == "node"]
        rotation = int(hierarchy.get("rotation", "0"))
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise BadDump(f"expected the XML of uiautomator, got one that cannot be read: {error}") from None
    if not roots:
        raise BadDump("the dump has no nodes: the screen was changing, or the window shows nothing")
    return (roots[0] if len(roots) == 1 else _wrap(roots)), rotation


def _read(element: ElementTree.Element) -> Node:
    match = _BOUNDS.fullmatch(element.get("bounds", ""))
    if not match:
        raise ValueError(f"bounds must look like [0,0][10,10], got {element.get('bounds')!r}")
    left, top, right, bottom = map(int, match.groups())
    flags = {flag: element.get(name) == "true" for flag, name in _NAMES.items()}
    return Node(
        element.get("class", ""),
        left,
        top,
        right,
        bottom,
        element.get("text", ""),
        element.get("content-desc", ""),
        element.get("resource-id", ""),
        element.get("package", ""),
        children=[_read(child) for child in element if child.tag == "node"],
        **flags,
    )


def _wrap(roots: list[Node]) -> Node:
    right, bottom = max(root.right for root in roots), max(root.bottom for root in roots)
    return Node("android.widget.FrameLayout", 0, 0, right, bottom, children=roots)
