"""What an agent sees of a page: the accessibility tree as text, with references to the elements it can act on.

    [e1] link "Back"
    heading "Shoes, page 1"
     [e2] textbox "Query" = "red" (focused)
     [e3] button "Search" (disabled)

Each element is one line, indented by one space inside another. Text in quotes comes from the page, everything else from
us, so a page cannot present its own text as an element. Elements without content are omitted.

References number the elements in page order, from e1. They depend only on the current content: the same page has the
same references however it was reached, which makes turns comparable. When an element appears or disappears, the
references after it shift.

The text says nothing of positions and appearance, which `Tab.screenshot` shows; an `Element` knows its box.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from turncredit.tools.browser.snapshot import FIELDS, Rectangle, SnapshotNode
from turncredit.tools.visible_text import shortened

__all__ = ["Element", "PageView", "boxes_of", "build_view"]

Facts: TypeAlias = Mapping[str, Any]
"""What the page says about an element beyond its snapshot; JSON values."""
_CONTROLS: Final = frozenset(
    (
        *("button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "listbox", "option", "switch"),
        *("menuitem", "menuitemcheckbox", "menuitemradio", "tab", "slider", "spinbutton", "treeitem", "gridcell"),
    )
)
_SILENT: Final = frozenset(
    (
        *("generic", "none", "presentation", "paragraph", "group", "rowgroup", "text", "strong", "emphasis"),
        *("document", "main", "article", "region", "banner", "contentinfo", "complementary", "search", "form", "list"),
    )
)
_LABELLED: Final = FIELDS | {"radio", "checkbox", "switch"}  # controls whose name is shown next to them, not inside
_STATES: Final = ("checked", "selected", "expanded", "pressed", "disabled", "invalid")
_LONGEST: Final = 2000


@dataclass(frozen=True, slots=True)
class Element:
    """An element that an agent can act on.

    Args:
        ref: reference for the agent.
        target: Playwright's reference.
        role: accessibility role.
        name: accessible name.
        within: name of the nearest enclosing group that has one.
        value: content of a field.
        disabled: whether it is disabled.
        focused: whether it has the focus.
        writable: whether it accepts text.
        covered: why a click cannot reach it; "" if it can.
        options: names of the options of a drop-down list.
        scrolls: directions in which it can be scrolled.
        box: x, y, width and height, relative to the visible part of the page; None in a frame, or without a box.
    """

    ref: str
    target: str
    role: str
    name: str
    within: str = ""
    value: str = ""
    disabled: bool = False
    focused: bool = False
    writable: bool = False
    covered: str = ""
    options: tuple[str, ...] = ()
    scrolls: tuple[str, ...] = ()
    box: Rectangle | None = None

    @property
    def center(self) -> tuple[int, int] | None:
        """The pixel in the middle; None without a box."""
        if self.box is None:
            return None
        x, y, width, height = self.box
        return x + width // 2, y + height // 2

    @property
    def clickable(self) -> bool:
        """Whether a click can reach it."""
        return not self.disabled and not self.covered

    def __str__(self) -> str:
        """Return the reference, role and name, for messages."""
        return f"{self.ref} ({self.role}{f' {_quoted(self.name, 60)}' if self.name else ''})"


@dataclass(frozen=True, slots=True)
class PageView:
    """Content of a page at one moment.

    Args:
        url: address of the page.
        title: title of the page.
        lines: lines of the whole tree.
        elements: elements to act on, by reference.
        position: scroll position and its maximum, in pixels.
        can_go_back: whether there is a previous page.
        notes: events since the last view, such as a dialog.
    """

    url: str
    title: str
    lines: tuple[str, ...]
    elements: Mapping[str, Element] = field(repr=False)
    position: tuple[int, int] = (0, 0)
    can_go_back: bool = False
    notes: tuple[str, ...] = ()

    @property
    def scrolls(self) -> tuple[str, ...]:
        """Directions in which the page can be scrolled."""
        top, most = self.position
        return (*(("down",) if top < most else ()), *(("up",) if top > 0 else ()))

    def tree(self, budget: int | None = None) -> str:
        """Return the tree as text of at most about `budget` characters; a last line says how many lines are cut."""
        taken: list[str] = []
        used = 0
        for line in self.lines:
            used += len(line) + 1
            if budget is not None and used > budget:
                left = len(self.lines) - len(taken)
                return "\n".join([*taken, f"... {left} more lines of the page are not shown"])
            taken.append(line)
        return "\n".join(taken)

    def text(self, budget: int | None = 8000, *, address: bool = True) -> str:
        """Return the page as the agent reads it: title, address, scroll position, notes and tree.

        Args:
            budget: approximate limit on the characters of the tree; None: no limit.
            address: whether to include the address.
        """
        head = f"Page: {_quoted(self.title)}" + (f" at {self.url}" if address else "")
        top, most = self.position
        if most:
            head += f" (scrolled {top} of {most})"
        return "\n".join([head, *(f"Note: {note}" for note in self.notes), self.tree(budget)])

    def key(self, *, address: str | None = None) -> str:
        """Return a hash of everything that is shown except the notes: address, title, scroll position and tree.

        It does not include hidden state of the page (variables of scripts, cookies, the history). An environment must
        add that state to its own key where it affects what follows.

        Args:
            address: replaces the address if that changes from run to run (a port, a session id).
        """
        shown = [self.url if address is None else address, self.title, self.position, self.lines]
        return hashlib.blake2b(json.dumps(shown).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def actions(self) -> list[str]:
        """Return the possible actions, except for typing, keys and going back, which cannot be enumerated."""
        texts = []
        for element in self.elements.values():
            if element.options and not element.disabled:
                texts += [f"select[{element.ref}, {option}]" for option in _selectable(element.options)]
            elif element.clickable:
                texts.append(f"click[{element.ref}]")
            texts += [f"scroll[{element.ref}, {direction}]" for direction in element.scrolls]
        return [*texts, *(f"scroll[{direction}]" for direction in self.scrolls), "wait[]"]


def _selectable(options: Sequence[str]) -> Iterator[str]:
    """Yield the options that an action can name: no duplicates, empty names or surrounding spaces."""
    yield from dict.fromkeys(option for option in options if option and option == option.strip())


def boxes_of(nodes: Sequence[SnapshotNode]) -> list[Rectangle]:
    """Return the boxes of all nodes that have a reference, in page order."""
    boxes = []
    for node in nodes:
        if node.ref:
            # Boxes in a frame are relative to the frame, so the page cannot find their elements.
            boxes.append(node.box if node.box and not node.framed else _NOWHERE)
        boxes += boxes_of(node.children)
    return boxes


def build_view(
    nodes: Sequence[SnapshotNode], facts: Facts, *, all_elements: bool = False, notes: Sequence[str] = ()
) -> PageView:
    """Return the view of a page.

    Args:
        nodes: top-level nodes of its snapshot.
        facts: result of the script `FACTS` for `boxes_of(nodes)`.
        all_elements: give references to all elements that have text, not only to controls.
        notes: events since the last view.
    """
    writer = _TreeWriter(list(facts["boxes"]), all_elements)
    writer.write(nodes, 0, "")
    return PageView(
        url=str(facts["url"]),
        title=str(facts["title"]),
        lines=tuple(writer.lines),
        elements=writer.elements,
        position=(int(facts["top"]), int(facts["most"])),
        can_go_back=bool(facts["back"]),
        notes=tuple(notes),
    )


_NOWHERE: Final[Rectangle] = (0, 0, -1, -1)


class _TreeWriter:
    """Writes the lines of the tree and assigns references, in page order."""

    def __init__(self, facts: list[Any], all_elements: bool) -> None:
        self.lines: list[str] = []
        self.elements: dict[str, Element] = {}
        self._facts = iter(facts)
        self._all_elements = all_elements

    def write(self, nodes: Sequence[SnapshotNode], depth: int, within: str) -> None:
        label = ""  # name of the control just written, which may be repeated as text next to it
        for node in nodes:
            fact = next(self._facts) if node.ref else {}
            control = node.role in _CONTROLS or "cursor" in node.marks
            options = _options(node) if node.role == "combobox" else ()
            has_content = bool(node.text or node.name)
            if label and not control and self._repeats(node, label):
                label = ""
                continue
            label = node.name if node.role in _LABELLED else ""
            if not has_content and not control and (node.role in _SILENT or not (node.children or node.ref)):
                self.write(node.children, depth, within)
                continue
            ref = ""
            if node.ref and (control or self._all_elements):
                ref = f"e{len(self.elements) + 1}"
                self.elements[ref] = _element(ref, node, fact, options, within)
            self.lines.append(" " * depth + self._line(node, ref, fact, options))
            if not options:
                self.write(node.children, depth + 1, node.name or within)

    def _repeats(self, node: SnapshotNode, label: str) -> bool:
        """Return whether a node only repeats the name of the control before it."""
        plain = node.role in _SILENT and not node.children and not (self._all_elements and node.ref)
        return plain and _same(node.text, label) and _same(node.name, label)

    def _line(self, node: SnapshotNode, ref: str, fact: Facts, options: Sequence[str]) -> str:
        parts = [f"[{ref}]"] if ref else []
        if node.role not in _SILENT or (not node.text and not node.name):
            parts.append(node.role)
        if node.name:
            parts.append(_quoted(node.name))
        if node.role in FIELDS and node.text:
            parts.append(f"= {_quoted(node.text)}")
        elif not _same(node.text, node.name):
            parts.append(_quoted(node.text))
        if options:
            parts.append(f"= {_quoted(_chosen(node))} of {', '.join(map(_quoted, options))}")
        states = [_state(name, node.marks[name]) for name in _STATES if name in node.marks]
        if "active" in node.marks:
            states.append("focused")
        if ref and fact.get("over"):
            states.append("covered" if str(fact["over"]).startswith("covered") else "out of reach")
        if ref and fact.get("scroll"):
            states.append("scrolled {} of {}".format(*fact["scroll"]))
        return " ".join([*parts, *([f"({', '.join(states)})"] if states else [])])


def _element(ref: str, node: SnapshotNode, fact: Facts, options: tuple[str, ...], within: str) -> Element:
    field_in_frame = node.framed and node.role in FIELDS
    top, most = fact.get("scroll") or (0, 0)
    return Element(
        ref,
        node.ref,
        node.role,
        node.name or ("" if node.role in FIELDS else node.text),
        within=within,
        value=node.text if node.role in FIELDS else "",
        disabled="disabled" in node.marks,
        focused="active" in node.marks,
        writable=bool(fact.get("writable")) or field_in_frame,
        covered=str(fact.get("over") or ""),
        options=options,
        scrolls=(*(("down",) if top < most else ()), *(("up",) if top > 0 else ())),
        box=None if node.framed else node.box,
    )


def _options(node: SnapshotNode) -> tuple[str, ...]:
    """Return the options of a drop-down list, which are not on the page until it is opened."""
    options: list[str] = []
    for child in node.children:
        if child.ref:
            return ()
        options += [child.name] if child.role == "option" else _options(child)
    return tuple(options)


def _chosen(node: SnapshotNode) -> str:
    """Return the selected option of a drop-down list."""
    for child in node.children:
        name = child.name if child.role == "option" and "selected" in child.marks else _chosen(child)
        if name:
            return name
    return ""


def _same(text: str, name: str) -> bool:
    """Return whether a text is empty or equals a name, ignoring spaces."""
    return not text or "".join(text.split()) == "".join(name.split())


def _state(name: str, value: str) -> str:
    return name if value in ("", "true") else f"{name}={value}"


def _quoted(text: str, longest: int = _LONGEST) -> str:
    """Return a text in quotes on one line, truncated if it is long."""
    text = shortened(" ".join(text.split()), longest, keep=longest - 3)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
