"""What an agent sees of a page: the accessibility tree as text, with references to what can be acted on.

    [e1] link "Back"
    heading "Shoes, page 1"
     [e2] textbox "Query" = "red" (focused)
     [e3] button "Search" (disabled)

One line an element, one space deeper inside another. What stands in quotes is the page's, all else is ours, so that a
page cannot pass its own words off as an element. Elements that say nothing are left out.

References number the elements in the order of the page, from e1. So they depend on what is shown now and on nothing
that was there before: they stay while the elements do, and the same page reached in two ways has the same ones, which
is what makes turns comparable. Where an element appears or goes, those behind it move up or down.

Left out on purpose: where things are and how they look; `Tab.screenshot` shows that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turnwise.tools.browser.snapshot import FIELDS, Box, Node

__all__ = ["Element", "View", "boxes_of", "build"]

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
_LABELLED: Final = FIELDS | {"radio", "checkbox", "switch"}
"""Controls whose name stands beside them, and not in them."""
_STATES: Final = ("checked", "selected", "expanded", "pressed", "disabled", "invalid")
_LONGEST: Final = 2000


@dataclass(frozen=True, slots=True)
class Element:
    """Something to act on: `target` is Playwright's reference, `options` the names in a list to select from.

    `within` is the name of the nearest group around it that has one. `covered` says why no click reaches it ("" when
    one does), `scrolls` says in which directions it can be scrolled, `writable` whether it takes text, `value` what
    stands in it.
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

    @property
    def clickable(self) -> bool:
        """Whether a click reaches it."""
        return not self.disabled and not self.covered

    def __str__(self) -> str:
        """Name it for an explanation."""
        return f"{self.ref} ({self.role}{f' {_quoted(self.name, 60)}' if self.name else ''})"


@dataclass(frozen=True, slots=True)
class View:
    """A page as it was at one moment.

    url, title: of the page. lines: the tree, whole. elements: what can be acted on, by reference. position: pixels that
    the page is scrolled by, and the most that it can be. can_go_back: whether there is a page before. notes: what
    happened meanwhile (a dialog, a page that could not be opened).
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
        """The directions in which the page can be scrolled."""
        top, most = self.position
        return (*(("down",) if top < most else ()), *(("up",) if top > 0 else ()))

    def tree(self, budget: int | None = None) -> str:
        """Return the tree as text of at most about `budget` characters; a note says what was cut."""
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
        """Return the page as an agent reads it: title, address, scroll position, notes, and the tree.

        Args:
            budget: most characters of the tree, about; None: all.
            address: with the address.
        """
        head = f"Page: {_quoted(self.title)}" + (f" at {self.url}" if address else "")
        top, most = self.position
        if most:
            head += f" (scrolled {top} of {most})"
        return "\n".join([head, *(f"Note: {note}" for note in self.notes), self.tree(budget)])

    def key(self, *, address: str | None = None) -> str:
        """Return a digest of all that is shown: address, title, scroll position and the whole tree, but no notes.

        What a page keeps to itself (variables of its scripts, cookies, the pages before) is not in it: where that
        decides what follows, an environment adds it.

        Args:
            address: stands for the address, where that holds what changes from run to run (a port, a session).
        """
        shown = [self.url if address is None else address, self.title, self.position, self.lines]
        return hashlib.blake2b(json.dumps(shown).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def actions(self) -> list[str]:
        """Return the actions that can be done now, but for typing, keys and going back, which have no list."""
        found = []
        for element in self.elements.values():
            if element.options and not element.disabled:
                found += [f"select[{element.ref}, {option}]" for option in _selectable(element.options)]
            elif element.clickable:
                found.append(f"click[{element.ref}]")
            found += [f"scroll[{element.ref}, {direction}]" for direction in element.scrolls]
        return [*found, *(f"scroll[{direction}]" for direction in self.scrolls), "wait[]"]


def _selectable(options: Sequence[str]) -> Iterator[str]:
    """Yield the names of options that an action can name: without doubles, blanks at the ends and empty ones."""
    yield from dict.fromkeys(option for option in options if option and option == option.strip())


def boxes_of(nodes: Sequence[Node]) -> list[Box]:
    """Return the boxes of all nodes that have a reference, in their order."""
    found = []
    for node in nodes:
        if node.ref:
            # Boxes inside a frame count from its corner: the page cannot tell what they belong to.
            found.append(node.box if node.box and not node.framed else _NOWHERE)
        found += boxes_of(node.children)
    return found


def build(nodes: Sequence[Node], facts: Mapping[str, Any], *, every: bool = False, notes: Sequence[str] = ()) -> View:
    """Return the view of a page.

    Args:
        nodes: the top of its snapshot.
        facts: what `FACTS` (see `tab`) said of the page and of the boxes of `boxes_of(nodes)`.
        every: give a reference to every element that says something, and not only to those meant to be acted on.
        notes: what happened meanwhile.
    """
    writer = _Writer(list(facts["boxes"]), every)
    writer.write(nodes, 0, "")
    return View(
        url=str(facts["url"]),
        title=str(facts["title"]),
        lines=tuple(writer.lines),
        elements=writer.elements,
        position=(int(facts["top"]), int(facts["most"])),
        can_go_back=bool(facts["back"]),
        notes=tuple(notes),
    )


_NOWHERE: Final[Box] = (0, 0, -1, -1)


class _Writer:
    """Writes lines and gives out references, in the order of the page."""

    def __init__(self, facts: list[Any], every: bool) -> None:
        self.lines: list[str] = []
        self.elements: dict[str, Element] = {}
        self._facts = iter(facts)
        self._every = every

    def write(self, nodes: Sequence[Node], depth: int, within: str) -> None:
        said = ""
        for node in nodes:
            fact = next(self._facts) if node.ref else {}
            control = node.role in _CONTROLS or "cursor" in node.marks
            options = _options(node) if node.role == "combobox" else ()
            says = bool(node.text or node.name)
            if said and not control and self._repeats(node, said):
                said = ""
                continue
            said = node.name if node.role in _LABELLED else ""
            if not says and not control and (node.role in _SILENT or not (node.children or node.ref)):
                self.write(node.children, depth, within)
                continue
            ref = ""
            if node.ref and (control or self._every):
                ref = f"e{len(self.elements) + 1}"
                self.elements[ref] = _element(ref, node, fact, options, within)
            self.lines.append(" " * depth + self._line(node, ref, fact, options))
            if not options:
                self.write(node.children, depth + 1, node.name or within)

    def _repeats(self, node: Node, said: str) -> bool:
        """Return whether a node is the label beside a control that is named by it, and nothing else."""
        label = node.role in _SILENT and not node.children and not (self._every and node.ref)
        return label and _same(node.text, said) and _same(node.name, said)

    def _line(self, node: Node, ref: str, fact: Mapping[str, Any], options: Sequence[str]) -> str:
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


def _element(ref: str, node: Node, fact: Mapping[str, Any], options: tuple[str, ...], within: str) -> Element:
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
    )


def _options(node: Node) -> tuple[str, ...]:
    """Return the names in a drop-down list, whose options are not on the page until it is opened."""
    found: list[str] = []
    for child in node.children:
        if child.ref:
            return ()
        found += [child.name] if child.role == "option" else _options(child)
    return tuple(found)


def _chosen(node: Node) -> str:
    """Return the name of the option that a drop-down list shows."""
    for child in node.children:
        name = child.name if child.role == "option" and "selected" in child.marks else _chosen(child)
        if name:
            return name
    return ""


def _same(text: str, name: str) -> bool:
    """Return whether a text says no more than a name, but for spaces; the empty text says nothing."""
    return not text or "".join(text.split()) == "".join(name.split())


def _state(name: str, value: str) -> str:
    return name if value in ("", "true") else f"{name}={value}"


def _quoted(text: str, longest: int = _LONGEST) -> str:
    """Return a text in quotes on one line, cut where it is long."""
    text = " ".join(text.split())
    text = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
