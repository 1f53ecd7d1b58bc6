"""The screenshot: paints the boxes of all windows that can be seen, from the back to the front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turncredit.phone.screen.box import UiBox, dp
from turncredit.phone.screen.brush import Brush
from turncredit.phone.screen.canvas import Canvas
from turncredit.phone.screen.layout import STATUS, Frame
from turncredit.phone.screen.painter import PAINTERS
from turncredit.phone.screen.screen_phone import ScreenPhone
from turncredit.phone.toolkit.state import HOME, AppPage
from turncredit.phone.toolkit.widgets import Screen

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["paint"]

Colour = tuple[int, int, int]


def paint(phone: ScreenPhone, size: tuple[int, int]) -> Image:
    """Return the screen of a phone, drawn at a size in pixels."""
    width, _ = phone.size
    canvas = Canvas(size, size[0] / width, (0, 0, 0))
    if phone.state.screen_on:
        frames = _visible(phone)
        for i, frame in enumerate(frames):
            if i:
                canvas.dim(0.55)
            _window(phone, canvas, frame)
        _status_bar(phone, canvas, frames[-1])
    height = round(size[0] * phone.size[1] / width)
    if height != size[1]:
        return _stretched(phone, size, height, canvas)
    return canvas.image


def _stretched(phone: ScreenPhone, size: tuple[int, int], height: int, canvas: Canvas) -> Image:
    """Return the screen in another shape than its own."""
    return paint(phone, (size[0], height)).resize(size)


def _visible(phone: ScreenPhone) -> list[Frame]:
    """Return the windows from the last whole screen to the one in front."""
    pages: list[AppPage] = [*phone.state.tasks[0].pages, *phone.state.windows]
    frames: list[Frame] = []
    for page in reversed(pages):
        frame = phone.frame if not frames else phone.frame_of(page)
        frames.insert(0, frame)
        if isinstance(frame.window, Screen):
            return frames
    return [phone.frame_of(AppPage(HOME, "home")), *frames]  # an app that has stopped


def _window(phone: ScreenPhone, canvas: Canvas, frame: Frame) -> None:
    package = frame.page.package
    accent = phone.apps[package].colour
    if package == "android":
        accent = phone.apps[phone.state.tasks[0].package].colour
    brush = Brush(canvas, accent, phone.setting("ui_night_mode", "secure") == "2")
    _box(brush, frame.root, frame.viewport)
    for box in frame.system:
        if isinstance(frame.window, Screen) or len(frame.system) > 1:
            brush.canvas.box(*box.bounds, _behind(brush, frame))
        _box(brush, box, None)


def _behind(brush: Brush, frame: Frame) -> Colour:
    """Return the colour of the navigation bar."""
    window = frame.window
    if isinstance(window, Screen):
        if window.style != "page":
            return brush.colour("wallpaper_low" if window.style == "wallpaper" else "shade")
        return brush.colour("surface" if window.bar else "background")
    return brush.colour("background")


def _box(brush: Brush, box: UiBox, viewport: UiBox | None) -> None:
    """Paint a box and those in it; what scrolls comes first, so that what is around it covers its overhang."""
    for paint_one in box.paint:
        PAINTERS[paint_one[0]](brush, box, *paint_one[1:])
    children = box.children
    if viewport is not None and any(child is viewport for child in children):
        children = [child for child in children if child is not viewport]
        panel = viewport.scrollable and any(paint_one[0] == "panel" for paint_one in box.paint)
        before = brush.canvas.image.copy() if panel else None
        _box(brush, viewport, viewport)
        if before is not None:  # a panel has nothing that would cover the overhang
            brush.canvas.put_back(before, *viewport.bounds)
    for child in children:
        _box(brush, child, viewport)  # type: ignore[arg-type]


def _status_bar(phone: ScreenPhone, canvas: Canvas, front: Frame) -> None:
    brush = Brush(canvas, "#5f6368", phone.setting("ui_night_mode", "secure") == "2")
    base = _visible(phone)[0].window if not isinstance(front.window, Screen) else front.window
    bright = isinstance(base, Screen) and base.style == "wallpaper"
    colour = brush.colour("on_wallpaper" if bright or front.window is not base else "text")
    canvas.text(f"{phone.now:%H:%M}", dp(22), STATUS * 0.28, 36, colour, True)
    x = phone.size[0] - dp(22) - 48
    on = {name: phone.setting(name, "global") == "1" for name in ("wifi_on", "bluetooth_on", "airplane_mode_on")}
    icons = ["battery", "airplane" if on["airplane_mode_on"] else "signal"]
    icons += ["wifi"] * on["wifi_on"] + ["bluetooth"] * on["bluetooth_on"]
    for name in icons:
        canvas.icon(name, x, STATUS * 0.24, 44, colour)
        x -= 54
    for i, _ in enumerate(phone.state.notifications[:3]):
        canvas.icon("bell", dp(80) + i * 50, STATUS * 0.26, 40, colour)
