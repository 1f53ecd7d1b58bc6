"""Statistics of what an iteration was made of."""

from __future__ import annotations

from collections.abc import Sequence

from turncredit.agents.trajectory import Group
from turncredit.task_ids import part_of
from turncredit.training.sampling.grown_groups import PlayedGroup

__all__ = ["draw_metrics", "fork_metrics", "growth_by_part", "growth_metrics"]


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


def growth_by_part(sampled: Sequence[PlayedGroup], parts: Sequence[str]) -> dict[str, float]:
    """Return how many groups of each part of a mixture were dropped, and what of it is trained on.

    Weights of parts hold among the groups that are played: a rule that drops groups may leave one part alone.

    Args:
        sampled: the groups, dropped ones included.
        parts: names of the parts; those without a group are left out.

    Returns:
        groups_dropped and trained_episodes, each as "groups_dropped/PART".
    """
    by_part: dict[str, list[PlayedGroup]] = {}
    for played in sampled:
        by_part.setdefault(part_of(played.drawn.task, parts), []).append(played)
    numbers = {part: growth_metrics(own) for part, own in by_part.items() if part}
    return {f"{key}/{part}": numbers[part][key] for part in numbers for key in ("groups_dropped", "trained_episodes")}


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
