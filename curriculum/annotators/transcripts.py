"""Episodes as text, for models that judge them."""

from __future__ import annotations

from turncredit.agents.trajectory import Trajectory

CLIPPED = 2000
"""Longest text of one observation or answer in a transcript, in characters; the middle is left out."""


def transcript(trajectory: Trajectory, last: int | None = None) -> str:
    """Return what an episode's agent saw and said, turn by turn.

    Args:
        trajectory: the episode.
        last: number of the last turn that is shown; None: all, and what the episode ended with.
    """
    turns = trajectory.turns if last is None else trajectory.turns[: last + 1]
    lines = [f"Observation: {clipped(turn.observation)}\nAgent: {clipped(turn.text)}" for turn in turns]
    if last is None and trajectory.final_observation:
        lines.append(f"Observation: {clipped(trajectory.final_observation)}")
    return "\n".join(lines)


def clipped(text: str, limit: int = CLIPPED) -> str:
    """Return a text whose middle is left out if it is too long.

    >>> clipped("abcdefgh", 4)
    'ab ... gh'
    """
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-(limit // 2) :]}"
