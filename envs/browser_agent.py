"""How a model is asked for actions in a browser: options of an agent (see `turncredit.envs.agent_defaults`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turncredit.envs.action_formats import BROWSER_FORMATS, asked_in
from turncredit.envs.points import Points, scale_words

__all__ = ["browser_agent"]

_NAMES: Final = (
    "Actions: click[e3], type[e3, text], select[e3, option], press[Enter], wait[]. You get one page at a time and "
    "answer with one action at a time.\n\n"
)
_POINTS: Final = (
    "Actions: click[X, Y], double_click[X, Y], write[text] (into the focus), press[Enter], scroll[down], "
    "drag[X, Y, X2, Y2], wait[]. You get one page at a time, as an image, and answer with one action at a time. "
)


def browser_agent(task: str, named: str, size: tuple[int, int]) -> Callable[..., dict[str, object]]:
    """Return a function from the arguments of an environment to the options of an agent.

    Args:
        task: sentences about the task.
        named: a sentence that says that elements have names.
        size: width and height of the image.
    """

    def options(
        *, actions: str = "words", points: Points | None = None, screenshot: bool | str = False, **others: object
    ) -> dict[str, object]:
        if actions != "words" and actions in BROWSER_FORMATS:  # a wrong one is refused where the environment is made
            return asked_in(actions, task, scale_words(points, size), phone=False)
        elements = not isinstance(screenshot, str)
        if points is None and screenshot != "only":
            marks = "The image shows their numbers: 3 is e3. " if screenshot == "marks" else ""
            system = f"{task} {named} {marks}{_NAMES}"
            listed = "\n[e1] button 'Cancel'\n[e2] button 'Send'" if elements else ""
            reason, action = "The button Send is e2.", "click[e2]"
        else:
            system = f"{task} {_POINTS}{scale_words(points, size)}\n\n"
            listed, reason, action = "", "The button Send is at the bottom.", "click[64, 150]"
        template = {
            "base": "react",
            "system": system,
            "example": f"This is what one turn looks like:\n\nTask: press the button Send{listed}{{ask}}<think>{reason}"
            f"</think><action>{action}</action>\n\nNow another task begins.\n\n",
        }
        if not elements:
            template["listing"] = ""  # would say where to click
        return {"prompt": {"name": "window", "history": 4}, "template": template, "parser": "think-action"}

    return options
