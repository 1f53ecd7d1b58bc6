"""Help that an episode's prompts show with the task.

A hint is a part of the first observation, which every prompt builder shows and which is stored with the turn. Credit
that compares turns by their text (`anchor = "observation"`) sees the difference; the state keys are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["hinted", "plan_hint", "plan_step"]


def hinted(observation: str, hint: str) -> str:
    """Return the first observation of an episode with its hint.

    >>> hinted("You see a door.", "Open it.")
    'You see a door.\\n\\nHint: Open it.'
    """
    return f"{observation.rstrip()}\n\nHint: {hint}" if hint else observation


def plan_hint(actions: Sequence[str], share: float) -> str:
    """Return the hint that shows the first ceil(share * length) actions of a plan; empty without any.

    >>> plan_hint(["open door", "go north", "take coin"], 0.5)
    'Begin with these actions: 1. open door 2. go north'
    """
    beginning = actions[: math.ceil(share * len(actions))]
    numbered = " ".join(f"{number}. {action}" for number, action in enumerate(beginning, start=1))
    return f"Begin with these actions: {numbered}" if beginning else ""


def plan_step(hint: str, number: int) -> str | None:
    """Return the action that the hint of a plan shows for a turn; None beyond its end.

    >>> hint = plan_hint(["open door", "go north", "take coin"], 0.5)
    >>> plan_step(hint, 1), plan_step(hint, 2)
    ('go north', None)

    Args:
        hint: as `plan_hint` returns it.
        number: of the turn, from 0.
    """
    _, start, after = f"{hint} {number + 2}. ".partition(f" {number + 1}. ")
    return after.partition(f" {number + 2}. ")[0] if start and not after.startswith(f"{number + 2}. ") else None
