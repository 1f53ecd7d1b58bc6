"""Parts of a page of MiniWoB++ as its expert reads them: elements of the document, and where a click reaches them.

The accessibility tree that agents read lacks what some tasks are about: colours, kinds of shapes, the tabs that are
hidden. So the expert asks the document itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict, cast

from turncredit.envs.errors import EnvError

__all__ = ["Click", "Fill", "Move", "PagePart", "PageParts", "Unsolvable", "Wait"]

Pixel = tuple[int, int]

_FIND: Final = """
selector => {
  const whole = (element, x, y) => {
    const top = document.elementFromPoint(x, y);
    return top !== null && (element === top || element.contains(top));
  };
  const reach = element => {
    for (const box of element.getClientRects()) {
      const points = [[0.5, 0.5]];
      for (let row = 1; row < 10; row++) {
        for (let column = 1; column < 10; column++) points.push([column / 10, row / 10]);
      }
      const pixels = points.map(([x, y]) => [Math.round(box.x + x * box.width), Math.round(box.y + y * box.height)]);
      // First a point whose neighbours are on the element as well: points of other scales are rounded.
      for (const spread of [2, 0]) {
        for (const [x, y] of pixels) {
          const around = [[0, 0], [-spread, -spread], [spread, -spread], [-spread, spread], [spread, spread]];
          if (around.every(([right, down]) => whole(element, x + right, y + down))) return [x, y];
        }
      }
    }
    return null;
  };
  return [...document.querySelectorAll(selector)].map(element => {
    const box = element.getBoundingClientRect();
    return {
      tag: element.tagName.toLowerCase(), text: element.textContent.trim(), value: element.value ?? '',
      checked: element.checked === true, box: [box.x, box.y, box.width, box.height].map(Math.round),
      attributes: Object.fromEntries([...element.attributes].map(attribute => [attribute.name, attribute.value])),
      point: reach(element),
    };
  });
}
"""


class _Fields(TypedDict):
    """What `_FIND` returns of an element."""

    tag: str
    text: str
    value: str
    checked: bool
    attributes: dict[str, str]
    box: list[int]
    point: list[int] | None


class Unsolvable(EnvError):
    """The page can no longer be solved, or not by what the agent may touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart:
    """An element of a page's document.

    Attributes:
        tag: its name in HTML or SVG, in lower case.
        text: the text in it.
        value: of a field.
        checked: of a checkbox or radio button.
        attributes: in HTML.
        box: x, y, width and height in pixels.
        point: a pixel where a click reaches it; None if it is hidden or covered.
    """

    tag: str
    text: str
    value: str
    checked: bool
    attributes: Mapping[str, str]
    box: tuple[int, int, int, int]
    point: Pixel | None


@dataclass(frozen=True, slots=True)
class Click:
    """Click on a part."""

    part: PagePart


@dataclass(frozen=True, slots=True)
class Fill:
    """Replace the content of a field."""

    part: PagePart
    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass."""


Move = Click | Fill | Wait


class PageParts:
    """A page that can be asked for its parts."""

    def __init__(self, goal: str, script: Callable[[str, object], object]) -> None:
        """Keep how to ask.

        Args:
            goal: the sentence of the task.
            script: returns the result of a script in the page, called with an argument.
        """
        self.goal = goal
        self._script = script

    def parts(self, selector: str) -> list[PagePart]:
        """Return the elements that a CSS selector matches, in the order of the document."""
        return [_part_of(fields) for fields in cast(list[_Fields], self._script(_FIND, selector))]

    def part(self, selector: str, text: str | None = None) -> PagePart:
        """Return the first element that matches, with this text; one that can be clicked comes first.

        Raises:
            Unsolvable: there is none.
        """
        matching = [part for part in self.parts(selector) if text is None or part.text == text]
        if not matching:
            raise Unsolvable(f"the page has no {selector!r}" + ("" if text is None else f" with the text {text!r}"))
        return min(matching, key=lambda part: part.point is None)

    def number(self, expression: str) -> int:
        """Return the value of a JavaScript expression that is a whole number."""
        return int(str(self._script(f"() => {expression}", None)))


def _part_of(fields: _Fields) -> PagePart:
    x, y, width, height = fields["box"]
    column, row = fields["point"] or (-1, -1)
    return PagePart(
        tag=fields["tag"],
        text=fields["text"],
        value=fields["value"],
        checked=fields["checked"],
        attributes=fields["attributes"],
        box=(x, y, width, height),
        point=None if fields["point"] is None else (column, row),
    )
