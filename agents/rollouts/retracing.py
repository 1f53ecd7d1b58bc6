"""Stored episodes played over again, without their model, for the snapshots that their forks begin from."""

from __future__ import annotations

from turnwise.agents.agent import Agent
from turnwise.agents.rollouts.env_pool import EnvWorker
from turnwise.agents.rollouts.episode import Episode, EpisodeSpec
from turnwise.agents.rollouts.forks import Fork, Snapshots
from turnwise.agents.samplers.base import Samples
from turnwise.agents.samplers.wrappers import as_sampler
from turnwise.agents.trajectory import Trajectory

__all__ = ["retrace"]


async def retrace(agent: Agent, sampler: Samples, worker: EnvWorker, trajectory: Trajectory) -> Snapshots:
    """Return the state before every turn of a stored episode, whose recorded actions are taken again.

    Args:
        agent: that played it, with the same prompts and parser.
        sampler: that forks will be played with; it is not asked for anything.
        worker: an environment like the episode's; it stays open, unless it fails.
        trajectory: the episode.

    Returns:
        One snapshot a turn; none if the environment cannot be saved, in which case forks replay.

    Raises:
        ForkRefused: the environment does not repeat what was recorded.
        EnvFailure: it failed.
    """
    snapshots = Snapshots()
    if trajectory.turns:
        fork = Fork(trajectory, len(trajectory.turns) - 1)
        spec = EpisodeSpec(trajectory.task, trajectory.seed, trajectory.id, 0, fork=fork)
        await Episode(agent, as_sampler(sampler), worker, spec, snapshots).retrace()
    return snapshots
