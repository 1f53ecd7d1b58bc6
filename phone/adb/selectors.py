"""Selectors of uiautomator: which elements of a screen a client means, and what it is told of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from turncredit.tools.android.node import Node

__all__ = ["NotFound", "Selector", "child", "describe", "find_all", "find_one"]

JsonObject = dict[str, Any]
Selector = JsonObject | str
"""What a client means by an element: a dict, or the name of a child that it was given before (see `child`)."""


class NotFound(LookupError):
    """No element of the screen matches."""


_TEXTS: Final[dict[str, Callable[[Node], str]]] = {
    "text": lambda node: node.text,
    "description": lambda node: node.description,
    "className": lambda node: node.class_name,
    "packageName": lambda node: node.package,
    "resourceId": lambda node: node.resource_id,
}
_FLAGS: Final = {
    **{name: name for name in ("checkable", "checked", "clickable", "enabled", "focusable", "focused", "scrollable")},
    **{"selected": "selected", "longClickable": "long_clickable"},
}


def find_all(root: Node, selector: Selector) -> list[Node]:
    """Return the elements that a selector matches, in the order of the screen.

    Raises:
        ValueError: the selector is a name that `child` has not made.
    """
    if isinstance(selector, str):
        selector = json.loads(selector)
        if not isinstance(selector, dict):
            raise ValueError("a selector is an object, or the name of one")
    matches = [node for node in root.walk() if _matches(node, selector)]
    if "index" in selector:
        matches = [node for node in matches if _index(root, node) == selector["index"]]
    relations = zip(selector.get("childOrSibling", []), selector.get("childOrSiblingSelector", []), strict=True)
    matches = _instance(matches, selector)
    for relation, inner in relations:
        if relation == "child":
            nearby = [below for node in matches for below in node.walk() if below is not node]
        else:
            nearby = [other for node in matches for other in _siblings(root, node) if other is not node]
        matches = _instance([node for node in dict.fromkeys(nearby) if _matches(node, inner)], inner)
    return matches


def _instance(matches: list[Node], selector: JsonObject) -> list[Node]:
    at = selector.get("instance")
    return matches if at is None else matches[int(at) : int(at) + 1]


def _siblings(root: Node, node: Node) -> Sequence[Node]:
    return next((parent.children for parent in root.walk() if any(child is node for child in parent.children)), [])


def _index(root: Node, node: Node) -> int:
    return next((at for at, other in enumerate(_siblings(root, node)) if other is node), 0)


def child(selector: Selector, pattern: JsonObject, at: int | None = None) -> str:
    """Return a name for the element at a place among those below an element that match a pattern; None: for all.

    The name is the selector of that element, in JSON: like the elements of uiautomator, it means what is at that place
    when it is used.
    """
    outer = json.loads(selector) if isinstance(selector, str) else dict(selector)
    relations, inner = list(outer.get("childOrSibling", [])), list(outer.get("childOrSiblingSelector", []))
    if inner:
        inner[-1] = {"instance": 0, **inner[-1]}
    else:
        outer = {"instance": 0, **outer}
    relations, inner = [*relations, "child"], [*inner, {**pattern, **({} if at is None else {"instance": at})}]
    return json.dumps({**outer, "childOrSibling": relations, "childOrSiblingSelector": inner})


def find_one(root: Node, selector: Selector) -> Node:
    """Return the first element that a selector matches.

    Raises:
        NotFound: there is none.
    """
    matches = find_all(root, selector)
    if not matches:
        raise NotFound(f"no element matches {selector}")
    return matches[0]


def _matches(node: Node, selector: JsonObject) -> bool:
    for name, value in selector.items():
        if name in _FLAGS:
            if getattr(node, _FLAGS[name]) != bool(value):
                return False
            continue
        for field, get in _TEXTS.items():
            if name.startswith(field) and not _text_matches(get(node), name.removeprefix(field), str(value)):
                return False
    return True


def _text_matches(text: str, how: str, expected: str) -> bool:
    if how == "Contains":
        return expected.casefold() in text.casefold()
    if how == "StartsWith":
        return text.casefold().startswith(expected.casefold())
    if how == "Matches":
        try:
            return re.fullmatch(expected[:500], text, re.DOTALL) is not None
        except re.error as error:
            raise ValueError(f"bad pattern {expected!r}: {error}") from None
    return how != "" or text == expected


def describe(node: Node) -> JsonObject:
    """Return what clients call the info of an element."""
    bounds = dict(zip(("left", "top", "right", "bottom"), node.bounds, strict=True))
    return {
        "bounds": bounds,
        "childCount": len(node.children),
        "className": node.class_name,
        "contentDescription": node.description or None,
        "packageName": node.package,
        "resourceName": node.resource_id or None,
        "text": node.text,
        "visibleBounds": bounds,
        **{name: getattr(node, field) for name, field in _FLAGS.items()},
    }
