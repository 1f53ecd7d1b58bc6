"""Stored episodes played over again without their model: snapshots for forks, plans, and whether chance is in them."""

from __future__ import annotations

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EnvFailure, NoPlan
from turncredit.agents.rollouts.env_pool import EnvWorker
from turncredit.agents.rollouts.episode import Episode, EpisodeSpec
from turncredit.agents.rollouts.forks import Fork, Snapshots
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Samples
from turncredit.engines.wrappers import as_sampler

__all__ = ["depends_on_chance", "plan_from", "retrace"]

_NOISES = 4
"""Other random numbers with which an action is repeated."""


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


async def plan_from(
    agent: Agent, sampler: Samples, worker: EnvWorker, trajectory: Trajectory, turn: int, snapshots: Snapshots
) -> list[str]:
    """Return the actions that the environment plans before a turn of a stored episode.

    Args:
        agent, sampler, worker, trajectory: as for `retrace`.
        turn: index of the turn.
        snapshots: from `retrace`; where there is none of the turn, the recorded actions are taken again.

    Raises:
        NoPlan: there is no way to success from there.
        AgentError: the environment has no plan().
        ForkRefused: the environment does not repeat what was recorded.
        EnvFailure: it failed.
    """
    spec = EpisodeSpec(trajectory.task, trajectory.seed, trajectory.id, 0, fork=Fork(trajectory, turn))
    try:
        await Episode(agent, as_sampler(sampler), worker, spec, snapshots).begin()
        planner = worker.planner()
        if planner is None:
            raise AgentError("the expert needs an environment with plan(), and this one has none")
        return planner()
    except NoPlan:
        raise
    except EnvFailure:
        worker.discard()
        raise


async def depends_on_chance(agent: Agent, sampler: Samples, worker: EnvWorker, trajectory: Trajectory) -> bool:
    """Return whether other random numbers lead a stored episode's actions to another next state, text or reward.

    Args:
        agent, sampler, worker, trajectory: as for `retrace`.

    Raises:
        ForkRefused: the environment does not repeat what was recorded.
        EnvFailure: it failed.
    """
    snapshots = await retrace(agent, sampler, worker, trajectory)
    for turn in range(len(trajectory.turns)):
        fork = Fork(trajectory, turn, repeat=True, fresh=True)
        for noise in range(_NOISES):
            spec = EpisodeSpec(trajectory.task, trajectory.seed, fork.name(noise), 0, fork=fork)
            episode = Episode(agent, as_sampler(sampler), worker, spec, snapshots)
            await episode.begin()
            state = "" if episode.result is None else episode.result.state
            if (episode.turns[turn].reward, state, episode.observation) != _after(trajectory, turn):
                return True
    return False


def _after(trajectory: Trajectory, turn: int) -> tuple[float, str, str]:
    """Return the reward of a turn, and the state and the text after it, as they were recorded."""
    reward = trajectory.turns[turn].reward
    if turn + 1 == len(trajectory.turns):
        return reward, trajectory.final_state, trajectory.final_observation
    following = trajectory.turns[turn + 1]
    return reward, following.state, following.observation
