"""Playwright's snapshot of the accessibility tree, read into nodes.

The snapshot is YAML of a narrow kind: one node a line, "- role "name" [ref=e3] [box=x,y,w,h] [checked]: text", children
two spaces deeper, properties as "/name: value". Only that kind is read; a line of any other kind becomes text, since a
page can hold anything and an agent has to be shown something.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

__all__ = ["FIELDS", "Box", "Node", "read_snapshot"]

FIELDS: Final = frozenset(("textbox", "searchbox", "combobox", "spinbutton", "slider"))
"""Roles of elements that hold a value; its text is that value."""

Box = tuple[int, int, int, int]
"""x, y, width, height in CSS pixels, from the corner of what is seen."""

_HEAD: Final = re.compile(
    r'(?P<role>/?[\w-]+)(?: (?P<name>"(?:[^"\\]|\\.)*"))?(?P<marks>(?: \[[^\]]*\])*)(?P<colon>:(?: (?P<text>.*))?)?',
    re.DOTALL,
)
_HEX: Final = re.compile(r"\\x([0-9a-fA-F]{2})")


@dataclass(slots=True)
class Node:
    """One node.

    Attributes:
        role, name, text: what it is, is called and says.
        ref: Playwright's reference; "" where it gives none.
        box: where it is; None where it is nowhere.
        marks: its other marks such as "checked".
        children: what is in it.
        framed: whether it belongs to a page in a frame of the page.
    """

    role: str
    name: str = ""
    ref: str = ""
    box: Box | None = None
    marks: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Node] = field(default_factory=list)
    framed: bool = False


def read_snapshot(snapshot: str) -> list[Node]:
    """Return the nodes at the top of a snapshot, with their children."""
    root = Node("root")
    open_nodes: list[tuple[int, Node]] = [(-1, root)]
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
            parent.text = f"{parent.text} {node.text}".strip()  # what stands in it; it has a placeholder as well
            continue
        node.framed = parent.framed or parent.role == "iframe"
        parent.children.append(node)
        open_nodes.append((depth, node))
    return root.children


def _node(line: str) -> Node:
    """Return the node of one line."""
    head, rest = _unquoted(line)
    match = _HEAD.fullmatch(head + rest)
    if match is None:
        return Node("text", text=_scalar(head + rest))
    node = Node(match["role"], _scalar(match["name"] or ""), text=_scalar(match["text"] or ""))
    for mark in re.findall(r"\[([^\]]*)\]", match["marks"]):
        key, _, value = mark.partition("=")
        if key == "ref":
            node.ref = value
        elif key == "box":
            node.box = _box(value)
        else:
            node.marks[key] = value
    return node


def _box(value: str) -> Box | None:
    parts = value.split(",")
    try:
        x, y, width, height = (round(float(part)) for part in parts)
    except ValueError:
        return None
    return x, y, width, height


def _unquoted(line: str) -> tuple[str, str]:
    """Return a key without the single quotes of YAML, and what follows it."""
    if not line.startswith("'"):
        return line, ""
    match = re.match(r"'((?:[^']|'')*)'", line, re.DOTALL)
    return (match[1].replace("''", "'"), line[match.end() :]) if match else (line, "")


def _scalar(text: str) -> str:
    """Return a scalar without its quotes."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            value = json.loads(_HEX.sub(r"\\u00\1", text), strict=False)
        except ValueError:
            return text[1:-1]
        return value if isinstance(value, str) else text
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text
