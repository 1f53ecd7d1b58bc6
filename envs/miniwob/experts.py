"""The expert of MiniWoB++: for each of the tasks that it plays, a function from the page to what is done there.

An expert reads the document, so it knows more than an agent that sees the page. Each function begins at any state of
its task that is not lost. Tasks without a function here have no expert.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from turncredit.envs.miniwob.parts import Click, Fill, Move, PagePart, PageParts, Unsolvable, Wait

__all__ = ["EXPERTS", "TaskExpert"]

Moves = Iterator[Move]


@dataclass(frozen=True, slots=True)
class TaskExpert:
    """How a task is played.

    Attributes:
        moves: yields what to do from the state of the page on.
        plays: whether a move depends on what those before it do to the page, so that each has to be done before the
            next one is asked for.
    """

    moves: Callable[[PageParts], Moves]
    plays: bool = False


EXPERTS: Final[dict[str, TaskExpert]] = {}
"""Experts by the name of their task."""


def _expert(*tasks: str, plays: bool = False) -> Callable[[Callable[[PageParts], Moves]], Callable[[PageParts], Moves]]:
    """Register a function as the expert of tasks."""

    def register(moves: Callable[[PageParts], Moves]) -> Callable[[PageParts], Moves]:
        EXPERTS.update(dict.fromkeys(tasks, TaskExpert(moves, plays)))
        return moves

    return register


def _quoted(page: PageParts) -> list[str]:
    """Return what stands in quotes in the sentence of the task."""
    return re.findall(r'"([^"]*)"', page.goal)


def _in_goal(page: PageParts, pattern: str) -> str:
    """Return what the first group of a pattern matches in the sentence of the task."""
    match = re.search(pattern, page.goal)
    if match is None:
        raise Unsolvable(f"the sentence of the task has another form than the expert reads: {page.goal!r}")
    return match[1]


def _fill(field: PagePart, text: str) -> Moves:
    """Yield what makes the content of a field this text."""
    if field.value != text:
        yield Fill(field, text)


def _submit(page: PageParts) -> Move:
    return Click(page.part("#subbtn"))


@_expert("click-test")
def _click_test(page: PageParts) -> Moves:
    yield _submit(page)


@_expert("click-test-2", "click-test-transfer")
def _click_test_2(page: PageParts) -> Moves:
    yield Click(page.part("#area button", _in_goal(page, r"button (\w+)")))


@_expert("click-button-sequence")
def _click_button_sequence(page: PageParts) -> Moves:
    """Click on ONE, then on TWO; only a variable of the page says which clicks were made."""
    if page.number("buttonsPushed.filter(id => id !== 'subbtn').length"):
        raise Unsolvable("the wrong button was clicked first")
    for name in ("ONE", "TWO")[page.number("buttonsPushed.length") :]:
        yield Click(page.part("#area button", name))


@_expert("click-button", "unicode-test")
def _click_button(page: PageParts) -> Moves:
    yield Click(page.part("#area button", _quoted(page)[0]))


@_expert("click-link")
def _click_link(page: PageParts) -> Moves:
    yield Click(page.part(".alink", _quoted(page)[0]))


@_expert("click-dialog")
def _click_dialog(page: PageParts) -> Moves:
    yield Click(page.part("button.ui-button"))


@_expert("click-dialog-2")
def _click_dialog_2(page: PageParts) -> Moves:
    name = _quoted(page)[0]
    yield Click(
        page.part(".ui-dialog-titlebar button") if name == "x" else page.part(".ui-dialog-buttonset button", name)
    )


@_expert("click-tab")
def _click_tab(page: PageParts) -> Moves:
    yield Click(page.part("#area ul a", _in_goal(page, r"(Tab #\d)")))


@_expert("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard", plays=True)
def _click_tab_2(page: PageParts) -> Moves:
    """Open the tab that has the link, and click on the link; where the page has no such link, the second tab counts."""
    name = _quoted(page)[0]
    links = [link for link in page.parts("[id^=tabs-] .alink") if link.text == name]
    tabs = page.parts("#area ul a")
    if not links:
        yield Click(tabs[1])
        return
    if all(link.point is None for link in links):
        panels = (page.parts(f"{tab.attributes['href']} .alink") for tab in tabs)
        yield Click(next(tab for tab, panel in zip(tabs, panels, strict=True) if any(p.text == name for p in panel)))
    yield Click(page.part("[id^=tabs-] .alink", name))


@_expert("click-collapsible", "click-collapsible-nodelay", plays=True)
def _click_collapsible(page: PageParts) -> Moves:
    """Open the section, wait until it is open, and submit."""
    if page.part("#area h3").attributes.get("aria-expanded") != "true":
        yield Click(page.part("#area h3"))
    while page.number("$('.ui-accordion-content:animated').length"):
        yield Wait()
    yield _submit(page)


@_expert("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
def _click_checkboxes(page: PageParts) -> Moves:
    names = _in_goal(page, r"Select (.*) and click Submit").split(", ")
    for label, box in zip(page.parts("#area label"), page.parts("#area input"), strict=True):
        if box.checked != (label.text in names):
            yield Click(box)
    yield _submit(page)


@_expert("click-option")
def _click_option(page: PageParts) -> Moves:
    target = _in_goal(page, r"Select (.*) and click Submit")
    for label, button in zip(page.parts("#boxes label"), page.parts("#boxes input"), strict=True):
        if label.text == target and not button.checked:
            yield Click(button)
    yield _submit(page)


@_expert("click-widget")
def _click_widget(page: PageParts) -> Moves:
    yield Click(page.part(f'[data-type="{_quoted(page)[0]}"]'))


@_expert("click-color")
def _click_color(page: PageParts) -> Moves:
    yield Click(page.part(f'#area [data-color="{_in_goal(page, r"on the (.*) colored box")}"]'))


@_expert("click-shades")
def _click_shades(page: PageParts) -> Moves:
    colour = _in_goal(page, r"shades of (\w+)")
    for shade in page.parts("#area span"):
        if (shade.attributes["data-color"] == colour) != (shade.attributes.get("class") == "selected"):
            yield Click(shade)
    yield Click(page.part("#area button"))


@_expert("focus-text", "focus-text-2")
def _focus_text(page: PageParts) -> Moves:
    number = re.search(r"the (\d)", page.goal)
    yield Click(page.parts("#area input")[int(number[1]) - 1 if number else 0])


@_expert("enter-text", "enter-password", "login-user")
def _enter_text(page: PageParts) -> Moves:
    """Fill what is quoted into the fields, one text each or the same into all, and submit."""
    fields, texts = page.parts("#form input"), _quoted(page)
    for field, text in zip(fields, texts if len(texts) == len(fields) else texts * len(fields), strict=True):
        yield from _fill(field, text)
    yield _submit(page)


@_expert("enter-text-2")
def _enter_text_2(page: PageParts) -> Moves:
    text = _quoted(page)[0]
    yield from _fill(page.part("#tt"), text.upper() if "upper case" in page.goal else text.lower())
    yield _submit(page)


@_expert("read-table")
def _read_table(page: PageParts) -> Moves:
    cells = [cell.text for cell in page.parts("#tab td")]
    yield from _fill(page.part("#tt"), cells[cells.index(_in_goal(page, r"value of (.*) into the text field")) + 1])
    yield _submit(page)


@_expert("simple-arithmetic")
def _simple_arithmetic(page: PageParts) -> Moves:
    left, sign, right = page.part("#math-problem").text.split()[:3]
    a, b = int(left), int(right)
    yield from _fill(page.part("#math-answer"), str({"+": a + b, "-": a - b, "x": a * b}[sign]))
    yield _submit(page)


@_expert("visual-addition")
def _visual_addition(page: PageParts) -> Moves:
    yield from _fill(page.part("#math-answer"), str(len(page.parts("#math-problem .addition-block"))))
    yield _submit(page)


@_expert("grid-coordinate")
def _grid_coordinate(page: PageParts) -> Moves:
    yield Click(page.part(f'circle[id="{_in_goal(page, r"coordinate (.*)[.]")}"]'))


_SHAPES: Final = "#area_svg text, #area_svg rect, #area_svg circle, #area_svg polygon"
_SHAPE_NAMES: Final = {"rect": "rectangle", "circle": "circle", "polygon": "triangle"}


def _kind(shape: PagePart) -> str:
    """Return "letter", "digit" or "shape"."""
    return ("digit" if shape.text.isdigit() else "letter") if shape.tag == "text" else "shape"


@_expert("identify-shape")
def _identify_shape(page: PageParts) -> Moves:
    shape = page.part(_SHAPES)
    kind = _kind(shape)
    yield Click(page.part(f'[data-type="{_SHAPE_NAMES[shape.tag] if kind == "shape" else kind}"]'))


def _matches(shape: PagePart, words: list[str]) -> bool:
    """Return whether a shape has the size, the colour and the kind or the name of a description."""
    side = {"text": "font-size", "rect": "width", "circle": "r"}.get(shape.tag)
    length = float(shape.attributes[side].removesuffix("px")) if side else 0.0
    if shape.tag == "polygon":
        corners = [float(number) for number in re.split(r"[ ,]", shape.attributes["points"])]
        length = corners[4] - corners[0]
    large = (2 * length if shape.tag == "circle" else length) > 15.0  # sides are 10 or 20 pixels
    names = {"item", _kind(shape), _SHAPE_NAMES.get(shape.tag, shape.text)}
    *looks, name = words
    return name in names and all(look in ("large" if large else "small", shape.attributes["fill"]) for look in looks)


@_expert("click-shape")
def _click_shape(page: PageParts) -> Moves:
    words = _in_goal(page, r"Click on a (.*)").split()
    matching = [shape for shape in page.parts(_SHAPES) if _matches(shape, words)]
    if not matching:
        raise Unsolvable(f"no shape fits {page.goal!r}")
    yield Click(min(matching, key=lambda shape: shape.point is None))


@_expert("count-shape")
def _count_shape(page: PageParts) -> Moves:
    words = _in_goal(page, r"How many (.*)s are there").split()
    count = sum(_matches(shape, words) for shape in page.parts(_SHAPES))
    yield Click(page.part("#count-buttons button", str(count)))
