"""Painting of pictures: the shapes of a drawing, whole or seen through a window."""

from __future__ import annotations

from turncredit.phone.screen.box import UiBox, dp
from turncredit.phone.screen.brush import Brush
from turncredit.phone.screen.fonts import fit
from turncredit.phone.toolkit.widgets import Picture, Shape

__all__ = ["paint_picture"]


def paint_picture(brush: Brush, box: UiBox, picture: Picture) -> None:
    """Paint a picture into its box."""
    left, top, right, bottom = box.full
    unit = (right - left) / picture.width
    shapes = picture.shapes() if callable(picture.shapes) else picture.shapes
    if not picture.cut:
        for shape in shapes:
            _shape(brush, shape, [(left + x * unit, top + y * unit) for x, y in shape.points], unit)
        return
    inner = Brush.like(brush, brush.canvas.part(right - left, bottom - top))
    x0, y0, wide, high = *picture.origin, (right - left) / unit, (bottom - top) / unit
    for shape in shapes:
        if _reaches(shape, x0, y0, x0 + wide, y0 + high):
            _shape(inner, shape, [((x - x0) * unit, (y - y0) * unit) for x, y in shape.points], unit)
    brush.canvas.put(inner.canvas, left, top, 0 if picture.fill else dp(18))


def _reaches(shape: Shape, left: float, top: float, right: float, bottom: float) -> bool:
    """Return whether a shape may be seen in a part of its drawing."""
    room = 100 if shape.kind == "text" else shape.width
    across, along = [x for x, _ in shape.points], [y for _, y in shape.points]
    return (
        min(across) - room < right
        and max(across) + room > left
        and min(along) - room < bottom
        and max(along) + room > top
    )


def _shape(brush: Brush, shape: Shape, points: list[tuple[float, float]], unit: float) -> None:
    """Draw a figure of a picture, whose points are pixels."""
    canvas, colour = brush.canvas, brush.colour(shape.colour)
    if shape.kind == "polygon":
        canvas.polygon(points, colour)
    elif shape.kind == "line":
        canvas.line(points, colour, shape.width * unit)
    elif shape.kind == "text":
        size = max(8, round(shape.width * unit))
        x, y = round(points[0][0]), round(points[0][1])
        if len(points) == 2:
            canvas.text(fit(shape.text, size, max(1, round(points[1][0]) - x)), x, y, size, colour)
        elif shape.halo or shape.angle:
            halo = brush.colour(shape.halo) if shape.halo else None
            canvas.label(shape.text, x, y, size, colour, shape.angle, halo)
        else:
            brush.middle(shape.text, x - 1000, x + 1000, y, size, colour, True)
    else:
        (x1, y1), (x2, y2) = points
        if shape.kind == "box":
            canvas.box(x1, y1, x2, y2, colour, shape.radius * unit)
        elif shape.kind == "icon":
            canvas.icon(shape.text, x1, y1, x2 - x1, colour)
        else:
            canvas.disc((x1 + x2) / 2, (y1 + y2) / 2, (x2 - x1) / 2, colour)
