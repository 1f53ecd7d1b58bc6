"""How a model is asked for actions on a phone: options of an agent (see `turnwise.envs.agent_defaults`)."""

from __future__ import annotations

from typing import Final

__all__ = ["PHONE_AGENT"]

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
"""The table of both environments with phones."""
