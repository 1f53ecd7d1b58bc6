"""The writer of actions: what a person did becomes the first action of the environment that leads to the same state.

A tap becomes the tap on an element where that does the same, typing becomes `type N TEXT` with all that the field
holds, and several turns of the wheel become one swipe. What no action does (the Overview key) is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from turncredit.envs.android.actions import BadAction, parse
from turncredit.envs.android.elements import ScreenElement, folded
from turncredit.envs.android.performing import perform
from turncredit.envs.android.site.inputs import Input
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.phone.screen.keyboard import KEYBOARD_MODE
from turncredit.phone.toolkit.forms import keep_value
from turncredit.phone.toolkit.state import State
from turncredit.tools.android.device import DeviceError

__all__ = ["Written", "in_words", "only_the_cursor", "write"]


_TOUCHES = ("tap ", "long press ")


@dataclass(frozen=True, slots=True)
class Written:
    """A step of an episode: its action (None: no action does this), in words, the phone before it and after it."""

    action: str | None
    words: str
    before: State
    after: str
    user_input: Input | None = None

    @property
    def touch(self) -> tuple[int, int] | None:
        """The pixel that a finger tapped or held; None if the action is no such touch."""
        done = self.user_input
        if done is None or done.kind not in ("tap", "long_press") or not str(self.action).startswith(_TOUCHES):
            return None
        return done.x, done.y


def write(
    device: DirectDevice, apps: Mapping[str, str], user_input: Input, before: State, last: Written | None
) -> tuple[Written, bool]:
    """Return the step that an input makes, and whether it takes the place of the last one.

    Args:
        device: after the input.
        apps: what can be opened: name -> package.
        user_input: the input.
        before: the phone before it.
        last: the step before it, if nothing has happened since.
    """
    phone = device.phone
    after, current, wheel = phone.state_key(), phone.snapshot(), user_input.kind == "scroll"
    value = _focused_text(device)
    try:
        elements = _look(device, before)
        edits = user_input.edits or _on_the_keyboard(user_input, elements, value)
        goal = _Goal(device, apps, current, value if edits else None)
        if last is not None and (more := _together(last, user_input, edits)):
            earlier = _look(device, last.before)
            action = goal.first(last.before, _candidates(more, earlier, goal.value, device))
            if action:
                return Written(action, in_words(action, earlier, wheel=wheel), last.before, after, more), True
        action = goal.first(before, _candidates(user_input, elements, goal.value, device))
        words = (
            in_words(action, elements, wheel=wheel)
            if action
            else f"{_named(user_input)} (no action of the environment does this)"
        )
        return Written(action, words, before, after, user_input), False
    finally:
        phone.restore(current)


def _on_the_keyboard(user_input: Input, elements: Sequence[ScreenElement], value: str | None) -> bool:
    """Return whether a finger is on the soft keyboard, whose keys are no elements."""
    beside = not any(element.node.contains(user_input.x, user_input.y) for element in elements)
    return user_input.kind == "tap" and value is not None and beside


def _together(last: Written, user_input: Input, edits: bool) -> Input | None:
    """Return both inputs as one, or None if they do not belong together."""
    if last.action is None or last.user_input is None:
        return None
    if edits and last.action.startswith(("type ", "tap ")):
        return Input("key")
    if last.user_input.kind == user_input.kind == "scroll":
        old = last.user_input
        return Input("scroll", old.x, old.y, old.x2, old.y2 + user_input.vertical)
    return None


def _look(device: DirectDevice, state: State) -> list[ScreenElement]:
    device.phone.restore(state)
    return folded(device.dump(), device.size())


def _focused_text(device: DirectDevice) -> str | None:
    return next((node.text for node in device.dump().walk() if node.editable and node.focused), None)


class _Goal:
    """The state that an action must lead to."""

    def __init__(self, device: DirectDevice, apps: Mapping[str, str], state: State, value: str | None) -> None:
        """Take the state, and the text of the field that was edited, None if none was."""
        self.value = value
        self._device, self._apps = device, apps
        device.phone.restore(state)
        self._key, self._text_key = device.phone.state_key(), _key_without_cursor(device)

    def first(self, before: State, candidates: Iterable[str]) -> str | None:
        """Return the first action that leads there from a state; where text was edited, the cursor may differ."""
        near = None
        for text in dict.fromkeys(candidates):
            self._device.phone.restore(before)
            try:
                elements = folded(self._device.dump(), self._device.size())
                perform(parse(text), self._device, elements, self._apps)
            except (BadAction, DeviceError):
                continue
            if self._device.phone.state_key() == self._key:
                return text
            if self.value is not None and near is None and _key_without_cursor(self._device) == self._text_key:
                near = text
        return near


def _key_without_cursor(device: DirectDevice) -> str:
    """Return the key of the phone without where the cursor is and what the soft keyboard shows. Changes the phone."""
    phone = device.phone
    if phone.page.focus and not phone.page.focus.startswith("text:"):
        keep_value(phone, KEYBOARD_MODE, "")
        phone.change_page(replace(phone.page, selection=(0, 0), toolbar=False))
    return phone.state_key()


def only_the_cursor(device: DirectDevice, before: State) -> bool:
    """Return whether nothing but the cursor, or the layout of the soft keyboard, has changed."""
    phone, current = device.phone, device.phone.snapshot()
    try:
        after = _key_without_cursor(device)
        phone.restore(before)
        return _key_without_cursor(device) == after
    finally:
        phone.restore(current)


def _candidates(
    user_input: Input, elements: Sequence[ScreenElement], value: str | None, device: DirectDevice
) -> Iterator[str]:
    """Yield actions that may do what was done, those that say most first."""
    under = sorted((e for e in elements if e.node.contains(user_input.x, user_input.y)), key=_area)
    if value is not None:
        yield from (f"type {element.index} {value}" for element in elements if element.node.editable)
    if user_input.kind == "text":
        yield f"type {user_input.text}"
    if user_input.kind == "tap":
        yield from (f"tap {e.index}" for e in under)
        yield from ("back", "home", f"tap {user_input.x} {user_input.y}")
    elif user_input.kind == "long_press":
        yield from (f"long press {e.index}" for e in under)
        yield f"long press {user_input.x} {user_input.y}"
    elif user_input.kind in ("swipe", "scroll"):
        yield from _moves(user_input, under, device)
    elif user_input.kind == "key":
        yield from {"Enter": ("enter",), "Back": ("back",), "Home": ("home",)}.get(user_input.text, ())


def _moves(user_input: Input, under: Sequence[ScreenElement], device: DirectDevice) -> Iterator[str]:
    for direction in ("down", "up", "left", "right"):
        yield f"scroll {direction}"
    for element in under:
        for direction in ("left", "right", "up", "down"):
            yield f"swipe {element.index} {direction}"
    for direction in ("down", "up", "left", "right"):
        yield f"swipe {direction}"
    if user_input.kind == "swipe":
        yield f"tap {user_input.x2} {user_input.y2}"  # where a slider's knob is let go
        yield f"tap {user_input.x} {user_input.y}"
    _, height = device.size()
    x, y, y2 = user_input.x, user_input.y, user_input.y2
    if user_input.kind == "scroll":  # as far as the screen is high
        y = min(max(y, y - y2 + 1), height - 1) if y2 < 0 else y
        y2 = y + user_input.vertical
        if y2 >= height:
            y, y2 = y - (y2 - height + 1), height - 1
    if 0 <= y < height and 0 <= y2 < height:
        yield f"swipe {x} {y} {user_input.x2} {y2}"


def _area(element: ScreenElement) -> int:
    left, top, right, bottom = element.node.bounds
    return (right - left) * (bottom - top)


def _named(user_input: Input) -> str:
    return f"{user_input.text} key" if user_input.kind == "key" else user_input.kind.replace("_", " ").capitalize()


_PLAIN = {
    "back": "Back",
    "home": "Home",
    "enter": "Enter",
    "wait": "Wait",
    "done": "Done",
    "infeasible": "It cannot be done",
}
_VERBS = {"click": "Tap", "double_tap": "Double tap", "long_press": "Long press"}


def in_words(text: str, elements: Sequence[ScreenElement], *, wheel: bool = False) -> str:
    """Return an action as a person would say it, given the screen that it was for, and whether a wheel did it."""
    if text in _PLAIN:
        return _PLAIN[text]
    action = parse(text)
    on = ""
    if action.index is not None and action.index < len(elements):
        element = elements[action.index]
        label = element.label or element.kind
        on = f" “{label[:60]}”" if element.label else f" the {label}"
    if action.action_type in _VERBS:
        return f"{_VERBS[action.action_type]}{on or f' at {action.x}, {action.y}'}"
    if action.action_type == "input_text":
        return f"Type “{action.text}”{f' into{on}' if on else ''}" if action.text else f"Empty{on}"
    if action.action_type == "open_app":
        return f"Open {action.app_name}"
    if action.action_type == "answer":
        return f"Answer “{action.text}”"
    if action.x2 is not None and action.y is not None and action.y2 is not None:
        right, down = action.x2 - (action.x or 0), action.y2 - action.y
        if abs(right) > abs(down):
            return f"Swipe {'right' if right > 0 else 'left'} by {abs(right)} pixels"
        if wheel:
            return f"Scroll {'up' if down > 0 else 'down'} by {abs(down)} pixels"
        return f"Swipe {'down' if down > 0 else 'up'} by {abs(down)} pixels"
    return f"{action.action_type.capitalize()} {action.direction}{f' on{on}' if on else ''}"
