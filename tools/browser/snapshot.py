"""Parse Playwright's snapshot of the accessibility tree.

The snapshot is a subset of YAML: one node per line, `- role "name" [ref=e3] [box=x,y,w,h] [checked]: text`, children
indented by two spaces, properties as `/name: value`. Any other line becomes a text node, since a page can contain
anything.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

__all__ = ["FIELDS", "Rectangle", "SnapshotNode", "read_snapshot"]

FIELDS: Final = frozenset(("textbox", "searchbox", "combobox", "spinbutton", "slider"))
"""Roles of elements with a value, which is the text of the node."""

Rectangle = tuple[int, int, int, int]
"""x, y, width, height in CSS pixels, relative to the viewport."""

_HEAD: Final = re.compile(
    r'(?P<role>/?[\w-]+)(?: (?P<name>"(?:[^"\\]|\\.)*"))?(?P<marks>(?: \[[^\]]*\])*)(?P<colon>:(?: (?P<text>.*))?)?',
    re.DOTALL,
)
_HEX: Final = re.compile(r"\\x([0-9a-fA-F]{2})")


@dataclass(slots=True)
class SnapshotNode:
    """One node.

    Attributes:
        role: accessibility role.
        name: accessible name.
        ref: Playwright's reference; "" if there is none.
        box: position; None if the element is not rendered.
        marks: other attributes, such as "checked".
        text: text content.
        children: child nodes.
        framed: whether the node is inside an iframe.
    """

    role: str
    name: str = ""
    ref: str = ""
    box: Rectangle | None = None
    marks: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[SnapshotNode] = field(default_factory=list)
    framed: bool = False


def read_snapshot(snapshot: str) -> list[SnapshotNode]:
    """Return the top-level nodes of a snapshot, with their children."""
    root = SnapshotNode("root")
    open_nodes: list[tuple[int, SnapshotNode]] = [(-1, root)]
    for line in snapshot.split("\n"):
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip(" "))
        while len(open_nodes) > 1 and open_nodes[-1][0] >= depth:
            open_nodes.pop()
        node = _node(line.strip().removeprefix("- "))
        parent = open_nodes[-1][1]
        if node.role.startswith("/"):
            parent.marks[node.role] = node.text
            continue
        if node.role == "text" and parent.role in FIELDS:
            parent.text = f"{parent.text} {node.text}".strip()  # the value of a field that also has a placeholder
            continue
        node.framed = parent.framed or parent.role == "iframe"
        parent.children.append(node)
        open_nodes.append((depth, node))
    return root.children


def _node(line: str) -> SnapshotNode:
    """Parse one line."""
    head, remainder = _unquoted(line)
    match = _HEAD.fullmatch(head + remainder)
    if match is None:
        return SnapshotNode("text", text=_scalar(head + remainder))
    node = SnapshotNode(match["role"], _scalar(match["name"] or ""), text=_scalar(match["text"] or ""))
    for mark in re.findall(r"\[([^\]]*)\]", match["marks"]):
        key, _, value = mark.partition("=")
        if key == "ref":
            node.ref = value
        elif key == "box":
            node.box = _box(value)
        else:
            node.marks[key] = value
    return node


def _box(value: str) -> Rectangle | None:
    parts = value.split(",")
    try:
        x, y, width, height = (round(float(part)) for part in parts)
    except ValueError:
        return None
    return x, y, width, height


def _unquoted(line: str) -> tuple[str, str]:
    """Return a key without YAML's single quotes, and the rest of the line."""
    if not line.startswith("'"):
        return line, ""
    match = re.match(r"'((?:[^']|'')*)'", line, re.DOTALL)
    return (match[1].replace("''", "'"), line[match.end() :]) if match else (line, "")


def _scalar(text: str) -> str:
    """Return a scalar without quotes."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            value = json.loads(_HEX.sub(r"\\u00\1", text), strict=False)
        except ValueError:
            return text[1:-1]
        return value if isinstance(value, str) else text
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text
