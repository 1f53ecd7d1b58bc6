"""Parts of what an agent sees: text and images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.png import decode_png, encode_png, pixel_key, png_size, read_png

if TYPE_CHECKING:
    import gymnasium

__all__ = ["Content", "ImagePart", "TextPart", "has_images", "read_observation"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str


class ImagePart:
    """An image: uint8 [height, width, 3] in RGB. Two of the same pixels are equal.

    It holds its pixels, or only their PNG, or only the name of a file with that; what is missing is read when it is
    asked for.
    """

    __slots__ = ("_key", "_pixels", "_source")

    def __init__(self, image: NDArray[np.uint8]) -> None:
        """Hold the pixels of an image.

        Args:
            image: uint8 [height, width, 3] in RGB.
        """
        self._pixels: NDArray[np.uint8] | None = image
        self._key = ""
        self._source: bytes | Path = b""

    @classmethod
    def stored(cls, key: str, source: bytes | Path) -> ImagePart:
        """Return an image whose pixels are read when they are asked for.

        Args:
            key: of its pixels.
            source: its PNG, or the file that holds it.
        """
        part = cls.__new__(cls)
        part._key, part._source, part._pixels = key, source, None
        return part

    @property
    def key(self) -> str:
        """Hash of the pixels and of their shape, 32 hexadecimal digits."""
        if not self._key:
            self._key = pixel_key(self.image)
        return self._key

    @property
    def image(self) -> NDArray[np.uint8]:
        """The pixels, uint8 [height, width, 3] in RGB.

        Raises:
            ImageError: the file is missing or damaged, or holds another image.
        """
        return decode_png(self._source, self._key) if self._pixels is None else self._pixels

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels.

        Raises:
            ImageError: the file is missing or damaged.
        """
        if self._pixels is None:
            return png_size(self._source)
        height, width, _ = self._pixels.shape
        return width, height

    @property
    def png(self) -> bytes:
        """The image as a PNG.

        Raises:
            ImageError: the file is missing.
        """
        if isinstance(self._source, Path):
            return read_png(self._source)
        if not self._source:
            self._source = encode_png(self.image)
        return self._source

    def compressed(self) -> ImagePart:
        """Return the same image without its pixels, which take many times the memory of its PNG."""
        return self if self._pixels is None else ImagePart.stored(self.key, self.png)

    def __eq__(self, other: object) -> bool:
        """Return whether another image has the same pixels."""
        return isinstance(other, ImagePart) and self.key == other.key

    def __hash__(self) -> int:
        """Return the hash of the key."""
        return hash(self.key)

    def __repr__(self) -> str:
        """Return the key in words."""
        return f"ImagePart({self.key})"

    def __getstate__(self) -> tuple[str, bytes | Path]:
        """Return what a pickle has of it: the key and the PNG."""
        return self.key, self._source or self.png

    def __setstate__(self, state: tuple[str, bytes | Path]) -> None:
        """Take over what `__getstate__` returned."""
        self._key, self._source = state
        self._pixels = None


Content = tuple[TextPart | ImagePart, ...]
"""The parts of one message, in order."""


def has_images(space: gymnasium.Space[object]) -> bool:
    """Return whether the observations of a space contain an image."""
    from gymnasium.spaces import Dict

    return isinstance(space, Dict) and "image" in space.spaces


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
