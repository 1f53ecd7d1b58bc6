"""The brush: a canvas with the colours of the window that is being painted."""

from __future__ import annotations

from turncredit.phone.screen.canvas import Canvas
from turncredit.phone.screen.fonts import fit, text_width
from turncredit.phone.screen.theme import palette, rgb

__all__ = ["Brush"]

Colour = tuple[int, int, int]


class Brush:
    """A canvas with the colours of the window that is being painted."""

    __slots__ = ("canvas", "colours", "dark")

    def __init__(self, canvas: Canvas, accent: str, dark: bool) -> None:
        """Paint in the colours around an accent."""
        self.canvas = canvas
        self.dark = dark
        self.colours = palette(accent, dark)

    @classmethod
    def like(cls, other: Brush, canvas: Canvas) -> Brush:
        """Return a brush with the colours of another, for a part of its canvas."""
        brush = cls.__new__(cls)
        brush.canvas, brush.dark, brush.colours = canvas, other.dark, other.colours
        return brush

    def colour(self, role: str) -> Colour:
        """Return a colour by role or as '#rrggbb'."""
        if role.startswith("#"):
            return rgb(role)
        return self.colours.get(role, self.colours["text"])

    def middle(self, text: str, left: int, right: int, y: int, size: int, colour: Colour, bold: bool = False) -> None:
        """Write a line in the middle between left and right, its middle at y."""
        shown = fit(text, size, max(1, right - left), bold)
        x = (left + right - text_width(shown, size, bold)) / 2
        self.canvas.text(shown, x, y - size * 0.58, size, colour, bold)
