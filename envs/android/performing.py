"""Does actions on a device: which pixels are touched, and which keys are pressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from turncredit.envs.android.actions import Action, BadAction
from turncredit.envs.android.elements import ScreenElement
from turncredit.tools.android.device import Device, DeviceError, DeviceLost

__all__ = ["Touched", "perform", "stroke"]

Touched = tuple[tuple[int, int], ...]
"""Pixels: none, one, or the start and the end of a swipe."""


def perform(action: Action, device: Device, elements: Sequence[ScreenElement], apps: Mapping[str, str]) -> Touched:
    """Do on a device what an action says; `answer` and `status` do nothing there.

    Args:
        action: from `parse`.
        device: where.
        elements: the screen as the agent saw it.
        apps: what can be opened: name -> package or activity.

    Returns:
        The pixels that were touched: none, one, or the start and the end of a swipe.

    Raises:
        BadAction: the screen has no such element or point, or the phone no such app. Nothing was done.
        DeviceLost: the device is gone.
    """
    element = _element(action, elements)
    for x, y in ((action.x, action.y), (action.x2, action.y2)):
        if x is None or y is None:
            continue
        width, height = device.size()
        if not (0 <= x < width and 0 <= y < height):
            raise BadAction(f"({x}, {y}) is not on the screen of {width} x {height} pixels")
    return _DO[action.action_type](action, device, element, apps)


def _element(action: Action, elements: Sequence[ScreenElement]) -> ScreenElement | None:
    if action.index is None:
        return None
    if not 0 <= action.index < len(elements):
        choices = f"the elements are 0 to {len(elements) - 1}" if elements else "the screen shows no elements"
        raise BadAction(f"there is no element {action.index}: {choices}")
    return elements[action.index]


def _point(action: Action, element: ScreenElement | None) -> tuple[int, int]:
    if element is not None:
        return element.center
    if action.x is None or action.y is None:
        raise BadAction(f"{action.action_type} needs an index, or x and y")
    return action.x, action.y


def _touch(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> Touched:
    touch = {"click": device.tap, "double_tap": device.double_tap, "long_press": device.long_press}
    point = _point(action, element)
    touch[action.action_type](*point)
    return (point,)


def _input(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> Touched:
    if element is not None and not element.node.editable:
        raise BadAction(f"element {element.index} is not a text field")
    touched = (_point(action, element),) if element is not None or action.x is not None else ()
    for point in touched:
        device.tap(*point)
    if action.clear_text and (element is None or element.value):
        device.key(_CTRL, _A)
        device.key(_DELETE)
    if action.text:
        device.type_text(action.text)
    if action.press_enter:
        device.key(_ENTER)
    return touched


_CTRL, _A, _DELETE, _ENTER, _HOME, _BACK = 113, 29, 67, 66, 3, 4


def _move(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> Touched:
    start, end = stroke(action, device, element)
    device.swipe(start, end)
    return start, end


def stroke(action: Action, device: Device, element: ScreenElement | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where the finger of a scroll or swipe starts and ends.

    Scroll: the finger goes the other way, from the middle to the edge. Swipe: the finger goes the way it says. Both
    are on the element, on the innermost part of the screen at the action's point that scrolls, or on the whole screen.
    """
    if action.x2 is not None and action.y2 is not None:
        return _point(action, None), (action.x2, action.y2)
    width, height = device.size()
    # AndroidWorld takes index 0 for none; here an index is an index.
    bounds = element.node.bounds if element else _scrolling(action, device) or (0, 0, width, height)
    left, top, right, bottom = bounds
    left, top, right, bottom = max(0, left), max(0, top), min(width, right), min(height, bottom)
    middle = ((left + right) // 2, (top + bottom) // 2)
    edges = {
        "up": (middle[0], top),
        "down": (middle[0], bottom - 1),
        "left": (left, middle[1]),
        "right": (right - 1, middle[1]),
    }
    other = {"up": "down", "down": "up", "left": "right", "right": "left"}
    direction = str(action.direction)
    if action.action_type == "scroll":
        return middle, edges[other[direction]]
    return edges[other[direction]] if element else middle, edges[direction]


def _scrolling(action: Action, device: Device) -> tuple[int, int, int, int] | None:
    """Return the bounds of the innermost node at an action's point that scrolls; None if there is none."""
    if action.x is None or action.y is None:
        return None
    nodes = [node for node in device.dump().walk() if node.scrollable and node.contains(action.x, action.y)]
    return nodes[-1].bounds if nodes else None


def _open(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> Touched:
    name = str(action.app_name)
    component = next((apps[app] for app in apps if app.casefold() == name.casefold()), None)
    if component is None and "." not in name:
        raise BadAction(f"there is no app {name[:80]!r}; apps: {', '.join(sorted(apps))}")
    try:
        device.launch(component or name)
    except DeviceLost:
        raise
    except DeviceError as error:
        raise BadAction(f"{name[:80]!r} cannot be opened: {error}") from None
    return ()


_KEYS: Final = {"keyboard_enter": _ENTER, "navigate_back": _BACK, "navigate_home": _HOME}


def _key(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> Touched:
    device.key(_KEYS[action.action_type])
    return ()


def _nothing(action: Action, device: Device, element: ScreenElement | None, apps: Mapping[str, str]) -> Touched:
    if action.action_type == "wait":
        device.wait(1)
    return ()


_DO: Final[dict[str, Callable[[Action, Device, ScreenElement | None, Mapping[str, str]], Touched]]] = {
    "answer": _nothing,
    "click": _touch,
    "double_tap": _touch,
    "input_text": _input,
    "keyboard_enter": _key,
    "long_press": _touch,
    "navigate_back": _key,
    "navigate_home": _key,
    "open_app": _open,
    "scroll": _move,
    "status": _nothing,
    "swipe": _move,
    "wait": _nothing,
}
