"""Examples of actions that the current screen allows, for the answer to a text that is no action."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from turncredit.envs.android.actions import Action, BadAction, NotAnAction, write
from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.pointing import on_scale
from turncredit.envs.points import PointScale

__all__ = ["examples", "explained"]

_ALWAYS: Final = ("back", "home", "enter", "wait", "answer 17:30", "done", "infeasible")
_APP: Final = "Clock"


def explained(error: NotAnAction, examples: Sequence[str]) -> BadAction:
    """Return the refusal of a text that is no action, with examples of what is one."""
    return BadAction(f"{error}; actions look like: {', '.join(examples)}, or are JSON objects")


def examples(
    elements: Sequence[ScreenElement],
    size: tuple[int, int],
    apps: Collection[str],
    *,
    numbered: bool,
    scale: PointScale | None,
) -> list[str]:
    """Return one action of each form that is allowed.

    Args:
        elements: elements of the screen.
        size: its width and height.
        apps: names of the apps that can be opened.
        numbered: whether the agent may name elements by their numbers.
        scale: scale of the agent's points; None: pixels of the screen.
    """
    touched = next((element for element in elements if element.kind != "text"), None)
    field = next((element for element in elements if element.node.editable), None)
    x, y = touched.center if touched is not None else (size[0] // 2, size[1] // 2)
    points = [Action(kind, x=x, y=y) for kind in ("click", "double_tap", "long_press")]
    spots = [write(action if scale is None else on_scale(action, scale, size)) for action in points]
    number = touched.index if numbered and touched is not None else None
    names = [] if number is None else [f"tap {number}", f"long press {number}"]
    typed = [f"type {field.index} hello"] if numbered and field is not None else []
    if not typed and field is not None and field.node.focused:
        typed = ["type hello"]
    app = [f"open {_APP if _APP in apps else sorted(apps)[0]}"] if apps else []
    return [*names, *(spots[:1] if names else spots), *typed, "scroll down", "swipe left", *app, *_ALWAYS]
