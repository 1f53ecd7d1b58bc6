"""Marks on a picture: a frame around each element, and its number in a corner, so that a model can name what it sees.

Digits are bitmaps, so that marks need no font and are the same on every machine. Where numbers would cover one another
each stays on top of the frames, and later ones of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Mark", "draw_marks"]

Mark = tuple[int, tuple[float, float, float, float]]
"""A number, and left, top, right and bottom of its element as shares of the picture's width and height."""

_COLOURS: Final = ((200, 30, 60), (20, 110, 200), (10, 130, 70), (150, 60, 190), (190, 95, 0), (0, 125, 135))
_WHITE: Final = (255, 255, 255)
_DIGITS: Final = (
    *("01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110"),
    *("01110 10001 00001 00010 00100 01000 11111", "11111 00010 00100 00010 00001 10001 01110"),
    *("00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110"),
    *("00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000"),
    *("01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100"),
)
"""Seven rows of five pixels for each digit."""


def draw_marks(image: NDArray[np.uint8], marks: Iterable[Mark]) -> NDArray[np.uint8]:
    """Return a copy of an image, uint8 [H, W, 3], with a frame and a number for each mark.

    What is not on the image is left out.
    """
    drawn = image.copy()
    height, width, _ = drawn.shape
    boxes = [(number, _pixels(box, width, height)) for number, box in marks]
    boxes = [(number, box) for number, box in boxes if box[0] < box[2] and box[1] < box[3]]
    for number, box in boxes:
        _frame(drawn, box, _COLOURS[number % len(_COLOURS)])
    zoom = max(1, round(min(width, height) / 270))
    for number, (left, top, _, _) in boxes:
        tag = _tag(number, zoom)
        high, wide, _ = tag.shape
        top, left = max(0, min(top, height - high)), max(0, min(left, width - wide))
        drawn[top : top + high, left : left + wide] = tag[: height - top, : width - left]
    return drawn


def _pixels(box: tuple[float, float, float, float], width: int, height: int) -> tuple[int, int, int, int]:
    left, top, right, bottom = box
    return (
        max(0, round(left * width)),
        max(0, round(top * height)),
        min(width, round(right * width)),
        min(height, round(bottom * height)),
    )


def _frame(image: NDArray[np.uint8], box: tuple[int, int, int, int], colour: tuple[int, int, int]) -> None:
    left, top, right, bottom = box
    image[top:bottom, [left, right - 1]] = colour
    image[[top, bottom - 1], left:right] = colour


def _tag(number: int, zoom: int) -> NDArray[np.uint8]:
    """Return a number in white on its colour, uint8 [9 zoom, (6 digits + 1) zoom, 3]."""
    digits = [int(digit) for digit in str(number)]
    bits = np.zeros((9, 6 * len(digits) + 1), bool)
    for position, digit in enumerate(digits):
        rows = [[bit == "1" for bit in row] for row in _DIGITS[digit].split()]
        bits[1:8, 6 * position + 1 : 6 * position + 6] = rows
    large = bits.repeat(zoom, axis=0).repeat(zoom, axis=1)
    return np.where(large[..., None], _WHITE, _COLOURS[number % len(_COLOURS)]).astype(np.uint8)
