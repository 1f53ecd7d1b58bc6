"""How an episode without success ended, in a few words, so that episodes with the same ending can be counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Trajectory, Turn

LAST = 3
"""Number of last turns that decide whether an episode ended in unreadable or refused answers."""
_WINDOW = 8
_LONGEST = 90


def ending(trajectory: Trajectory) -> str | None:
    """Return how an episode without success ended; None for a success.

    The first that applies: its error; the last three answers could not be parsed; at least three of the last eight
    turns repeat an earlier action in the same state; the last three actions were not admissible; else the last action.
    Numbers are written as "#", so that `go to shelf 1` and `go to shelf 2` are one ending.
    """
    if trajectory.stop == "error":
        return f"error: {_general(trajectory.error or 'without a message')}"
    if trajectory.won:
        return None
    if trajectory.stop == "answer":
        return _general(trajectory.error or "an answer that no model could read again")
    turns = trajectory.turns
    if not turns:
        return "no turn was played"
    last = turns[-LAST:]
    if len(last) == LAST and all(turn.action is None for turn in last):
        return "answers that could not be parsed"
    repeats = repeated(turns)[-_WINDOW:]
    if sum(repeats) >= LAST:
        return f"a loop: {_general(turns[-1].action or turns[-1].text)}"
    if len(last) == LAST and not any(turn.valid for turn in last):
        return "actions that were not admissible"
    return f"last action: {_general(turns[-1].action or turns[-1].text)}"


def repeated(turns: tuple[Turn, ...]) -> list[bool]:
    """Return for each turn whether it repeats an earlier action in the same state."""
    seen: set[tuple[str, str]] = set()
    repeats = []
    for turn in turns:
        key = (turn.state, turn.text if turn.action is None else turn.action)
        repeats.append(key in seen)
        seen.add(key)
    return repeats


def _general(text: str) -> str:
    words = re.sub(r"\d+", "#", " ".join(text[:1000].split()))
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
