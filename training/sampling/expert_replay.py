"""What the environment's expert says about stored episodes: whether it could still win before a turn.

No trajectory holds a plan, since agents must not see it. The environment is brought to the turn once more, from a
snapshot or by the recorded actions, as for a fork, and asked for its `plan()` there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EnvFailure, NoPlan
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.forks import Snapshots
from turncredit.agents.rollouts.retracing import plan_from, retrace
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Sampler

__all__ = ["ExpertReplay", "turns_left"]


@dataclass(slots=True)
class ExpertReplay:
    """Says whether the expert could still win before a turn of an episode, within the turns that are left.

    The environment is asked once about each turn. The snapshots of one episode are kept, so the turns of an episode
    should be asked about one after another.

    Attributes:
        agent: that played the episodes.
        sampler: that played them; it is not asked for anything.
        pool: environments like theirs.
    """

    agent: Agent
    sampler: Sampler
    pool: EnvPool
    _lengths: dict[tuple[str, int], int | None] = field(default_factory=dict)
    _snapshots: tuple[str, Snapshots] | None = None

    def __call__(self, trajectory: Trajectory, turn: int) -> bool:
        """Return whether the plan before a turn has at most as many actions as there are turns left.

        Raises:
            AgentError: the environment has no plan(), or nobody can plan for it.
        """
        key = trajectory.id, turn
        if key not in self._lengths:
            self._lengths[key] = _result(self._length(trajectory, turn))
        length = self._lengths[key]
        return length is not None and length <= turns_left(trajectory, turn, self.agent.max_turns)

    async def _length(self, trajectory: Trajectory, turn: int) -> int | None:
        """Return the number of actions of the plan; None without a plan, or if the episode cannot be played again."""
        worker = self.pool.take()
        try:
            if self._snapshots is None or self._snapshots[0] != trajectory.id:
                self._snapshots = trajectory.id, await retrace(self.agent, self.sampler, worker, trajectory)
            plan = await plan_from(self.agent, self.sampler, worker, trajectory, turn, self._snapshots[1])
        except (NoPlan, EnvFailure):
            return None
        finally:
            self.pool.give_back(worker)
        return len(plan) or None


def _result(work: Coroutine[object, None, int | None]) -> int | None:
    """Return what a coroutine returns in a loop of its own; the caller may be in that of a rollout, which waits."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def turns_left(trajectory: Trajectory, turn: int, max_turns: int) -> int:
    """Return how many actions an episode that begins before a turn can take.

    Args:
        trajectory: the episode. If the environment truncated it, no fork can take more actions than it did from there.
        turn: index of the turn.
        max_turns: of the agent.
    """
    left = max_turns - turn
    if trajectory.stop != "truncated":
        return left
    return min(left, sum(taken.action is not None for taken in trajectory.turns[turn:]))
