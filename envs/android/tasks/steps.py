"""Scripts of experts that only act: a list of steps, in whose texts parameters stand in braces as in a goal.

    steps(call(open_contact, "{name}"), tap("More options"), tap("Delete"), tap("Delete", where=is_button))

is the script that opens a contact, deletes it and says that the task is done. A script that decides by what it sees is
a generator function of the hand and the parameters (see `template`), and may be a step of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.draw import Params
from turncredit.envs.android.tasks.hand import Hand, Script

__all__ = [
    "Step",
    "answer",
    "call",
    "choose",
    "fill",
    "give_up",
    "hold",
    "leave",
    "pick_date",
    "pick_time",
    "start",
    "steps",
    "switch",
    "tap",
]

Step = Callable[[Hand, Params], Iterator[str]]
"""A script, or a part of one."""


def steps(*parts: Step) -> Step:
    """Return the script that takes these steps, and then says that the task is done unless the last has ended it."""

    def solve(hand: Hand, p: Params) -> Script:
        action = ""
        for part in parts:
            for action in part(hand, p):
                yield action
        if action not in ("done", "infeasible"):
            yield from hand.done()

    return solve


def call(function: Callable[..., Script], *texts: str) -> Step:
    """Return the step of a function of the hand and texts, such as the way to a page that scripts share."""
    return lambda hand, p: function(hand, *(text.format_map(p) for text in texts))


def start(app: str) -> Step:
    """Return the step that shows the first screen of an app."""
    return call(Hand.open, app)


def tap(text: str, scroll: bool = True, where: Callable[[ScreenElement], bool] | None = None) -> Step:
    """Return the step that taps the element that says this; see `Hand.tap`."""
    return lambda hand, p: hand.tap(text.format_map(p), scroll, where)


def hold(text: str) -> Step:
    """Return the step that holds the element that says this."""
    return call(Hand.long_press, text)


def fill(label: str, text: str) -> Step:
    """Return the step that makes a field hold a text."""
    return call(Hand.fill, label, text)


def choose(label: str, option: str) -> Step:
    """Return the step that makes a choice stand at an option."""
    return call(Hand.choose, label, option)


def switch(label: str, on: bool = True) -> Step:
    """Return the step that turns a switch, checkbox or radio button on or off."""
    return lambda hand, p: hand.switch(label.format_map(p), on)


def pick_date(label: str, day: str) -> Step:
    """Return the step that sets a date field to "YYYY-MM-DD"."""
    return call(Hand.pick_date, label, day)


def pick_time(label: str, time: str) -> Step:
    """Return the step that sets a time field to "HH:MM"."""
    return call(Hand.pick_time, label, time)


def leave() -> Step:
    """Return the step that presses Back until the app is closed."""
    return call(Hand.leave)


def answer(read: Callable[[Hand, Params], object]) -> Step:
    """Return the last step of a question: it answers what `read` finds on the screen."""
    return lambda hand, p: hand.answer(read(hand, p))


def give_up() -> Step:
    """Return the last step of a task that cannot be done."""
    return call(Hand.infeasible)
