"""What an agent in a browser sees, and how it says where it acts: names of elements, points, marks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from turncredit.envs.action_formats import BROWSER_FORMATS
from turncredit.envs.errors import UnknownOption
from turncredit.envs.marks import draw_marks
from turncredit.envs.points import OffScreen, Points, PointScale, point_scale, snaps
from turncredit.envs.validation import choice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turncredit.tools.browser import BrowserAction, Element, PageView

__all__ = ["BrowserSight", "sight_of"]


@dataclass(frozen=True, slots=True)
class BrowserSight:
    """How an agent sees a page.

    Args:
        size: width and height of the image.
        images: whether observations have one.
        scale: of the agent's points; None: pixels of the image, where admissible actions name elements.
        elements: whether the text lists the elements with their names.
        marks: whether the image shows the numbers of the elements.
    """

    size: tuple[int, int]
    images: bool = False
    scale: PointScale | None = None
    elements: bool = True
    marks: bool = False

    def read(self, action: BrowserAction) -> BrowserAction | str:
        """Return an agent's action with its points in pixels, or why the agent cannot mean it."""
        if action.ref and not (self.elements or self.marks):
            return (
                "the elements have no names here: click on a point, as in click[X, Y], and write[words] into the focus"
            )
        scale = self.scale or PointScale()
        try:
            return replace(action, points=tuple(scale.pixel(x, y, self.size) for x, y in action.points))
        except OffScreen as error:
            return str(error)

    def write(self, action: BrowserAction) -> str:
        """Return an action whose points are pixels as the agent writes it."""
        scale = self.scale or PointScale()
        return str(replace(action, points=tuple(scale.write(x, y, self.size) for x, y in action.points)))

    def by_points(self, action: BrowserAction, pixel: tuple[int, int], *, filled: bool = True) -> list[str]:
        """Return the actions of the mouse and the keys that click on an element or type into it.

        Args:
            action: a click, or what to type.
            pixel: where the element is touched.
            filled: whether the element may have text, which typing replaces.
        """
        from turncredit.tools.browser import BrowserAction

        steps = [self.write(BrowserAction("click", points=(pixel,)))]
        if action.kind == "type":
            steps += ["press[Control+a]"] if filled else []
            steps.append(str(BrowserAction("write", "", action.text)) if action.text else "press[Delete]")
        return steps

    def touched(self, action: BrowserAction, view: PageView) -> list[tuple[float, float]]:
        """Return where an action in pixels touches the image, as shares of its width and height."""
        element = view.elements.get(action.ref) if action.kind in ("click", "type", "select") else None
        points = action.points or ((element.center,) if element is not None and element.center else ())
        width, height = self.size
        return [(x / width, y / height) for x, y in points if 0 <= x < width and 0 <= y < height]

    def visible(self, element: Element) -> bool:
        """Return whether the middle of an element is on the image."""
        x, y = element.center or (-1, -1)
        return 0 <= x < self.size[0] and 0 <= y < self.size[1]

    def admissible(self, view: PageView) -> list[str]:
        """Return the actions that can be listed."""
        if self.scale is None and (self.elements or self.marks):
            return view.actions()
        return list(dict.fromkeys([*self._clicks(view), *(f"scroll[{way}]" for way in view.scrolls), "wait[]"]))

    def _clicks(self, view: PageView) -> Iterator[str]:
        from turncredit.tools.browser import BrowserAction

        for element in view.elements.values():
            if element.clickable and element.center is not None and self.visible(element):
                yield self.write(BrowserAction("click", points=(element.center,)))

    def free(self, view: PageView) -> list[str]:
        """Return the forms of the actions that cannot be listed."""
        named = self.elements or self.marks
        fields = [e.ref for e in view.elements.values() if named and e.writable and not e.disabled]
        pointed = ["click[..., ...]", "double_click[...]", "drag[...]", "move[...]"] if self.images else []
        return [*(f"type[{ref}, ...]" for ref in fields), *pointed, "write[...]", "press[...]"]

    def marked(self, image: NDArray[np.uint8], view: PageView) -> NDArray[np.uint8]:
        """Return the image, with the numbers of the elements if the agent sees marks."""
        if not self.marks:
            return image
        width, height = self.size
        boxes = [(int(e.ref.removeprefix("e")), e.box) for e in view.elements.values() if e.box and self.visible(e)]
        return draw_marks(
            image, [(n, (x / width, y / height, (x + w) / width, (y + h) / height)) for n, (x, y, w, h) in boxes]
        )


def sight_of(size: tuple[int, int], screenshot: bool | str, points: Points | None, actions: str) -> BrowserSight:
    """Return how an agent sees pages, from the arguments of an environment.

    Raises:
        UnknownOption: an argument is invalid.
    """
    choice("actions", actions, BROWSER_FORMATS)
    if screenshot not in (True, False, "only", "marks"):
        raise UnknownOption(f"screenshot must be True or False, 'only' or 'marks', got {screenshot!r}")
    elements, marks = not isinstance(screenshot, str), screenshot == "marks"
    if snaps(points):
        raise UnknownOption("points are not snapped to the elements of a page, which its text does not tell exactly")
    return BrowserSight(size, bool(screenshot), point_scale(points, size), elements, marks)
