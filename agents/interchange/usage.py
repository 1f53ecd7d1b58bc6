"""Tokens and price of what was sampled for an episode, as other formats total them.

The turns that a fork took over are its parent's: counted with both, the same tokens would be paid twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from turncredit.agents.trajectory import Trajectory, Turn

__all__ = ["SampledUsage", "turn_usage", "usage_of"]


@dataclass(frozen=True, slots=True)
class SampledUsage:
    """What some answers used.

    Attributes:
        answers: number of those whose tokens are known.
        prompt: tokens of their prompts.
        response: tokens of the answers.
        cost: price of those whose price is known; None if there are none.
    """

    answers: int = 0
    prompt: int = 0
    response: int = 0
    cost: float | None = None


def usage_of(trajectory: Trajectory) -> SampledUsage:
    """Return what the turns that were sampled for an episode used."""
    first = trajectory.fork_tokens
    used = [turn_usage(turn, 0 if number else first) for number, turn in enumerate(trajectory.sampled)]
    costs = [entry.cost for entry in used if entry.cost is not None]
    return SampledUsage(
        sum(entry.answers for entry in used),
        sum(entry.prompt for entry in used),
        sum(entry.response for entry in used),
        sum(costs) if costs else None,
    )


def turn_usage(turn: Turn, taken_over: int = 0) -> SampledUsage:
    """Return what a turn used.

    Args:
        turn: the turn.
        taken_over: number of tokens of its answer that are those of another episode.
    """
    counted = bool(turn.response or turn.prompt or "prompt_tokens" in turn.extras)
    cost = turn.extras.get("request_cost")
    return SampledUsage(
        int(counted),
        turn.counted("prompt_tokens", len(turn.prompt)),
        turn.counted("response_tokens", len(turn.response)) - taken_over,
        float(cost) if isinstance(cost, int | float) else None,
    )
