"""Small drawings as PNG files. A text in the file names the drawing, so that the Gallery can draw it in any size."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from math import ceil, floor
from typing import Final

from turncredit.phone.toolkit.widgets import Shape
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["HEIGHT", "KINDS", "WIDTH", "drawing_of", "png", "scene"]

WIDTH, HEIGHT = 96, 72
KINDS: Final = ("Hills", "Harbour", "Forest", "Town", "Flowers", "Night sky")
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_SKIES: Final = ("#bfe0f5", "#f6d9b8", "#cfd8ea", "#f4c6bd", "#d8eee2")
_GREENS: Final = ("#7fa66b", "#5f8f5a", "#97b56c", "#6d9a7a", "#4d7a55")
_BRIGHTS: Final = ("#e2604f", "#f0b13c", "#8d6fc4", "#4d94b8", "#d76ba3", "#ffffff")


def _box(x1: float, y1: float, x2: float, y2: float, colour: str) -> Shape:
    return Shape("box", ((x1, y1), (x2, y2)), colour)


def _disc(x: float, y: float, radius: float, colour: str) -> Shape:
    return Shape("disc", ((x - radius, y - radius), (x + radius, y + radius)), colour)


def _triangle(x: float, y: float, wide: float, high: float, colour: str) -> Shape:
    return Shape("polygon", ((x - wide / 2, y), (x, y - high), (x + wide / 2, y)), colour)


def _hill(x: float, top: float, colour: str) -> Shape:
    """Return a round hill that ends where the drawing ends."""
    across = [WIDTH * n / 24 for n in range(25)]
    heights = [(at, top + (at - x) ** 2 / 90) for at in across]
    outline = [(at, y) for at, y in heights if y < HEIGHT]
    return Shape("polygon", ((outline[0][0], HEIGHT), *outline, (outline[-1][0], HEIGHT)), colour)


@lru_cache(maxsize=256)
def scene(kind: str, number: int) -> tuple[Shape, ...]:
    """Return a drawing of a kind, WIDTH x HEIGHT; the number chooses its details."""
    random = KeyedRandom(f"drawing/{kind}/{number}")
    sky = "#1d2a4d" if kind == "Night sky" else random.pick(_SKIES)
    sun = _disc(random.between(14, 82), random.between(10, 24), random.between(5, 8), "#fff3c9")
    shapes = [_box(0, 0, WIDTH, HEIGHT, sky), sun]
    if kind == "Harbour":
        shapes.append(_box(0, 40, WIDTH, HEIGHT, "#5b93b3"))
        for _ in range(random.between(2, 4)):
            x, y, sail = random.between(12, 84), random.between(46, 64), random.pick(_BRIGHTS)
            shapes += [_triangle(x, y - 2, 12, 18, sail), _box(x - 8, y - 1, x + 8, y + 3, "#6b4a3a")]
    elif kind == "Town":
        shapes.append(_box(0, 60, WIDTH, HEIGHT, "#8d8f98"))
        for x in range(2, 90, 16):
            top, wall = random.between(24, 46), random.pick(("#d9b99b", "#c98d76", "#e6d3a8", "#a9b7c4"))
            shapes += [_box(x, top, x + 14, 62, wall), _triangle(x + 7, top, 16, 9, "#94503f")]
            shapes += [_box(x + 3 + 5 * n, top + 5, x + 6 + 5 * n, top + 10, "#46586b") for n in (0, 1)]
    else:
        back, front = random.pick(_GREENS), random.pick(_GREENS[1:])
        shapes += [_hill(random.between(8, 34), 40, back), _hill(random.between(60, 90), 43, front)]
        if kind == "Forest":
            for _ in range(random.between(6, 9)):
                x, y = random.between(6, 90), random.between(48, 70)
                shapes += [
                    _box(x - 1, y - 2, x + 1, y + 2, "#5d4637"),
                    _triangle(x, y - 1, 12, 22, random.pick(_GREENS)),
                ]
        elif kind == "Flowers":
            for _ in range(random.between(7, 11)):
                x, y, petal = random.between(6, 90), random.between(44, 66), random.pick(_BRIGHTS)
                shapes += [
                    _box(x - 0.6, y, x + 0.6, y + 9, "#3f6b43"),
                    _disc(x, y, 4, petal),
                    _disc(x, y, 1.6, "#f6d155"),
                ]
        elif kind == "Night sky":
            shapes += [_disc(random.between(3, 93), random.between(3, 38), 0.9, "#ffffff") for _ in range(16)]
    return tuple(shapes)


@lru_cache(maxsize=256)
def png(kind: str, number: int) -> bytes:
    """Return a drawing as a PNG file of WIDTH x HEIGHT pixels. The bytes are the same with every version of zlib."""
    shapes = scene(kind, number)
    colours = list(dict.fromkeys(shape.colour for shape in shapes))
    rows = [bytearray(WIDTH) for _ in range(HEIGHT)]
    for shape in shapes:
        index = colours.index(shape.colour)
        heights = [y for _, y in shape.points]
        for y in range(max(0, floor(min(heights))), min(HEIGHT, ceil(max(heights)))):
            left, right = _span(shape, y + 0.5)
            first, last = max(0, round(left)), min(WIDTH, round(right))
            if last > first:
                rows[y][first:last] = bytes([index]) * (last - first)
    pixels = b"".join(b"\0" + bytes(row) for row in rows)
    parts = [
        _chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", b"".join(bytes.fromhex(colour[1:]) for colour in colours)),
        _chunk(b"tEXt", f"Title\0{kind} {number}".encode()),
        _chunk(b"IDAT", _stored(pixels)),
        _chunk(b"IEND", b""),
    ]
    return _PNG + b"".join(parts)


def drawing_of(data: bytes) -> tuple[str, int] | None:
    """Return kind and number of a drawing in a PNG file, or None if it is another picture."""
    start = data.find(b"tEXtTitle\0") if data.startswith(_PNG) else -1
    if start < 4:
        return None
    size = int.from_bytes(data[start - 4 : start], "big")
    kind, _, number = data[start + 10 : start + 4 + size].decode("latin-1").rpartition(" ")
    return (kind, int(number)) if kind in KINDS and number.isdecimal() and len(number) < 9 else None


def _span(shape: Shape, y: float) -> tuple[float, float]:
    """Return from where to where a shape covers the line at height `y`; right is not above left if it does not."""
    (x1, y1), (x2, y2) = shape.points[0], shape.points[1]
    if shape.kind == "box":
        return (x1, x2) if y1 <= y <= y2 else (0, 0)
    if shape.kind == "disc":
        radius, away = (x2 - x1) / 2, abs(y - (y1 + y2) / 2)
        half = (radius * radius - away * away) ** 0.5 if away < radius else 0.0
        return (x1 + x2) / 2 - half, (x1 + x2) / 2 + half
    crossings = [
        left + (right - left) * (y - above) / (below - above)
        for (left, above), (right, below) in zip(shape.points, shape.points[1:] + shape.points[:1], strict=True)
        if min(above, below) <= y < max(above, below)
    ]
    return (min(crossings), max(crossings)) if crossings else (0, 0)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _stored(data: bytes) -> bytes:
    """Return a zlib stream of one block without compression."""
    block = b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    return b"\x78\x01" + block + struct.pack(">I", zlib.adler32(data))
