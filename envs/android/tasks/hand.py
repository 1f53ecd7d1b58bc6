"""The hand of an expert: reads the screen as an agent sees it, and yields actions of the short grammar.

A script is a generator of actions. After each of them the player puts the new screen into `hand.screen` and goes on:

    def solve(hand, p):
        yield from hand.open("Contacts")
        yield from hand.tap("Create contact")
        yield from hand.fill("First name", p["first"])
        yield from hand.tap("Save")
        yield from hand.done()

What the screen does not show raises `Lost`; the player then goes home and starts the script again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import Any, Final

from turncredit.envs.android.elements import ScreenElement, find, normal
from turncredit.phone.toolkit.state import HOME

__all__ = ["Finding", "Hand", "Lost", "Script", "is_button", "is_item", "is_no_field"]

Script = Iterator[str]
"""Actions."""
Finding = Generator[str, None, Any]
"""Actions, and then what they have found."""
_SCROLLS: Final = 40
_BACKS: Final = 12
_UP: Final = ("Navigate up", "Close")


def is_button(element: ScreenElement) -> bool:
    """Return whether an element is a button."""
    return element.kind == "button"


def is_item(element: ScreenElement) -> bool:
    """Return whether an element is an entry of a list."""
    return element.kind == "item"


def is_no_field(element: ScreenElement) -> bool:
    """Return whether an element is anything but a field, whose text says the same as what it finds."""
    return element.kind != "field"


class Lost(Exception):
    """The screen does not show what the script needs."""


class Hand:
    """What a script sees and does. `memory` is kept when the script starts again."""

    def __init__(self, size: tuple[int, int] = (1080, 2400)) -> None:
        """Start with nothing seen, on a screen of this width and height."""
        self.screen: Sequence[ScreenElement] = ()
        self.package = ""
        self.memory: dict[str, object] = {}
        self.size = size
        self._met: tuple[bool, ...] = ()
        self._clean = True  # no app has been used
        self._leave = True
        self._left: set[str] = set()

    def begin(self, met: Sequence[bool], *, fresh: bool, leave: bool) -> None:
        """Prepare for a start of the script.

        Args:
            met: which effects are there already.
            fresh: the episode has just begun, so no app has been used.
            leave: close an app before it is opened for the first time, unless `fresh`.
        """
        self._met, self._clean, self._leave = tuple(met), fresh, leave
        self._left = set()

    def met(self, effect: int) -> bool:
        """Return whether the effect with this number is there already: it was done before an interruption."""
        return effect < len(self._met) and self._met[effect]

    # Reading

    def find(self, text: str) -> ScreenElement | None:
        """Return the element that says this (case does not count), one that can be touched first; or None."""
        return find(self.screen, text)

    def see(self, text: str) -> bool:
        """Return whether an element says this."""
        return self.find(text) is not None

    def mentioning(self, text: str) -> list[ScreenElement]:
        """Return the elements in whose texts this occurs."""
        return [element for element in self.screen if element.mentions(text)]

    def texts(self) -> list[str]:
        """Return all texts of the screen from top to bottom."""
        return [text for element in self.screen for text in element.texts]

    def field(self, label: str) -> ScreenElement:
        """Return the field, choice or slider with this label.

        Raises:
            Lost: there is none.
        """
        for element in self.screen:
            if normal(element.node.description) == normal(label) and element.kind != "text":
                return element
        raise Lost(f"no field {label!r}; the screen says {self.texts()[:30]}")

    def after(self, text: str) -> str:
        """Return the text that follows this one in the same row or in the next element.

        Raises:
            Lost: there is none.
        """
        texts = self.texts()
        for i, own in enumerate(texts[:-1]):
            if normal(own) == normal(text):
                return texts[i + 1]
        raise Lost(f"nothing follows {text!r}; the screen says {texts[:30]}")

    def before(self, text: str) -> str:
        """Return the text in front of this one.

        Raises:
            Lost: there is none.
        """
        texts = self.texts()
        for previous, other in pairwise(texts):
            if normal(other) == normal(text):
                return previous
        raise Lost(f"nothing stands in front of {text!r}; the screen says {texts[:30]}")

    # Acting

    def open(self, app: str) -> Script:
        """Show the first screen of an app, as it is when the app has just been started.

        An app that may have been used is left with Back first, so that no search, tab or form remains.
        """
        yield f"open {app}"
        if self._leave and not (self._clean or app in self._left):
            yield from self.leave()
            yield f"open {app}"
        self._left.add(app)
        yield from self.first_screen()

    def leave(self) -> Script:
        """Press Back until the app is closed."""
        for _ in range(_BACKS):
            if self.package == HOME:
                return
            if self.see("Discard"):
                yield from self.tap("Discard")
            else:
                yield "back"
        yield "home"

    def first_screen(self) -> Script:
        """Go back to the first screen of the app in front."""
        for _ in range(_BACKS):
            if self.see("Discard"):
                yield from self.tap("Discard")
            elif any(element.node.description in _UP for element in self.screen):
                yield "back"
            else:
                return

    def tap(self, text: str, scroll: bool = True, where: Callable[[ScreenElement], bool] | None = None) -> Script:
        """Tap the element that says this; scrolls down until it is found, and then from the top.

        Args:
            text: one of its texts, whole.
            scroll: whether to scroll; without, it must be there.
            where: a further condition.
        """
        element = yield from self.look_for(text, scroll, where)
        yield f"tap {element.index}"

    def tap_element(self, element: ScreenElement) -> Script:
        """Tap an element of the screen as it is now."""
        yield f"tap {element.index}"

    def long_press(self, text: str, scroll: bool = True) -> Script:
        """Hold the element that says this."""
        element = yield from self.look_for(text, scroll, lambda e: e.node.long_clickable)
        yield f"long press {element.index}"

    def look_for(self, text: str, scroll: bool = True, where: Callable[[ScreenElement], bool] | None = None) -> Finding:
        """Scroll until an element says this, and return it.

        Raises:
            Lost: none does.
        """

        def found() -> ScreenElement | None:
            fitting = [e for e in self.screen if e.says(text) and (where is None or where(e))]
            return next((e for e in fitting if e.kind != "text"), fitting[0] if fitting else None)

        element = found()
        if element is None and scroll:
            element = yield from self.scroll_until(found)
        if element is None:
            raise Lost(f"{text!r} is not on the screen, which says {self.texts()[:30]}")
        return element

    def scroll_until(self, test: Callable[[], object]) -> Finding:
        """Scroll down to the end, then up to the start, until `test()` is not None; return it or None."""
        for direction in ("down", "up"):
            for _ in range(_SCROLLS):
                before = self.picture()
                yield f"scroll {direction}"
                if (result := test()) is not None:
                    return result
                if self.picture() == before:
                    break
        return None

    def read_all(self, read: Callable[[ScreenElement], object]) -> Finding:
        """Scroll through the whole screen, and return `read(element)` of every element, without None and repeats."""
        result: dict[object, None] = {}
        for _ in range(_SCROLLS):
            for element in self.screen:
                value = read(element)
                if value is not None:
                    result[value] = None
            before = self.picture()
            yield "scroll down"
            if self.picture() == before:
                break
        return list(result)

    def picture(self) -> list[tuple[object, ...]]:
        """Return what tells two screens apart."""
        return [(element.texts, element.node.bounds, element.checked) for element in self.screen]

    def fill(self, label: str, text: str) -> Script:
        """Make the field with this label hold this text."""
        element = yield from self.find_field(label)
        if element.value != text and "\n" in text:  # an action of one line, as parsers of replies want it
            action = {"action_type": "input_text", "index": element.index, "text": text, "clear_text": True}
            yield json.dumps(action)
        elif element.value != text:
            yield f"type {element.index} {text}"

    def find_field(self, label: str) -> Finding:
        """Scroll until the field with this label is there, and return it.

        Raises:
            Lost: there is none.
        """

        def found() -> ScreenElement | None:
            try:
                return self.field(label)
            except Lost:
                return None

        element = found()
        if element is None:
            element = yield from self.scroll_until(found)
        return self.field(label) if element is None else element

    def choose(self, label: str, option: str) -> Script:
        """Make the choice with this label stand at this option."""
        element = yield from self.find_field(label)
        if normal(element.value) != normal(option):
            yield f"tap {element.index}"
            yield from self.tap(option)

    def switch(self, label: str, on: bool = True) -> Script:
        """Turn a switch, checkbox or radio button with this label on or off."""
        element = yield from self.look_for(label, True, lambda e: e.checkable)
        if element.checked != on:
            yield f"tap {element.index}"

    def slide(self, label: str, share: float) -> Script:
        """Move the slider with this label to a share of its way, 0 to 1."""
        element = yield from self.find_field(label)
        left, top, right, bottom = element.node.bounds
        x = left + 26 + round(share * (right - left - 52))
        yield f"tap {min(right - 1, max(left, x))} {(top + bottom) // 2}"

    def pick_time(self, label: str, time: str) -> Script:
        """Set the time field with this label to 'HH:MM'."""
        element = yield from self.find_field(label)
        if element.value == time:
            return
        hour, minute = time.split(":")
        yield f"tap {element.index}"
        yield from self.fill("Hour", hour)
        yield from self.fill("Minute", minute)
        yield from self.tap("OK")

    def pick_date(self, label: str, day: str) -> Script:
        """Set the date field with this label to 'YYYY-MM-DD'."""
        element = yield from self.find_field(label)
        target = date.fromisoformat(day)
        yield f"tap {element.index}"
        for _ in range(_SCROLLS):
            month = next((t for t in self.texts() if re.fullmatch(r"[A-Z][a-z]+ \d{4}", t)), "")
            if not month:
                raise Lost("the date picker shows no month")
            away = _months(target) - _months(_month(month))
            if away == 0:
                break
            step = "year" if abs(away) >= 12 else "month"
            yield from self.tap(f"{'Next' if away > 0 else 'Previous'} {step}", scroll=False)
        yield from self.tap(f"{target.day} {target:%B %Y}", scroll=False)
        yield from self.tap("OK", scroll=False)

    def answer(self, text: object) -> Script:
        """Answer a question, and say that the task is done."""
        yield f"answer {text}"
        yield "done"

    def done(self) -> Script:
        """Say that the task is done."""
        yield "done"

    def infeasible(self) -> Script:
        """Say that the task cannot be done."""
        yield "infeasible"


def _month(text: str) -> date:
    from datetime import datetime

    return datetime.strptime(text, "%B %Y").date()


def _months(day: date) -> int:
    return day.year * 12 + day.month
