"""Plans for pages of MiniWoB++: the moves of an expert, written as the agent of a window acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from turncredit.envs.miniwob.experts import EXPERTS
from turncredit.envs.miniwob.parts import Click, Move, PagePart, PageParts, Unsolvable, Wait
from turncredit.envs.web import BrowserWindow

if TYPE_CHECKING:
    from turncredit.tools.browser import Element

__all__ = ["planned", "played"]

_MOST: Final = 100


def planned(name: str, goal: str, window: BrowserWindow) -> list[str]:
    """Return the actions of a task's expert on a page that stays as it is.

    Args:
        name: of the task.
        goal: its sentence.
        window: with the page, in which nothing is done.

    Raises:
        Unsolvable: the expert finds no way, or cannot touch what it needs.
    """
    moves = EXPERTS[name].moves(PageParts(goal, window.script))
    return [action for move in moves for action in _written(move, window)]


def played(name: str, goal: str, window: BrowserWindow) -> list[str]:
    """Do what a task's expert does, and return the actions.

    Args:
        name, goal: see `planned`.
        window: with the page on which the expert acts.

    Raises:
        Unsolvable: see `planned`; or the page never becomes what the expert waits for.
    """
    actions: list[str] = []
    for move in EXPERTS[name].moves(PageParts(goal, window.script)):
        if len(actions) > _MOST:
            break
        for action in _written(move, window):
            actions.append(action)
            if not window.act(action):
                raise Unsolvable(f"the page refuses {action!r}: {window.note}")
    else:
        return actions
    raise Unsolvable(f"the expert of {name!r} has not come to its end after {_MOST} actions")


def _written(move: Move, window: BrowserWindow) -> Iterator[str]:
    """Yield the actions of a move: by the names of elements where the agent reads them, else by points."""
    from turncredit.tools.browser import BrowserAction

    if isinstance(move, Wait):
        yield "wait[]"
        return
    part, sight = move.part, window.sight
    element = _element(part, window) if sight.scale is None and (sight.elements or sight.marks) else None
    action = BrowserAction("click") if isinstance(move, Click) else BrowserAction("type", "", move.text)
    if element is not None:
        yield f"click[{element.ref}]" if isinstance(move, Click) else f"type[{element.ref}, {move.text}]"
        return
    if part.point is None:
        raise Unsolvable(f"the <{part.tag}> {part.text!r} is hidden or covered, so that a click does not reach it")
    if not (part.point[0] < sight.size[0] and part.point[1] < sight.size[1]):
        raise Unsolvable(f"the <{part.tag}> {part.text!r} is not on the image, whose size is {sight.size}")
    yield from sight.by_points(action, part.point, filled=bool(part.value))


def _element(part: PagePart, window: BrowserWindow) -> Element | None:
    """Return the element of the accessibility tree with the box of a part; None if an action cannot name it."""

    def differ(element: Element) -> int:
        return sum(abs(a - b) for a, b in zip(element.box or (0, 0, -99, -99), part.box, strict=True))

    nearest = min(window.view.elements.values(), key=differ, default=None)
    return nearest if nearest is not None and differ(nearest) <= 4 and nearest.clickable else None
