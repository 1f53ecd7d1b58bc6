"""Boxes: the nodes of a screen with what the painter draws and what a touch does. Also measures and text styles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from turncredit.phone.screen.fonts import fit, text_width, wrap
from turncredit.phone.toolkit.state import AppPage
from turncredit.tools.android.node import Node

__all__ = ["STYLES", "Paint", "Pen", "TextRow", "TextStyle", "UiBox", "clip", "dp", "shift"]

_DP: Final = 2.625  # pixels per dp: 420 dots per inch

Paint = tuple[Any, ...]
"""One instruction of the painter: its kind, then arguments. Positions are relative to the box."""


@lru_cache(maxsize=1024)
def dp(size: float) -> int:
    """Return dp in pixels."""
    return round(size * _DP)


@dataclass(slots=True, eq=False)
class UiBox(Node):
    """A node of a screen. Clipping cuts its bounds; `cut` remembers how much, so that it is painted in place."""

    paint: tuple[Paint, ...] = ()
    widget: Any = None  # what a touch acts on, if it can be touched
    cut: tuple[int, int] = (0, 0)  # pixels hidden above and below

    @property
    def full(self) -> tuple[int, int, int, int]:
        """The bounds before clipping."""
        return self.left, self.top - self.cut[0], self.right, self.bottom + self.cut[1]


class TextRow(UiBox):
    """A row of texts, whose boxes are made when `children` are first asked for: readers of the text never ask.

    Until then `texts` and `buttons` say all that matters of what is in the row.
    """

    __slots__ = ("_fill", "buttons", "texts")

    def __init__(
        self,
        bounds: tuple[int, int, int, int],
        package: str,
        texts: list[str],
        buttons: list[Node],
        fill: Callable[[TextRow], list[Node]],
    ) -> None:
        """Make a row without the boxes in it.

        Args:
            bounds: left, top, right and bottom.
            package: of the app.
            texts: of the boxes that cannot be touched apart from the row, in their order.
            buttons: the boxes that can.
            fill: returns all boxes, `buttons` among them.
        """
        super().__init__("android.widget.LinearLayout", *bounds, package=package)
        self.texts, self.buttons = texts, buttons
        self._fill: Callable[[TextRow], list[Node]] | None = fill
        del self.children

    def __getattr__(self, name: str) -> Sequence[Node]:
        """Make the boxes: they are asked for, and not there."""
        if name != "children":
            raise AttributeError(name)
        fill = self._fill
        if fill is not None:  # else another thread was faster
            self.children = fill(self)
            self._fill = None
        return self.children

    @property
    def closed(self) -> bool:
        """Whether the boxes were not made yet: once they are there, they can be moved, cut or covered."""
        return self._fill is not None


class TextStyle(NamedTuple):
    """Font size and line height in pixels at normal font size, weight, and default colour."""

    size: int
    line: int
    bold: bool
    colour: str


STYLES: Final = {
    "display": TextStyle(150, 176, False, "text"),
    "headline": TextStyle(74, 94, False, "text"),
    "title": TextStyle(56, 74, False, "text"),
    "subtitle": TextStyle(44, 60, True, "text"),
    "body": TextStyle(42, 60, False, "text"),
    "label": TextStyle(37, 52, True, "text"),
    "caption": TextStyle(35, 48, False, "muted"),
    "small": TextStyle(30, 40, False, "muted"),
}


class Pen:
    """What every widget needs to know to be laid out."""

    __slots__ = ("package", "page", "scale", "values", "width")

    def __init__(self, page: AppPage, package: str, width: int, scale: float) -> None:
        """Lay out for a page, a screen width in pixels and a font scale."""
        self.page = page
        self.package = package
        self.values = page.values
        self.width = width
        self.scale = scale

    def style(self, name: str) -> TextStyle:
        """Return a text style at the phone's font size."""
        style = STYLES[name]
        if self.scale == 1.0:
            return style
        return TextStyle(int(style.size * self.scale), int(style.line * self.scale), style.bold, style.colour)

    def tall(self, pixels: int) -> int:
        """Return a height that grows with the font size."""
        return int(pixels * self.scale)

    def box(self, class_name: str, x: int, y: int, width: int, height: int, name: str = "") -> UiBox:
        """Return an empty box of the app; `name` becomes the resource id."""
        return UiBox(class_name, x, y, x + width, y + height, "", "", self.resource(name), self.package)

    def resource(self, name: str) -> str:
        """Return the resource id that a name becomes, "" for none."""
        return f"{self.package}:id/{name}" if name else ""

    def text(
        self,
        text: str,
        x: int,
        y: int,
        width: int,
        style: str = "body",
        name: str = "",
        colour: str = "",
        *,
        align: str = "left",
        lines: int = 1,
        struck: bool = False,
    ) -> UiBox:
        """Return a text on one line, cut with an ellipsis where it is too wide.

        Args:
            text: what to show.
            x, y, width: where, in pixels.
            style: a key of STYLES.
            name: of the resource id.
            colour: a role or '#rrggbb'; default: the style's.
            align: left, center or right.
            lines: at most; 0: all.
            struck: whether a line goes through it.
        """
        size, line, bold, own_colour = self.style(style)
        if lines == 1:
            shown: tuple[str, ...] = (fit(text, size, width, bold),)
        else:
            shown = wrap(text, size, width, bold)
            if lines and len(shown) > lines:
                shown = (*shown[: lines - 1], fit(" ".join(shown[lines - 1 :]), size, width, bold))
        rid = f"{self.package}:id/{name}" if name else ""
        low = y + line * len(shown)
        box = UiBox("android.widget.TextView", x, y, x + width, low, text, "", rid, self.package)
        box.paint = (("text", shown, size, line, bold, colour or own_colour, align, struck),)
        return box

    def natural(self, text: str, style: str) -> int:
        """Return the width of a text on one line."""
        font = self.style(style)
        return text_width(text, font.size, font.bold)


def clip(box: UiBox, top: int, bottom: int) -> bool:
    """Cut a box and those in it to a range of rows; return False if too little is left to be seen."""
    if box.top >= top and box.bottom <= bottom:
        return True
    children = box.children  # those of a row of texts are made now, where it was laid out
    above, below = max(0, top - box.top), max(0, box.bottom - bottom)
    if box.bottom - box.top - above - below < min(20, box.bottom - box.top):
        return False
    box.top += above
    box.bottom -= below
    box.cut = (above, below)
    box.children = [child for child in children if clip(child, top, bottom)]  # type: ignore[arg-type]
    return True


def shift(box: UiBox, down: int) -> None:
    """Move a box and those in it."""
    children = box.children  # those of a row of texts are made now, where it was laid out
    box.top += down
    box.bottom += down
    for child in children:
        shift(child, down)  # type: ignore[arg-type]
