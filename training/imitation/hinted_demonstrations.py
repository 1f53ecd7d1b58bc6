"""Demonstrations of using a hint: the expert's plan is shown in part, and only the turns that follow it are imitated.

A policy that never saw a hint does not use one, so group rules that show plans (`ghpo`, `seele`) need such a warm start
where the policy is not a pretrained language model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turncredit.agents.prompts.hints import plan_step
from turncredit.agents.rollouts.group_rounds import EpisodeOrder, GroupSpec
from turncredit.agents.rollouts.rollout_stream import GroupNumbers
from turncredit.agents.trajectory import Trajectory
from turncredit.tools.keyed_random import KeyedRandom


@dataclass(frozen=True, slots=True)
class ShowPlan:
    """Asks for the episodes of a group, all in one round, with a share of the expert's plan."""

    episodes: int
    share: float

    def __call__(self, number: int, members: Sequence[Trajectory]) -> Sequence[EpisodeOrder]:
        """Return the episodes of the first round, and none of later ones."""
        return () if number else (EpisodeOrder(self.episodes, plan=self.share),)


def with_plans(tasks: Iterable[str], share: float, seed: int) -> tuple[list[GroupSpec], list[GroupSpec]]:
    """Return the demonstrations that show nothing but the task, and those that show a part of the plan.

    Args:
        tasks: ids to demonstrate, one episode each.
        share: probability of showing the plan; how much of it is uniform in (0, 1].
        seed: seed of the environments and of the choice.
    """
    numbers = GroupNumbers(1, seed)
    rolls = KeyedRandom(f"hinted demonstrations {seed}")
    plain: list[GroupSpec] = []
    hinted: list[GroupSpec] = []
    for group in map(numbers.next, tasks):
        if rolls.chance(share):
            hinted.append(replace(group, grow=ShowPlan(group.size, rolls.between(1, 100) / 100)))
        else:
            plain.append(group)
    return plain, hinted


def beyond_hints(trajectories: Iterable[Trajectory]) -> set[tuple[str, int]]:
    """Return (trajectory id, turn) of the turns whose action is not the one that the hint shows for that turn."""
    return {
        (trajectory.id, number)
        for trajectory in trajectories
        for number, turn in enumerate(trajectory.turns)
        if plan_step(trajectory.hint, number) != turn.action
    }
