"""Points on a screen as models write them: in pixels of the screen, in pixels of a picture, or on a scale of their own.

    "pixels"         pixels of the screen                 "0..1000"   0 is the first pixel and 1000 the last
    "image"          pixels of the observation's image    "0..999"    0 is the first pixel and 999 the last
    (width, height)  pixels of a picture of this size, such as the one that a model's processor makes of the image
    {"scale": any of these, "snap": True}      a touch of a point is one of the middle of the element there

One formula serves them all: c of 0..m is the pixel round(c (side - 1) / m), and the pixel p is written as
round(p m / (side - 1)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.validation import choice, flag, integer

__all__ = ["OffScreen", "PointScale", "Points", "point_scale", "scale_words", "snaps"]

Points = str | Sequence[int] | Mapping[str, object]
"""What the option `points` of an environment takes; see the header of this module."""

Pixel = tuple[int, int]
_SCALES: Final = {"0..999": 999, "0..1000": 1000}
_NAMES: Final = ("pixels", "image", *_SCALES)


class OffScreen(ValueError):
    """The point is not on the screen."""


@dataclass(frozen=True, slots=True)
class PointScale:
    """How points are written.

    Args:
        largest: the largest x and y; None: those of the screen, in pixels.
    """

    largest: Pixel | None = None

    def pixel(self, x: int, y: int, size: Pixel) -> Pixel:
        """Return the pixel of a point on a screen of this width and height.

        Raises:
            OffScreen: it is not on the screen.

        >>> PointScale((1000, 1000)).pixel(500, 1000, (1080, 2400))
        (540, 2399)
        """
        right, bottom = self.limits(size)
        if not (0 <= x <= right and 0 <= y <= bottom):
            raise OffScreen(f"({x}, {y}) is not on the screen: x goes from 0 to {right} and y from 0 to {bottom}")
        return _rescaled(x, right, size[0] - 1), _rescaled(y, bottom, size[1] - 1)

    def write(self, x: int, y: int, size: Pixel) -> Pixel:
        """Return how a pixel of a screen of this width and height is written; a pixel beside it becomes the nearest.

        >>> PointScale((1000, 1000)).write(540, 2399, (1080, 2400))
        (500, 1000)
        """
        right, bottom = self.limits(size)
        x, y = min(max(x, 0), size[0] - 1), min(max(y, 0), size[1] - 1)
        return _rescaled(x, size[0] - 1, right), _rescaled(y, size[1] - 1, bottom)

    def limits(self, size: Pixel) -> Pixel:
        """Return the largest x and y on a screen of this width and height."""
        return self.largest or (size[0] - 1, size[1] - 1)


def _rescaled(value: int, old: int, new: int) -> int:
    """Return round(value new / old) in whole numbers, halves upwards."""
    return (2 * value * new + old) // (2 * old) if old else 0


def point_scale(points: Points | None, image: Pixel) -> PointScale | None:
    """Return the scale that the option `points` names; None if it is None.

    Args:
        points: see the header of this module.
        image: width and height of the observation's image.

    Raises:
        UnknownOption: it names none.
    """
    if points is None:
        return None
    if isinstance(points, Mapping):
        return point_scale(_scale_of(points), image)
    if isinstance(points, str) and points in _NAMES:
        if points == "image":
            return PointScale((image[0] - 1, image[1] - 1))
        return PointScale((_SCALES[points], _SCALES[points]) if points in _SCALES else None)
    if isinstance(points, str) or not isinstance(points, Sequence) or len(points) != 2:
        names = ", ".join(map(repr, _NAMES))
        raise UnknownOption(
            f"points must be one of {names}, a pair of width and height, or a table of scale and snap, got {points!r}"
        )
    width, height = (integer("points", side, 2, 16384) for side in points)
    return PointScale((width - 1, height - 1))


def _scale_of(points: Mapping[str, object]) -> Points:
    """Return the scale that a table names.

    Raises:
        UnknownOption: it has other keys, or no scale.
    """
    for name in points:
        choice("key of points", name, ("scale", "snap"))
    scale = points.get("scale", "pixels")
    if not isinstance(scale, str | Sequence):
        raise UnknownOption(f"the scale of points must be a name, or a pair of width and height, got {scale!r}")
    return scale


def snaps(points: Points | None) -> bool:
    """Return whether a touch of a point is one of the middle of the element there.

    Raises:
        UnknownOption: snap is neither True nor False.
    """
    return isinstance(points, Mapping) and flag("snap", points.get("snap", False))


def scale_words(points: Points | None, image: Pixel) -> str:
    """Return a sentence that says how points are written.

    >>> scale_words("0..999", (540, 1200))
    'X goes from 0 at the left edge to 999 at the right edge, Y from 0 at the top to 999 at the bottom.'
    """
    scale = point_scale(points, image)
    if scale is None or scale.largest is None:
        return "X and Y are pixels of the screen, counted from the top left corner."
    right, bottom = scale.largest
    return (
        f"X goes from 0 at the left edge to {right} at the right edge, Y from 0 at the top to {bottom} at the bottom."
    )
