"""Pictures that are windows on a larger drawing, and what scrolls in panels: nothing is painted beside its place."""

from __future__ import annotations

import pytest

from turncredit.phone import App, Phone
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Button, Dialog, Picture, Screen, Shape, Sheet, Spot, Text

RED = (255, 0, 0)


def red_pixels(phone: Phone) -> list[tuple[int, int]]:
    image = phone.screenshot()
    return [(x, y) for x in range(0, 1080, 6) for y in range(0, 2400, 6) if image.getpixel((x, y)) == RED]


def note(ctx, **what) -> None:
    ctx.set("noted", repr(sorted(what.items())))


def window(ctx) -> Screen:
    shapes = (Shape("box", ((-9000, -9000), (9000, 9000)), "#ff0000"),)
    spots = (Spot(1010, 2010, 1030, 2030, "inside", do(note, hit=1)), Spot(10, 10, 30, 30, "outside", do(note)))
    drawing = Picture(shapes, 100, 50, "Drawing", spots, on_drag=do(note, what=3), origin=(1000, 2000), cut=True)
    return Screen("Window", [drawing])


def test_a_window_draws_and_offers_only_what_is_in_it():
    pytest.importorskip("PIL")
    phone = Phone(apps=[App("test.window", "Window", "map", "#888888", (window,))])
    phone.launch("Window")
    drawing = phone.tree().find("Drawing")
    found = red_pixels(phone)
    assert found
    assert all(drawing.contains(x, y) for x, y in found)
    assert phone.tree().find("outside") is None
    unit = (drawing.right - drawing.left) / 100
    inside = phone.tree().find("inside")
    assert inside.center == pytest.approx((drawing.left + 20 * unit, drawing.top + 20 * unit), abs=2)
    phone.tap(*inside.center)
    assert phone.page.values["noted"] == "[('hit', 1)]"
    phone.swipe(*drawing.center, drawing.center[0] + 100, drawing.center[1] - 50)
    right, down = round(100 / unit, 1), round(-50 / unit, 1)
    assert phone.page.values["noted"] == repr([("down", down), ("right", right), ("what", 3)])


@pytest.mark.parametrize("kind", [Sheet, Dialog])
def test_what_scrolls_in_a_panel_stays_in_it(kind):
    pytest.importorskip("PIL")
    box = Picture((Shape("box", ((0, 0), (10, 10)), "#ff0000"),), 10, 10)

    def panel(ctx):
        return kind("A title", [box] * 9)

    def ask(ctx) -> None:
        ctx.open(panel)

    def page(ctx) -> Screen:
        return Screen("Page", [Button("Ask", do(ask))])

    phone = Phone(apps=[App("test.panel", "Panel", "map", "#888888", (page, panel))])
    phone.launch("Panel")
    phone.tap(*phone.tree().find("Ask").center)
    phone.swipe(540, 1500, 540, 1250)
    viewport = next(node for node in phone.tree().walk() if node.scrollable)
    found = red_pixels(phone)
    assert found
    assert all(viewport.contains(x, y) for x, y in found)


def drawn(text: str) -> bytes:
    def page(ctx) -> Screen:
        return Screen("Page", [Text(text)])

    phone = Phone(apps=[App("test.texts", "Texts", "note", "#888888", (page,))])
    phone.launch("Texts")
    return phone.screenshot((540, 1200)).tobytes()


@pytest.mark.parametrize("text", ["Zoë \U0001f600", "Zoë \u2603\ufe0f", "Zoë \u65e5"])
def test_a_character_that_the_font_lacks_is_drawn_as_a_bullet(text):
    pytest.importorskip("PIL")
    assert drawn(text) == drawn("Zoë \u2022")
    assert drawn(text) != drawn("Zoë ")


def test_characters_of_the_font_are_drawn_as_they_are():
    pytest.importorskip("PIL")
    assert len({drawn(text) for text in ("\u2022", "\u00e9", "\u0416", "\u03bb", "\u2026", " ")}) == 6


def test_the_preview_of_a_note_ends_with_an_ellipsis_where_it_is_cut(phone, user):
    line = "The red from stall 12 was best, bottle with a basket on the label."
    phone.write_file("/sdcard/Documents/Notes/Long.md", line.encode())
    phone.write_file("/sdcard/Documents/Notes/Short.md", line[:44].encode())
    phone.launch("Notes")
    user.see(f"{line[:43].rstrip()}\u2026")
    user.see(line[:44])
