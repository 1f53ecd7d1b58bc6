"""JavaScript that runs inside the pages.

A page can interfere with it, since both share one world. Its results are shown to the agent and affect nothing outside
of the page.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

__all__ = ["FACTS", "GUARD", "MARK", "MARKED", "SCROLL", "SCROLL_AT", "SETTLED"]


def _read(name: str) -> str:
    return files("turncredit.tools.browser").joinpath(f"{name}.js").read_text(encoding="utf-8")


GUARD: Final = _read("guard")
"""Runs in every document before its own scripts: records navigations, and opens links to new tabs in this one."""

MARK: Final = _read("mark_clickable")
"""Runs in every document before its own scripts: marks elements with click listeners, and gives spans among them the
role "link", since some pages use empty boxes as buttons and plain text as links."""

MARKED: Final = "[data-turncredit], [onclick] { cursor: pointer }"
"""Style of elements with click listeners: the snapshot recognizes clickable elements by this cursor."""

SETTLED: Final = _read("settled")
"""Argument: whether page time is frozen. Runs pending tasks, then returns the address that the page is navigating to,
"" if it stays, or "error" on the browser's error page."""

SCROLL: Final = _read("scroll")
"""Arguments: an element (null: the page) and "down" or "up". Scrolls by 80 % of the visible height."""

SCROLL_AT: Final = f"""
([x, y, way]) => {{
  const rolls = element => element.scrollHeight > element.clientHeight + 1
    && ['auto', 'scroll'].includes(getComputedStyle(element).overflowY);
  let element = document.elementFromPoint(x, y);
  while (element && !rolls(element)) element = element.parentElement;
  ({SCROLL})([element, way]);
}}
"""
"""Arguments: a point, and "down" or "up". Scrolls the innermost element there that scrolls, or else the page."""

FACTS: Final = _read("page_facts")
"""Argument: boxes of elements. Returns facts about the page and, for each box, why a click cannot reach its element
("" if it can, possibly after scrolling), whether it accepts text, and [scroll position, maximum] if it can scroll."""
