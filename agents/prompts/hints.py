"""Help that an episode's prompts show, with the task or turn by turn.

A hint is a part of the first observation, and a note of that of its turn: every prompt builder shows them, and they are
stored with the turn. Credit that compares turns by their text (`anchor = "observation"`) sees the difference; the state
keys are the same.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TurnNotes", "hinted", "plan_hint", "plan_step", "similar", "without_hint"]

COMPARED = 500
"""Characters of two texts that are compared."""
MARK = "\n\nHint: "


@dataclass(frozen=True, slots=True)
class TurnNotes:
    """Notes that a turn shows if it looks like what they are about.

    Attributes:
        shelves: of each kind, how many a turn shows at most, and its notes as (text of an observation, note).
        alike: least similarity of the two observations.
        longest: characters that a turn shows.
    """

    shelves: tuple[tuple[int, tuple[tuple[str, str], ...]], ...]
    alike: float = 0.85
    longest: int = 800

    def about(self, observation: str) -> str:
        """Return the notes for an observation, those of the most similar ones first; empty without any.

        >>> notes = TurnNotes(((1, (("You see a locked door.", "Take the key."), ("You see a cake.", "Eat it."))),))
        >>> notes.about("You see a locked door!"), notes.about("You see nothing.")
        ('Take the key.', '')
        """
        lines = []
        for most, notes in self.shelves:
            ranked = [(similar(about, observation, least=self.alike), note) for about, note in notes]
            near = sorted((pair for pair in ranked if pair[0] >= self.alike), key=lambda pair: -pair[0])
            lines += [note for _, note in near[:most]]
        return "\n".join(lines)[: self.longest]


def similar(text: str, other: str, *, least: float = 0.0) -> float:
    """Return how similar two texts are, from 0 to 1, by their longest common blocks.

    >>> similar("open the door", "open the door"), similar("abc", "xyz")
    (1.0, 0.0)

    Args:
        text, other: of which the beginnings are compared.
        least: below it, the result may be any number below it, which is faster.
    """
    matcher = difflib.SequenceMatcher(None, text[:COMPARED], other[:COMPARED], autojunk=False)
    if least and (matcher.real_quick_ratio() < least or matcher.quick_ratio() < least):
        return 0.0
    return matcher.ratio()


def hinted(observation: str, hint: str) -> str:
    """Return the first observation of an episode with its hint.

    >>> hinted("You see a door.", "Open it.")
    'You see a door.\\n\\nHint: Open it.'
    """
    return f"{observation.rstrip()}{MARK}{hint}" if hint else observation


def without_hint(observation: str) -> str:
    """Return an observation without what `hinted` added.

    >>> without_hint(hinted("You see a door.", "Open it.")), without_hint("You see a door.")
    ('You see a door.', 'You see a door.')
    """
    return observation.partition(MARK)[0]


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
