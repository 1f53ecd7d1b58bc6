"""Smooth shapes, icons and texts on an image. The one module that draws with Pillow, and knows the font.

Pillow's own shapes have hard edges, so round corners, discs and icons are masks: drawn once at four times their size,
reduced, and kept. Needs the extra `phone`: Pillow, and Roboto from the package `font-roboto` (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from turncredit.installation import MissingPackage, needs
from turncredit.phone.toolkit.icons import ICONS, Stroke

if TYPE_CHECKING:
    from PIL import ImageDraw as drawing
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

__all__ = ["Canvas"]

Colour = tuple[int, int, int]
_JOINERS: Final = "\u200d\ufe0e\ufe0f"  # of emoji; they have no shape of their own
_NO_CHARACTER: Final = "\U0010fffe"
_OVER: Final = 4  # times that masks are drawn larger
_SMOOTH: Final = 2  # times that parts are drawn larger


class Canvas:
    """An image to draw on. Coordinates and sizes are in the phone's pixels; `scale` makes them the image's."""

    __slots__ = ("draw", "image", "reduced", "scale")

    def __init__(self, size: tuple[int, int], scale: float, colour: Colour) -> None:
        """Fill an image of `size` pixels.

        Raises:
            ModuleNotFoundError: Pillow is absent; the message names the extra.
        """
        try:
            from PIL import Image, ImageDraw
        except ModuleNotFoundError:
            raise MissingPackage(needs("screenshots need Pillow", "phone")) from None
        self.image: Image.Image = Image.new("RGB", size, colour)
        self.draw: drawing.ImageDraw = ImageDraw.Draw(self.image)
        self.scale = scale
        self.reduced = False  # a part, which is drawn larger and then reduced: hard edges will do

    def _at(self, value: float) -> int:
        return round(value * self.scale)

    def box(self, left: float, top: float, right: float, bottom: float, colour: Colour, radius: float = 0) -> None:
        """Fill a rectangle with round corners."""
        x, y, x2, y2 = self._at(left), self._at(top), self._at(right), self._at(bottom)
        if x2 <= x or y2 <= y:
            return
        corner = min(self._at(radius), (x2 - x) // 2, (y2 - y) // 2)
        if corner < 1:
            self.draw.rectangle((x, y, x2 - 1, y2 - 1), colour)
            return
        if x2 - x > 2 * corner:
            self.draw.rectangle((x + corner, y, x2 - corner - 1, y2 - 1), colour)
        if y2 - y > 2 * corner:
            self.draw.rectangle((x, y + corner, x + corner - 1, y2 - corner - 1), colour)
            self.draw.rectangle((x2 - corner, y + corner, x2 - 1, y2 - corner - 1), colour)
        for mask, at in zip(
            _corners(corner),
            ((x, y), (x2 - corner, y), (x, y2 - corner), (x2 - corner, y2 - corner)),
            strict=True,
        ):
            self.image.paste(colour, at, mask)

    def frame(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        colour: Colour,
        inner: Colour,
        radius: float,
        width: float,
    ) -> None:
        """Draw the outline of a rectangle with round corners, filled with another colour."""
        self.box(left, top, right, bottom, colour, radius)
        self.box(left + width, top + width, right - width, bottom - width, inner, max(0.0, radius - width))

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        """Fill a disc around a point."""
        size = max(1, self._at(2 * radius))
        if self.reduced:
            left, top = self._at(x - radius), self._at(y - radius)
            self.draw.ellipse((left, top, left + size - 1, top + size - 1), colour)
            return
        self.image.paste(colour, (self._at(x - radius), self._at(y - radius)), _disc(size))

    def icon(self, name: str, x: float, y: float, size: float, colour: Colour) -> None:
        """Draw an icon with its upper left corner at a point; a name that is not known draws nothing."""
        pixels = self._at(size)
        if name in ICONS and pixels > 0:
            self.image.paste(colour, (self._at(x), self._at(y)), _icon(name, pixels))

    def text(self, text: str, x: float, y: float, size: float, colour: Colour, bold: bool = False) -> None:
        """Write a line whose box of `size` has its upper left corner at a point."""
        if text:
            mask, dx, dy = _text(text, max(4, self._at(size)), bold)
            if mask is not None:
                self.image.paste(colour, (self._at(x) + dx, self._at(y) + dy), mask)

    def label(
        self, text: str, x: float, y: float, size: float, colour: Colour, angle: float, halo: Colour | None
    ) -> None:
        """Write a line around a point, turned clockwise by an angle in degrees, on a halo of a colour."""
        mask, edge = _label(text, max(4, self._at(size)), round(angle))
        if mask is not None and edge is not None:
            at = (self._at(x) - mask.width // 2, self._at(y) - mask.height // 2)
            if halo is not None:
                self.image.paste(halo, at, edge)
            self.image.paste(colour, at, mask)

    def part(self, width: float, height: float) -> Canvas:
        """Return a canvas of this size to be `put` on this one; what is drawn beyond its edges is cut."""
        size = max(1, self._at(width) * _SMOOTH), max(1, self._at(height) * _SMOOTH)
        canvas = Canvas(size, self.scale * _SMOOTH, (0, 0, 0))
        canvas.reduced = True
        return canvas

    def put(self, part: Canvas, left: float, top: float, radius: float) -> None:
        """Put a part with its upper left corner at a point, with round corners."""
        image, at = part.image.reduce(_SMOOTH), (self._at(left), self._at(top))
        mask = _rounded(image.size, self._at(radius)) if radius else None
        self.image.paste(image, at, mask)

    def put_back(self, before: Image, left: float, top: float, right: float, bottom: float) -> None:
        """Make everything outside of a rectangle as it was in an image of the same size."""
        area = self._at(left), self._at(top), self._at(right), self._at(bottom)
        inside = self.image.crop(area)
        self.image.paste(before)
        self.image.paste(inside, area[:2])

    def line(self, points: Sequence[tuple[float, float]], colour: Colour, width: float) -> None:
        """Draw a line through points."""
        scaled = [(round(x * self.scale), round(y * self.scale)) for x, y in points]
        self.draw.line(scaled, colour, max(1, self._at(width)), joint="curve")

    def polygon(self, points: Sequence[tuple[float, float]], colour: Colour) -> None:
        """Fill a polygon."""
        self.draw.polygon([(x * self.scale, y * self.scale) for x, y in points], colour)

    def gradient(self, top: Colour, bottom: Colour) -> None:
        """Fill the image from above to below."""
        self.image.paste(_gradient(self.image.size, top, bottom))

    def dim(self, share: float) -> None:
        """Darken everything drawn so far."""
        self.image = self.image.point(_dimming(share))
        from PIL import ImageDraw

        self.draw = ImageDraw.Draw(self.image)


@lru_cache(maxsize=8)
def _dimming(share: float) -> list[int]:
    return [int(value * share) for value in range(256)] * 3


@lru_cache(maxsize=8)
def _gradient(size: tuple[int, int], top: Colour, bottom: Colour) -> Image:
    from PIL import Image

    column = Image.new("RGB", (1, 64))
    for y in range(64):
        part = y / 63
        column.putpixel((0, y), tuple(round(a + (b - a) * part) for a, b in zip(top, bottom, strict=True)))
    return column.resize(size, Image.Resampling.BICUBIC)


@lru_cache(maxsize=32)
def _rounded(size: tuple[int, int], radius: int) -> Image:
    """Return a mask of a rectangle with round corners."""
    from PIL import Image, ImageDraw

    mask = Image.new("L", (size[0] * 2, size[1] * 2), 0)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, size[0] * 2 - 1, size[1] * 2 - 1), radius * 2, 255)
    return mask.reduce(2)


@lru_cache(maxsize=2048)
def _label(text: str, size: int, angle: int) -> tuple[Image | None, Image | None]:
    """Return a line as a mask, turned by an angle, and the mask of its halo."""
    from PIL import Image, ImageDraw

    font, halo = _font(size, True), max(2, size // 5)
    left, top, right, bottom = (int(part) for part in font.getbbox(text))
    if right <= left or bottom <= top:
        return None, None
    box = (right - left + 2 * halo, bottom - top + 2 * halo)
    mask, edge = Image.new("L", box, 0), Image.new("L", box, 0)
    ImageDraw.Draw(mask).text((halo - left, halo - top), text, 255, font=font)
    ImageDraw.Draw(edge).text((halo - left, halo - top), text, 255, font=font, stroke_width=halo)
    if angle % 360:
        turn = Image.Resampling.BICUBIC
        mask, edge = mask.rotate(-angle, turn, expand=True), edge.rotate(-angle, turn, expand=True)
    return mask, edge


@lru_cache(maxsize=512)
def _disc(size: int) -> Image:
    from PIL import Image, ImageDraw

    mask = Image.new("L", (size * _OVER, size * _OVER), 0)
    ImageDraw.Draw(mask).ellipse((0, 0, size * _OVER - 1, size * _OVER - 1), 255)
    return mask.resize((size, size), Image.Resampling.BOX)


@lru_cache(maxsize=512)
def _corners(radius: int) -> tuple[Image, Image, Image, Image]:
    disc = _disc(2 * radius)
    full = 2 * radius
    return (
        disc.crop((0, 0, radius, radius)),
        disc.crop((radius, 0, full, radius)),
        disc.crop((0, radius, radius, full)),
        disc.crop((radius, radius, full, full)),
    )


@lru_cache(maxsize=1024)
def _icon(name: str, size: int) -> Image:
    from PIL import Image, ImageDraw

    mask = Image.new("L", (size * _OVER, size * _OVER), 0)
    draw = ImageDraw.Draw(mask)
    unit = size * _OVER / 24
    for shape in ICONS[name]:
        _shape(draw, shape, unit, max(2, round(1.9 * unit)))
    return mask.resize((size, size), Image.Resampling.BOX)


def _shape(draw: drawing.ImageDraw, shape: Stroke, unit: float, width: int) -> None:
    """Draw one shape of an icon in white."""
    kind, *parts = shape
    if kind in ("line", "fill"):
        points = [(x * unit, y * unit) for x, y in parts[0]]
        if kind == "fill":
            draw.polygon(points, 255)
            return
        closed = parts[1]
        draw.line([*points, points[0], points[1]] if closed else points, 255, width, joint="curve")
        for x, y in () if closed else (points[0], points[-1]):
            draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), 255)
    elif kind == "arc":
        x, y, radius, start, end = parts
        reach = radius * unit + width / 2
        draw.arc((x * unit - reach, y * unit - reach, x * unit + reach, y * unit + reach), start, end, 255, width)
    elif kind in ("disc", "ring"):
        x, y, radius = (part * unit for part in parts)
        reach = radius if kind == "disc" else radius + width / 2
        bounds = (x - reach, y - reach, x + reach, y + reach)
        draw.ellipse(bounds, 255) if kind == "disc" else draw.ellipse(bounds, outline=255, width=width)
    else:
        left, top, right, bottom, radius = (part * unit for part in parts)
        if kind == "box":
            draw.rounded_rectangle((left, top, right, bottom), radius, 255)
        else:
            draw.rounded_rectangle((left, top, right, bottom), radius, outline=255, width=width)


@lru_cache(maxsize=128)
def _font(size: int, bold: bool) -> FreeTypeFont:
    from PIL import ImageFont

    try:
        folder = files("font_roboto")
    except ModuleNotFoundError:
        raise MissingPackage(needs("screenshots need the font Roboto", "phone")) from None
    path = str(folder / "files" / f"Roboto-{'Medium' if bold else 'Regular'}.ttf")
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=4096)
def _drawable(character: str) -> str:
    """Return a character as Roboto can draw it: a bullet for one that the font lacks, such as an emoji."""
    if character in _JOINERS:
        return ""
    if not character.isprintable():
        return " "
    font = _font(40, False)
    missing = bytes(font.getmask(character)) == bytes(font.getmask(_NO_CHARACTER))
    return "\u2022" if missing else character


@lru_cache(maxsize=8192)
def _text(text: str, size: int, bold: bool) -> tuple[Image | None, int, int]:
    """Return a line as a mask, and where its upper left corner lies in the line's box."""
    from PIL import Image, ImageDraw

    font = _font(size, bold)
    safe = text if text.isascii() and text.isprintable() else "".join(map(_drawable, text))
    left, top, right, bottom = (int(part) for part in font.getbbox(safe))
    if right <= left or bottom <= top:
        return None, 0, 0
    mask = Image.new("L", (right - left, bottom - top), 0)
    ImageDraw.Draw(mask).text((-left, -top), safe, 255, font=font)
    return mask, left, top
