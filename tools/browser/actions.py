"""Actions of an agent in a browser, as a small grammar `kind[arguments]` with a parser that explains errors.

    click[e3]   type[e5, some words]   select[e7, Peru]   press[Enter]   scroll[down]   scroll[e4, up]   back[]   wait[]
    click[120, 85]   double_click[120, 85]   move[120, 85]   drag[120, 85, 300, 85]   scroll[120, 85, down]
    write[some words]

Elements are named by their references, or touched by a point of the visible part of the page, in CSS pixels. `write`
types into the element that has the focus, which a click gives to a field.

`parse` accepts any text and never raises: it returns a `BrowserAction`, or an `InvalidAction` with a message for the
agent. It does not check that the page has the element.

Not included: opening addresses (an agent follows the links of the page).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from turncredit.registry import suggest
from turncredit.tools.visible_text import shortened

__all__ = ["ACTION_KINDS", "MAX_LENGTH", "ActionKind", "BrowserAction", "InvalidAction", "parse"]

MAX_LENGTH: Final = 10_000
"""Maximum number of characters of an action."""

_KEYS: Final = (
    *("Enter", "Tab", "Escape", "Backspace", "Delete", "Space", "Home", "End", "PageUp", "PageDown", "Insert"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
    *(f"F{number}" for number in range(1, 13)),
)
_MODIFIERS: Final = ("Control", "Shift", "Alt", "Meta")
_DIRECTIONS: Final = ("down", "up")
_SHAPE: Final = re.compile(r"\s*([^\s\[\]]+)\s*\[(.*)\]\s*", re.DOTALL)
_REF: Final = re.compile(r"e\d{1,6}")
_NUMBER: Final = re.compile(r"-?\d{1,6}")


@dataclass(frozen=True, slots=True)
class BrowserAction:
    """One action.

    Args:
        kind: a key of `ACTION_KINDS`.
        ref: reference of the element; "" for the page or a point.
        text: words, option, key or direction.
        points: x and y of the points that are touched.
    """

    kind: str
    ref: str = ""
    text: str = ""
    points: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """Return the action as text that `parse` reads."""
        numbers = [str(number) for point in self.points for number in point]
        words = [part for part in (self.ref, self.text) if part or self.kind == "type"]
        return f"{self.kind}[{', '.join(numbers + words)}]"


@dataclass(frozen=True, slots=True)
class InvalidAction:
    """Why a text is not an action: one sentence for the agent."""

    reason: str


@dataclass(frozen=True, slots=True)
class ActionKind:
    """One kind of action: an example, what it does, and the parser of its arguments."""

    name: str
    example: str
    effect: str
    parse: Callable[[str], BrowserAction | InvalidAction]

    @property
    def form(self) -> str:
        """The example with placeholders: which elements there are and how far points go depends on the page."""
        numbers = iter(("X", "Y", "X2", "Y2"))
        return re.sub(r"\d{2,}", lambda match: next(numbers), self.example.replace("[e3", "[ELEMENT"))


def parse(text: str) -> BrowserAction | InvalidAction:
    """Parse an action; never raises for a str.

    >>> parse("type[e5, red shoes]")
    BrowserAction(kind='type', ref='e5', text='red shoes')
    >>> parse("clik[e3]").reason
    "unknown action 'clik'; did you mean 'click'?"
    """
    if len(text) > MAX_LENGTH:
        return InvalidAction(f"an action may have at most {MAX_LENGTH:,} characters, got {len(text):,}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return InvalidAction("the action contains lone surrogates, which are not valid text")
    match = _SHAPE.fullmatch(text)
    if match is None:
        forms = ", ".join(kind.form for kind in ACTION_KINDS.values())
        return InvalidAction(f"an action has the form kind[arguments], got {_short(text)}; choose one of: {forms}")
    kind = ACTION_KINDS.get(match[1].lower())
    if kind is None:
        return InvalidAction(f"unknown action {_short(match[1])}{suggest(match[1][:60], ACTION_KINDS)}")
    return kind.parse(match[2])


def _short(text: str) -> str:
    return repr(shortened(text, 60, keep=50))


def _element(text: str, form: str) -> str | InvalidAction:
    """Return a reference to an element in lower case."""
    ref = text.strip().lower().removeprefix("[").removesuffix("]")
    if _REF.fullmatch(ref):
        return ref
    return InvalidAction(f"{form} needs the reference of an element, such as e3, got {_short(text.strip())}")


def _points(text: str) -> tuple[tuple[int, int], ...]:
    """Return the points that numbers with commas between them stand for, () if the text is something else."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) % 2 or not all(map(_NUMBER.fullmatch, parts)):
        return ()
    numbers = [int(part) for part in parts]
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _click(text: str) -> BrowserAction | InvalidAction:
    if len(points := _points(text)) == 1:
        return BrowserAction("click", points=points)
    ref = _element(text, "click[...]")
    return BrowserAction("click", ref) if isinstance(ref, str) else ref


def _at_points(kind: str, count: int) -> Callable[[str], BrowserAction | InvalidAction]:
    """Return a parser of points."""

    def parse_points(text: str) -> BrowserAction | InvalidAction:
        if len(points := _points(text)) == count:
            return BrowserAction(kind, points=points)
        return InvalidAction(
            f"{kind}[...] needs {2 * count} whole numbers, X and Y of each point, got {_short(text.strip())}"
        )

    return parse_points


def _write(text: str) -> BrowserAction | InvalidAction:
    return BrowserAction("write", "", text) if text else InvalidAction("write[...] needs words, got nothing")


def _with_words(kind: str, argument: str) -> Callable[[str], BrowserAction | InvalidAction]:
    """Return a parser of a reference, a comma and words; everything after the comma and one space is kept."""

    def parse_words(text: str) -> BrowserAction | InvalidAction:
        head, comma, words = text.partition(",")
        if not comma:
            return InvalidAction(
                f"{kind}[...] has the form {kind}[ELEMENT, {argument}]; the comma is missing in {_short(text)}"
            )
        ref = _element(head, f"{kind}[...]")
        return BrowserAction(kind, ref, words.removeprefix(" ")) if isinstance(ref, str) else ref

    return parse_words


def _select(text: str) -> BrowserAction | InvalidAction:
    action = _with_words("select", "an option")(text)
    if isinstance(action, BrowserAction) and not action.text.strip():
        return InvalidAction("select[...] needs the name of an option after the comma, got nothing")
    return BrowserAction("select", action.ref, action.text.strip()) if isinstance(action, BrowserAction) else action


def _press(text: str) -> BrowserAction | InvalidAction:
    """Parse a key, optionally with modifiers: Enter, a, Control+a, Shift+Tab."""
    keys = text if len(text) == 1 else text.strip()
    *modifiers, key = keys.split("+")
    if keys.endswith("+"):  # the plus key itself: "+", "Control++"
        modifiers, key = [part for part in modifiers if part], "+"
    named = {name.lower(): name for name in (*_KEYS, *_MODIFIERS)}
    names: list[str] = []
    for modifier in modifiers:
        if modifier.lower() not in map(str.lower, _MODIFIERS):
            return InvalidAction(f"unknown modifier {_short(modifier)}{suggest(modifier[:60], _MODIFIERS)}")
        names.append(named[modifier.lower()])
    if key.lower() in named:
        names.append(named[key.lower()])
    elif len(key) == 1 and key.isprintable():
        names.append("Space" if key == " " else key)
    else:
        return InvalidAction(f"unknown key {_short(key)}{suggest(key[:60], (*_KEYS, 'any single character'), most=40)}")
    return BrowserAction("press", "", "+".join(names))


def _scroll(text: str) -> BrowserAction | InvalidAction:
    head, comma, following = text.rpartition(",")
    direction = following.strip().lower()
    if direction not in _DIRECTIONS:
        return InvalidAction(f"scroll needs down or up, alone or after an element and a comma, got {_short(text)}")
    if len(points := _points(head)) == 1:
        return BrowserAction("scroll", "", direction, points)
    ref = _element(head, "scroll[..., down]") if comma else ""
    return BrowserAction("scroll", ref, direction) if isinstance(ref, str) else ref


def _without_arguments(kind: str) -> Callable[[str], BrowserAction | InvalidAction]:
    def parse_nothing(text: str) -> BrowserAction | InvalidAction:
        if text.strip():
            return InvalidAction(f"{kind}[] takes no arguments, got {_short(text)}")
        return BrowserAction(kind)

    return parse_nothing


ACTION_KINDS: Final[dict[str, ActionKind]] = {
    kind.name: kind
    for kind in (
        ActionKind("click", "click[e3]", "click on an element, or a point: click[120, 85]", _click),
        ActionKind("type", "type[e3, words]", "replace the content of a field", _with_words("type", "words")),
        ActionKind("select", "select[e3, option]", "choose an option of a list by its name", _select),
        ActionKind("press", "press[Enter]", "press a key, also with modifiers: press[Control+a]", _press),
        ActionKind(
            "scroll", "scroll[down]", "scroll the page by 80 % of its height, or an element: scroll[e3, up]", _scroll
        ),
        ActionKind("write", "write[words]", "type words into the focus", _write),
        *(
            ActionKind(kind, example, effect, _at_points(kind, count))
            for kind, count, example, effect in (
                ("double_click", 1, "double_click[120, 85]", "click twice on a point"),
                ("move", 1, "move[120, 85]", "move the mouse to a point"),
                ("drag", 2, "drag[120, 85, 300, 85]", "drag from a point to another"),
            )
        ),
        ActionKind("back", "back[]", "go back to the previous page", _without_arguments("back")),
        ActionKind("wait", "wait[]", "do nothing", _without_arguments("wait")),
    )
}
"""Kinds of actions by name."""
