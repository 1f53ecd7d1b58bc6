"""Statistics of what an iteration was made of."""

from __future__ import annotations

from collections.abc import Sequence

from turncredit.agents.trajectory import Group
from turncredit.training.sampling.grown_groups import PlayedGroup

__all__ = ["draw_metrics", "fork_metrics", "growth_metrics"]


def draw_metrics(sampled: Sequence[PlayedGroup]) -> dict[str, float]:
    """Return how much was played for an iteration, dropped groups included.

    Returns:
        distinct_tasks, sampled_turns (of all episodes; a turn that a fork took over counts once, in the episode that
        sampled it).
    """
    everyone = [member for played in sampled for member in played.group.trajectories]
    return {
        "distinct_tasks": float(len({played.drawn.task for played in sampled})),
        "sampled_turns": float(sum(len(member.sampled) for member in everyone)),
    }


def growth_metrics(sampled: Sequence[PlayedGroup]) -> dict[str, float]:
    """Return how groups grew, and what of them is trained on.

    Returns:
        groups_dropped, rounds (mean of all groups), trained_episodes (finished members that carry loss).
    """
    trained = [played for played in sampled if not played.dropped]
    return {
        "groups_dropped": float(len(sampled) - len(trained)),
        "rounds": sum(played.rounds for played in sampled) / len(sampled),
        "trained_episodes": float(sum(len(played.counted.finished) - len(played.masked) for played in trained)),
    }


def fork_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return how many episodes were forks, and how often these won.

    Returns:
        forks (episodes that are forks), fork_success (share of them that won, of those without an error).
    """
    everyone = [trajectory for group in groups for trajectory in group.trajectories]
    forks = [trajectory for trajectory in everyone if trajectory.fork_of is not None]
    done = [trajectory for trajectory in forks if trajectory.finished]
    return {
        "forks": len(forks),
        "fork_success": sum(trajectory.won for trajectory in done) / max(1, len(done)),
    }
