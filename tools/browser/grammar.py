"""What an agent can do in a browser, as one small grammar: `kind[arguments]`, and a parser that explains.

    click[e3]   type[e5, some words]   select[e7, Peru]   press[Enter]   scroll[down]   scroll[e4, up]   back[]   wait[]

`parse` takes any text and never raises: it gives an Action, or a Misunderstood with the sentence that the agent reads.
Whether the page has such an element is not known here.

Left out on purpose: coordinates, dragging and hovering; addresses (an agent goes where the page leads).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["FORMS", "LONGEST", "Action", "Form", "Misunderstood", "near", "parse"]

LONGEST: Final = 10_000
"""Most characters of an action."""

_NAMED: Final = (
    *("Enter", "Tab", "Escape", "Backspace", "Delete", "Space", "Home", "End", "PageUp", "PageDown", "Insert"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
    *(f"F{number}" for number in range(1, 13)),
)
_MODIFIERS: Final = ("Control", "Shift", "Alt", "Meta")
_DIRECTIONS: Final = ("down", "up")
_SHAPE: Final = re.compile(r"\s*([^\s\[\]]+)\s*\[(.*)\]\s*", re.DOTALL)
_REF: Final = re.compile(r"e\d{1,6}")


@dataclass(frozen=True, slots=True)
class Action:
    """One action: `ref` names the element it is meant for ("" for the page), `text` is its words, key or direction."""

    kind: str
    ref: str = ""
    text: str = ""

    def __str__(self) -> str:
        """Return the action as `parse` reads it."""
        return f"{self.kind}[{', '.join(part for part in (self.ref, self.text) if part or self.kind == 'type')}]"


@dataclass(frozen=True, slots=True)
class Misunderstood:
    """Why a text is no action: one sentence for the agent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of action: how it is written, what it does, and what reads its arguments."""

    kind: str
    written: str
    does: str
    read: Callable[[str], Action | Misunderstood]


def near(wanted: str, known: Iterable[str], *, shown: int = 8) -> str:
    """Return the end of an explanation: the near names to `wanted` when there are any, else the names that there are.

    >>> near("Entr", ["Enter", "Tab"])
    "did you mean 'Enter'?"
    """
    names = list(known)
    lower = {name.lower(): name for name in names}
    found = difflib.get_close_matches(wanted.lower()[:200], list(lower), n=2, cutoff=0.6)
    if found:
        return "did you mean " + " or ".join(repr(lower[name]) for name in found) + "?"
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return "there is " + (", ".join(repr(name) for name in names[:shown]) + more if names else "none")


def parse(text: str) -> Action | Misunderstood:
    """Return the action that a text is, or the reason why it is none; never raises on a str.

    >>> parse("type[e5, red shoes]")
    Action(kind='type', ref='e5', text='red shoes')
    >>> parse("clik[e3]").reason
    "no action 'clik': did you mean 'click'?"
    """
    if len(text) > LONGEST:
        return Misunderstood(f"an action has at most {LONGEST:,} characters, this one has {len(text):,}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return Misunderstood("the action holds lone surrogates, which are no text")
    match = _SHAPE.fullmatch(text)
    if match is None:
        forms = ", ".join(form.written for form in FORMS.values())
        return Misunderstood(f"an action is written kind[arguments], got {_cut(text)}; the forms are {forms}")
    form = FORMS.get(match[1].lower())
    if form is None:
        return Misunderstood(f"no action {_cut(match[1])}: {near(match[1], FORMS)}")
    return form.read(match[2])


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:50]}...")


def _element(text: str, form: str) -> str | Misunderstood:
    """Return a reference to an element in lower case."""
    ref = text.strip().lower().removeprefix("[").removesuffix("]")
    if _REF.fullmatch(ref):
        return ref
    return Misunderstood(f"{form} names an element by its reference such as e3, got {_cut(text.strip())}")


def _click(text: str) -> Action | Misunderstood:
    ref = _element(text, "click[...]")
    return Action("click", ref) if isinstance(ref, str) else ref


def _with_words(kind: str, what: str) -> Callable[[str], Action | Misunderstood]:
    """Return the reader of a reference, a comma and words; what follows the comma and one space is taken as it is."""

    def read(text: str) -> Action | Misunderstood:
        head, comma, words = text.partition(",")
        if not comma:
            return Misunderstood(f"{kind}[...] is written {kind}[e3, {what}]; the comma is missing in {_cut(text)}")
        ref = _element(head, f"{kind}[...]")
        return Action(kind, ref, words.removeprefix(" ")) if isinstance(ref, str) else ref

    return read


def _select(text: str) -> Action | Misunderstood:
    action = _with_words("select", "an option")(text)
    if isinstance(action, Action) and not action.text.strip():
        return Misunderstood("select[...] names the option after the comma, got nothing")
    return Action("select", action.ref, action.text.strip()) if isinstance(action, Action) else action


def _press(text: str) -> Action | Misunderstood:
    """Read a key, perhaps with modifiers before it: Enter, a, Control+a, Shift+Tab."""
    given = text if len(text) == 1 else text.strip()
    *held, key = given.split("+")
    if given.endswith("+"):  # the plus key itself: "+", "Control++"
        held, key = [part for part in held if part], "+"
    named = {name.lower(): name for name in (*_NAMED, *_MODIFIERS)}
    names: list[str] = []
    for modifier in held:
        if modifier.lower() not in map(str.lower, _MODIFIERS):
            return Misunderstood(f"no modifier {_cut(modifier)} for a key: {near(modifier, _MODIFIERS)}")
        names.append(named[modifier.lower()])
    if key.lower() in named:
        names.append(named[key.lower()])
    elif len(key) == 1 and key.isprintable():
        names.append("Space" if key == " " else key)
    else:
        return Misunderstood(f"no key {_cut(key)}: {near(key, _NAMED)}, or one character")
    return Action("press", "", "+".join(names))


def _scroll(text: str) -> Action | Misunderstood:
    head, comma, rest = text.partition(",")
    direction = (rest if comma else head).strip().lower()
    if direction not in _DIRECTIONS:
        return Misunderstood(f"scroll[...] goes down or up, as in scroll[down] or scroll[e3, up]; got {_cut(text)}")
    ref = _element(head, "scroll[..., down]") if comma else ""
    return Action("scroll", ref, direction) if isinstance(ref, str) else ref


def _bare(kind: str) -> Callable[[str], Action | Misunderstood]:
    def read(text: str) -> Action | Misunderstood:
        if text.strip():
            return Misunderstood(f"{kind}[] takes nothing, got {_cut(text)}")
        return Action(kind)

    return read


FORMS: Final[dict[str, Form]] = {
    form.kind: form
    for form in (
        Form("click", "click[e3]", "click on an element", _click),
        Form("type", "type[e3, words]", "replace what stands in a field by words", _with_words("type", "words")),
        Form("select", "select[e3, option]", "choose an option of a list by its name", _select),
        Form("press", "press[Enter]", "press a key, also with others held: press[Control+a]", _press),
        Form("scroll", "scroll[down]", "scroll the page by most of its height; scroll[e3, up] an element", _scroll),
        Form("back", "back[]", "go back to the page before", _bare("back")),
        Form("wait", "wait[]", "do nothing", _bare("wait")),
    )
}
"""The kinds of actions by name."""
