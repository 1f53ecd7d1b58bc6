"""Actions by points: those of an agent in pixels of the screen, and those of the expert with points for elements.

    tap 512 305       on the scale of the option `points` -> a pixel of the screen
    tap 5             by the expert -> tap 512 305
    type 3 hello      by the expert -> a tap on the field and `type hello`; a field with text is held instead, which
                      selects a word, and then "Select all" is tapped
    scroll down       by the expert -> swipe X Y X2 Y2

So the expert says nothing that only an agent with a list of elements could know, and only what a finger can do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from turncredit.envs.android.actions import Action, BadAction, write
from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.performing import stroke
from turncredit.envs.android.tasks.expert import Writer
from turncredit.envs.points import OffScreen, Points, PointScale, point_scale, scale_words, snaps
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.tools.android.device import Device

__all__ = ["AgentPoints", "by_points", "in_pixels", "on_scale", "snapped"]

_SELECT_ALL: Final = "Select all"


def in_pixels(action: Action, scale: PointScale, size: tuple[int, int]) -> Action:
    """Return an agent's action with its points in pixels of a screen of this width and height.

    Raises:
        BadAction: a point is not on the screen.
    """
    try:
        if action.x is not None and action.y is not None:
            x, y = scale.pixel(action.x, action.y, size)
            action = replace(action, x=x, y=y)
        if action.x2 is not None and action.y2 is not None:
            x2, y2 = scale.pixel(action.x2, action.y2, size)
            action = replace(action, x2=x2, y2=y2)
    except OffScreen as error:
        raise BadAction(str(error)) from None
    return action


def on_scale(action: Action, scale: PointScale, size: tuple[int, int]) -> Action:
    """Return an action whose points are pixels as an agent writes it."""
    if action.x is not None and action.y is not None:
        x, y = scale.write(action.x, action.y, size)
        action = replace(action, x=x, y=y)
    if action.x2 is not None and action.y2 is not None:
        x2, y2 = scale.write(action.x2, action.y2, size)
        action = replace(action, x2=x2, y2=y2)
    return action


def snapped(action: Action, elements: Sequence[ScreenElement]) -> Action:
    """Return an action whose touch of a point is in the middle of the smallest element there.

    A slider, where the point matters, and a point beside all elements stay as they are.
    """
    if action.x is None or action.y is None or action.action_type in ("scroll", "swipe"):
        return action
    touched = [e for e in elements if e.kind != "text" and e.node.contains(action.x, action.y)]
    if not touched:
        return action
    element = min(touched, key=lambda e: (e.node.right - e.node.left) * (e.node.bottom - e.node.top))
    if element.kind == "slider":
        return action
    return replace(action, x=element.center[0], y=element.center[1])


@dataclass(frozen=True, slots=True)
class AgentPoints:
    """How an agent's points are written: a scale, or None for pixels; whether touches snap; the scale in words."""

    scale: PointScale | None
    snap: bool
    words: str

    @classmethod
    def of(cls, points: Points | None, image: tuple[int, int]) -> AgentPoints:
        """Return what the option `points` says for observations with an image of this width and height.

        Raises:
            UnknownOption: it says nothing.
        """
        scale = point_scale(points, image)
        return cls(scale, snaps(points), "" if scale is None else f"{scale_words(points, image)}\n")

    def in_pixels(self, action: Action, elements: Sequence[ScreenElement], size: tuple[int, int]) -> Action:
        """Return an agent's action in pixels of a screen of this width and height, with these elements.

        Raises:
            BadAction: a point is not on the screen.
        """
        if self.scale is not None:
            action = in_pixels(action, self.scale, size)
        return snapped(action, elements) if self.snap else action


def by_points(scale: PointScale) -> Writer:
    """Return a writer of the expert's actions for an agent that sees no list of elements."""

    def write_points(
        text: str, action: Action, elements: Sequence[ScreenElement], device: Device
    ) -> Iterator[tuple[str, Action]]:
        for step in _steps(action, elements, device):
            written = on_scale(step, scale, device.size())
            yield write(written), in_pixels(written, scale, device.size())

    return write_points


def _steps(action: Action, elements: Sequence[ScreenElement], device: Device) -> Iterator[Action]:
    """Yield what a finger does, in pixels; each step is done before the next one is asked for."""
    element = elements[action.index] if action.index is not None else None
    if action.action_type in ("scroll", "swipe"):
        (x, y), (x2, y2) = stroke(action, device, element)
        yield Action("swipe", x=x, y=y, x2=x2, y2=y2)
    elif element is None:
        yield action
    elif action.action_type == "input_text":
        yield from _typed(action, element, device)
    else:
        x, y = element.center
        yield replace(action, index=None, x=x, y=y)


def _typed(action: Action, element: ScreenElement, device: Device) -> Iterator[Action]:
    """Yield the steps that put text into a field: text that is selected is replaced.

    Raises:
        BadAction: the field offers no way to select its text.
    """
    x, y = element.center
    if action.clear_text and element.value:
        yield Action("long_press", x=x, y=y)
        if not _all_selected(device):
            tool = next((node for node in device.dump().walk() if node.text == _SELECT_ALL and node.clickable), None)
            if tool is None:
                raise BadAction(f"the text field does not offer {_SELECT_ALL!r}")
            yield Action("click", x=tool.center[0], y=tool.center[1])
    else:
        yield Action("click", x=x, y=y)
    yield replace(action, index=None, clear_text=False)


def _all_selected(device: Device) -> bool:
    """Return whether all of the text with the focus is selected, as by a long press where it is one word."""
    if not isinstance(device, DirectDevice):
        return False
    field = next((node for node in device.dump().walk() if node.editable and node.focused), None)
    return field is not None and sorted(device.phone.page.selection) == [0, len(field.text)]
