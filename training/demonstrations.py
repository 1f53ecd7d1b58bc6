"""Who demonstrates: the environment's expert, a demonstrator of its own that knows no more than the agent, or a file.

What a demonstrator did by mistake (`turnwise.training.noisy_expert`) is played, stays as context, and is never
imitated. Neither is what an expert draws in a dead end, where it has no plan.

Left out on purpose: people at a keyboard; what they play is stored, and stored trajectories can be imitated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.rollout import rollout
from turnwise.agents.samplers.base import Tokenizer
from turnwise.agents.samplers.expert import Expert
from turnwise.agents.samplers.scripted import DemonstratorSampler
from turnwise.agents.store import read_trajectories
from turnwise.agents.tokens import tokenize_trajectory
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit.advantages import Advantages
from turnwise.envs import demonstrators
from turnwise.training.errors import NoDemonstrations
from turnwise.training.noisy_expert import Noisy, WithNoise
from turnwise.training.setup import Demonstrations, Setup
from turnwise.training.steps import steps_of

Tick = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class Played:
    """Demonstrations and which of their turns were noise."""

    trajectories: tuple[Trajectory, ...]
    noisy: Noisy = field(default_factory=set)

    @property
    def texts(self) -> list[str]:
        """Every text that was seen or said, to train a tokenizer on."""
        return [
            text
            for trajectory in self.trajectories
            for turn in trajectory.turns
            for text in (turn.observation, turn.text)
        ]

    def tokenized(self, agent: Agent, tokenizer: Tokenizer) -> tuple[list[Group], Advantages]:
        """Fill the token ids in, and leave the noisy turns out of the loss.

        Args:
            agent: its prompts and the form of its actions.
            tokenizer: of the policy that will imitate.

        Returns:
            One group a demonstration, and an advantage of 1 for every turn, as pack takes them.
        """
        filled = [tokenize_trajectory(one, agent, tokenizer, rewrite=True) for one in self.trajectories]
        keep = [(one.id, number) not in self.noisy for one in filled for number in range(len(one.turns))]
        groups = [Group(one.task, (one,)) for one in filled]
        return groups, Advantages.of(steps_of(groups), np.ones(len(keep)), keep=np.array(keep, dtype=np.bool_))


def demonstrate(setup: Setup, wanted: Demonstrations, tasks: Sequence[str], on_finish: Tick | None = None) -> Played:
    """Play demonstrations, or read stored ones.

    Args:
        setup: environment, agent, seeds.
        wanted: who and how many.
        tasks: ids to demonstrate, one episode each; not used for stored ones.
        on_finish: called with every trajectory that was played.

    Returns:
        What was played, without failed episodes; if won_only, without those that did not succeed.

    Raises:
        NoDemonstrations: nothing is left.
    """
    noisy: Noisy = set()
    known = demonstrators(setup.env_id)
    if wanted.demonstrator == "expert" or wanted.demonstrator in known:
        agent = setup.agent(None)
        inner = (
            Expert(parser=agent.parser)
            if wanted.demonstrator == "expert"
            else DemonstratorSampler(known[wanted.demonstrator], parser=agent.parser)
        )
        sampler = WithNoise(inner, wanted.noise, wanted.slips, wanted.typos, agent.parser)
        groups = rollout(
            agent,
            sampler,
            tasks,
            make=setup.make,
            seed=setup.seed_for("demonstrations"),
            concurrency=setup.schedule.concurrency,
            deadline=setup.schedule.deadline,
            on_finish=on_finish,
        )
        noisy = sampler.noisy
        played = [trajectory for group in groups for trajectory in group.trajectories]
    else:
        played = list(read_trajectories(Path(wanted.demonstrator)))[: wanted.episodes]
    good = [one for one in played if one.stop != "error" and one.turns and (one.won or not wanted.won_only)]
    if not good:
        errors = [one.error for one in played if one.error]
        why = f"the first error was: {errors[0]}" if errors else "none succeeded; imitation.won_only = false takes all"
        raise NoDemonstrations(f"none of {len(played)} demonstrations by {wanted.demonstrator} can be used: {why}")
    return Played(tuple(good), noisy)
