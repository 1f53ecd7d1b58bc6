"""Parts of what an agent sees: text and images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

__all__ = ["Content", "ImagePart", "TextPart", "has_images", "read_observation"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class ImagePart:
    """An image, uint8 [height, width, 3] in RGB."""

    image: NDArray[np.uint8]


Content = tuple[TextPart | ImagePart, ...]
"""The parts of one message, in order."""


def has_images(space: gymnasium.Space[Any]) -> bool:
    """Return whether the observations of a space contain an image."""
    return isinstance(space, gymnasium.spaces.Dict) and "image" in space.spaces


def read_observation(observation: Any) -> tuple[str, tuple[ImagePart, ...]]:
    """Return the text and the images of an observation: a string, or a mapping with the keys "text" and "image".

    Lone surrogates, which can be neither sent nor stored, become question marks.

    Raises:
        TypeError: an observation of another form.
    """
    if isinstance(observation, str):
        return _valid(observation), ()
    try:
        text, image = observation["text"], observation.get("image")
    except (TypeError, KeyError, IndexError, AttributeError):
        kind = type(observation).__name__
        raise TypeError(f"the observation must be a string or have the keys 'text' and 'image', got {kind}") from None
    if not isinstance(text, str):
        raise TypeError(f"the text of the observation must be a string, got {type(text).__name__}")
    text = _valid(text)
    if image is None:
        return text, ()
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise TypeError("the image of the observation must be a uint8 array of shape [height, width, 3]")
    return text, (ImagePart(image),)


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
