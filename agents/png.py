"""Images as PNG files, losslessly: 8 bits a channel, RGB, rows without a filter, which screens compress well with.

Not included: PNG files that other programs wrote.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.root_errors import ImageError
from turncredit.tools.bounded_input import InputError, read_bytes

__all__ = ["decode_png", "encode_png", "pixel_key", "png_size", "read_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FORMAT = (8, 2, 0, 0, 0)
"""Bits of a channel, colour type, compression, filter method, interlace: RGB."""
_MOST_PIXELS = 64_000_000


def pixel_key(image: NDArray[np.uint8]) -> str:
    """Return a hash of pixels and shape, 32 hexadecimal digits.

    Args:
        image: uint8 [height, width, 3].
    """
    shape = struct.pack(">3I", *image.shape)
    return hashlib.blake2b(shape + image.tobytes(), digest_size=16).hexdigest()


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """Return an image as a PNG.

    Args:
        image: uint8 [height, width, 3] in RGB.
    """
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row starts with the number of its filter, 0
    rows[:, 1:] = image.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, *_FORMAT)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def decode_png(source: bytes | Path, key: str) -> NDArray[np.uint8]:
    """Return the image in a PNG of `encode_png`, uint8 [height, width, 3].

    Args:
        source: the PNG, or its file.
        key: of the pixels.

    Raises:
        ImageError: the file is missing or damaged, or holds another image.
    """
    where = f"the image {key}" if isinstance(source, bytes) else str(source)
    data = source if isinstance(source, bytes) else read_png(source)
    try:
        image = _decoded(data)
    except (ValueError, struct.error, zlib.error) as error:
        raise ImageError(f"{where} is damaged: {error}") from error
    if pixel_key(image) != key:
        raise ImageError(f"{where} holds another image than its name says")
    return image


def read_png(file: Path) -> bytes:
    """Return the content of a file.

    Raises:
        ImageError: it cannot be read.
    """
    try:
        return read_bytes(file, max_bytes=4 * _MOST_PIXELS)
    except OSError as error:
        raise ImageError(f"the image {file} could not be read: {error.strerror}") from error
    except InputError as error:
        raise ImageError(f"the image {file} is damaged: {error}") from error


def png_size(source: bytes | Path) -> tuple[int, int]:
    """Return width and height of the image in a PNG, or in its file.

    Raises:
        ImageError: the file is missing or damaged.
    """
    data = source if isinstance(source, bytes) else read_png(source)
    if not data.startswith(_SIGNATURE) or len(data) < 24:
        raise ImageError("the image is damaged: it is no PNG")
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _decoded(data: bytes) -> NDArray[np.uint8]:
    if not data.startswith(_SIGNATURE):
        raise ValueError("it is no PNG")
    chunks = dict(_chunks(data))
    if not {b"IHDR", b"IDAT", b"IEND"} <= chunks.keys():
        raise ValueError("its end is missing")
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if tuple(form) != _FORMAT or not 0 < width * height <= _MOST_PIXELS:
        raise ValueError("it is no RGB image of this format")
    size = height * (1 + 3 * width)
    rows = np.frombuffer(zlib.decompressobj().decompress(chunks[b"IDAT"], size + 1), np.uint8)
    if len(rows) != size or rows[:: 1 + 3 * width].any():
        raise ValueError("its rows have another size or a filter")
    return rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the data of each chunk."""
    at = len(_SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if checksum != zlib.crc32(name + content):
            raise ValueError("a checksum is wrong")
        yield name, content
        at += 12 + length
