"""How a model is asked for actions on a phone: options of an agent (see `turncredit.envs.agent_defaults`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from turncredit.envs.action_formats import ACTION_FORMATS, asked_in
from turncredit.envs.points import Points, scale_words

__all__ = ["PHONE_AGENT", "phone_agent", "phone_instructions"]

PHONE_AGENT: Final = {
    "prompt": {"name": "window", "history": 4},  # screens are long
    "template": {
        "base": "react",
        "system": "You do a task on a phone. The first message lists the actions, such as tap N, type N TEXT, open "
        "APP, back, answer TEXT and done, which ends the episode. You get one screen at a time and answer with one "
        "action at a time.\n\n",
        "example": "This is what one turn looks like:\n\nYour task is to: set the volume to zero.\n1 button Cancel\n2 "
        "button Mute{ask}<think>The button Mute is element 2.</think><action>tap 2</action>\n\n"
        "Now another task begins.\n\n",
    },
    "parser": "think-action",
}
"""The table of both environments with phones, for models that read the elements."""

_BY_POINTS: Final = {
    **PHONE_AGENT,
    "template": {
        "base": "react",
        "system": "You do a task on a phone. The first message lists the actions, such as tap X Y, type TEXT, open "
        "APP, back, answer TEXT and done, which ends the episode. You get one screen at a time, as an image, and "
        "answer with one action at a time.\n\n",
        "listing": "",  # would say where to touch
        "example": "This is what one turn looks like:\n\nYour task is to: set the volume to zero.{ask}<think>The "
        "button Mute is at the top.</think><action>tap 780 210</action>\n\nNow another task begins.\n\n",
    },
}
_ENDS: Final = (
    "enter | open APP | back | home | wait | answer TEXT (for questions, before done) | done | infeasible (the task "
    "cannot be done)\n"
)
_SIZE: Final = (540, 1200)


def phone_agent(
    *, actions: str = "words", points: Points | None = None, size: Sequence[int] = _SIZE, **others: object
) -> dict[str, object]:
    """Return the options of an agent for a phone environment with these arguments."""
    if actions == "words" or actions not in ACTION_FORMATS:  # a wrong one is refused where the environment is made
        return dict(PHONE_AGENT if points is None else _BY_POINTS)
    scale = scale_words(points, cast(tuple[int, int], tuple(size)))
    return asked_in(actions, "You do a task on a phone, of which you see the screen.", scale, phone=True)


def phone_instructions(numbered: bool, points: Points | None, size: tuple[int, int]) -> str:
    """Return what the first observation says about actions.

    Args:
        numbered: whether the agent sees the numbers of elements.
        points: the option of the environment.
        size: width and height of the image.
    """
    if numbered and points is None:
        return (
            "You operate a phone. Each turn shows its screen as numbered elements; reply with one action:\n"
            "tap N | long press N | type N TEXT (replaces the text of field N) | scroll up/down | swipe left/right | "
            f"{_ENDS}"
        )
    number = " A number N of an element may stand for X Y." if numbered else ""
    return (
        "You operate a phone. Each turn shows its screen; reply with one action:\n"
        "tap X Y | long press X Y | type TEXT (into the field with the focus) | swipe X Y X2 Y2 | scroll up/down | "
        f"{_ENDS}{scale_words(points, size)}{number}\n"
    )
