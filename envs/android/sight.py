"""How an agent sees a phone, and how it says where it touches the screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from turncredit.envs.action_formats import ACTION_FORMATS
from turncredit.envs.android.actions import Action, BadAction, NotAnAction, parse, write
from turncredit.envs.android.elements import folded
from turncredit.envs.android.examples import examples, explained
from turncredit.envs.android.performing import Touched, perform
from turncredit.envs.android.phone_agent import phone_agent, phone_instructions
from turncredit.envs.android.pointing import by_points, in_pixels, on_scale, snapped
from turncredit.envs.android.screen_text import FORMATS, Format, ScreenView, view_of
from turncredit.envs.errors import UnknownOption
from turncredit.envs.marks import draw_marks
from turncredit.envs.points import Points, PointScale, point_scale, snaps
from turncredit.envs.validation import choice, integer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turncredit.envs.android.tasks.expert import Writer
    from turncredit.tools.android.device import Device

__all__ = ["PhoneSight", "ScreenView", "phone_agent", "sight_of"]

_OBSERVATIONS: Final = ("text", "screen", "marks")


@dataclass(frozen=True, slots=True)
class PhoneSight:
    """What an agent sees of a phone.

    Args:
        format: how the screen is listed as text.
        size: width and height of the image.
        images: whether observations have one.
        marks: whether it shows the numbers of the elements.
        scale: scale of the agent's points; None: pixels of the screen, where admissible actions name elements.
        snap: whether a touch of a point is one of the middle of the element there.
        intro: what the first observation says about actions.
    """

    format: Format
    size: tuple[int, int]
    images: bool = False
    marks: bool = False
    scale: PointScale | None = None
    snap: bool = False
    intro: str = ""

    @property
    def writer(self) -> Writer:
        """How the expert writes its actions for this agent."""
        return self.format.expert if self.scale is None else by_points(self.scale)

    def look(self, device: Device, apps: Sequence[str]) -> ScreenView:
        """Return the screen as the agent sees it.

        Args:
            device: the phone.
            apps: names of the apps that can be opened.
        """
        return view_of(device.dump(), device.size(), self.format.name, tuple(apps), self.scale)

    def picture(self, device: Device, view: ScreenView) -> NDArray[np.uint8]:
        """Return the image, uint8 [H, W, 3]; marks number what the text lists, or else what can be touched."""
        image = device.screenshot(self.size)
        if not self.marks:
            return image
        width, height = device.size()
        elements = [e for e in view.elements if self.format.name != "none" or e.kind != "text"]
        bounds = [(element.index, element.node.bounds) for element in elements]
        return draw_marks(image, [(n, (a / width, b / height, c / width, d / height)) for n, (a, b, c, d) in bounds])

    def act(self, text: str, device: Device, apps: Mapping[str, str], view: ScreenView) -> tuple[Action, Touched]:
        """Do what an agent says; return the action in pixels, and the pixels that it touched.

        Raises:
            BadAction: the text stands for no action, or for one that this agent cannot mean or the screen refuses.
            DeviceLost: the device is gone.
        """
        try:
            action = parse(text)
        except NotAnAction as error:
            numbered = self.format.name != "none" or self.marks
            shown = examples(view.elements, device.size(), apps, numbered=numbered, scale=self.scale)
            raise explained(error, shown) from None
        if action.index is not None and self.format.name == "none" and not self.marks:
            raise BadAction("the elements have no numbers here: touch a point, as in tap X Y, and type into the focus")
        if self.scale is not None:
            action = in_pixels(action, self.scale, device.size())
        if self.snap:
            action = snapped(action, view.elements)
        return action, perform(action, device, view.elements, apps)

    def steps(self, action: str, touch: tuple[int, int] | None, device: Device) -> Iterator[str]:
        """Yield how this agent does what an action on elements as `folded` numbers them says.

        Args:
            action: in the short grammar, or JSON.
            touch: the pixel that it taps or holds; None: the middle of its element.
            device: on which each one is done before the next is asked for.
        """
        elements, parsed = folded(device.dump(), device.size()), parse(action)
        if touch is not None and self.scale is not None:
            parsed = replace(parsed, index=None, x=touch[0], y=touch[1])
        if parsed.index is not None and not parsed.index < len(elements):
            raise BadAction(f"there is no element {parsed.index}")
        yield from (text for text, _ in self.writer(action, parsed, elements, device))

    def written(self, actions: Sequence[str], size: tuple[int, int]) -> list[str]:
        """Return actions whose points are pixels of a screen of this width and height as the agent writes them."""
        scale = self.scale
        return list(actions) if scale is None else [write(on_scale(parse(text), scale, size)) for text in actions]

    def arguments(self) -> dict[str, object]:
        """Return what changes the meaning of actions, for snapshots."""
        pointed = {"scale": self.scale and self.scale.largest, "snap": self.snap} if self.scale or self.snap else {}
        return {"format": self.format.name, **({"points": repr(pointed)} if pointed else {})}


def sight_of(
    observation: str, format: str, size: object, points: Points | None, actions: str, instructions: bool
) -> PhoneSight:
    """Return how an agent sees phones, from the arguments of an environment.

    Raises:
        UnknownOption: an argument is invalid, or the agent would see nothing.
    """
    images = choice("observation", observation, _OBSERVATIONS) != "text"
    if choice("format", format, FORMATS) == "none" and not images:
        raise UnknownOption("format='none' shows no elements, so it goes with observation='screen' or 'marks'")
    marks, pixels = observation == "marks", _pixels(size)
    scale, snap = point_scale(points, pixels), snaps(points)
    explained = instructions and choice("actions", actions, ACTION_FORMATS) == "words"
    intro = phone_instructions(marks or format != "none", points, pixels) if explained else ""
    return PhoneSight(FORMATS[format], pixels, images, marks, scale, snap, intro)


def _pixels(size: object) -> tuple[int, int]:
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise UnknownOption(f"size must be a pair of width and height, got {size!r}")
    return integer("size", size[0], 16, 4096), integer("size", size[1], 16, 4096)
