"""Who demonstrates: the environment's expert, a demonstrator of its own that knows no more than the agent, or a file.

Noise takes the demonstrator off its way, so that it shows how to come back: a noisy turn is played, stays as context,
and is never imitated. Some of it is a slip, an action that is not admissible: without it the learner never sees what
follows a mistake, and after its first one it is lost. Neither is imitated what an expert draws in a dead end, where it
has no plan.

Left out on purpose: people at a keyboard; what they play is stored, and stored trajectories can be imitated.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.parse import parser
from turnwise.agents.rollout import rollout
from turnwise.agents.samplers.base import Completion, Request, Tokenizer
from turnwise.agents.samplers.scripted import Demonstrated, Expert, FromCallable
from turnwise.agents.store import read_trajectories
from turnwise.agents.tokens import tokenize_trajectory
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit.advantages import Advantages
from turnwise.envs import demonstrators
from turnwise.training.errors import NoDemonstrations
from turnwise.training.setup import Demonstrations, Setup

Noisy = set[tuple[str, int]]
Tick = Callable[[Trajectory], None]


class WithNoise:
    """A sampler that now and then plays a random action in the place of another sampler's.

    The other one is asked at every turn and so sees the whole episode. Which turns were noise is in `noisy`.
    """

    def __init__(self, inner: Expert | FromCallable, noise: float, slips: float, parser_name: str) -> None:
        """Wrap a sampler.

        Args:
            inner: the sampler.
            noise: probability [0, 1] that a turn is random: a uniform admissible action or a slip.
            slips: share [0, 1] of random turns that play an action which is not admissible (see `slip`).
            parser_name: name of the form that the agent reads.
        """
        self._inner, self._noise, self._slips = inner, noise, slips
        self._write = parser(parser_name).write
        self._earlier: dict[str, dict[str, None]] = {}
        self.noisy: Noisy = set()
        self.tokenizer: Tokenizer | None = None
        self.context: int | None = None

    @property
    def version(self) -> int:
        """Version of the inner sampler."""
        return self._inner.version

    async def sample(self, request: Request) -> Completion:
        """Give the inner sampler's answer, or a random action; the draw depends on episode and turn alone."""
        completion = await self._inner.sample(request)
        if isinstance(self._inner, Expert) and (request.episode, request.turn) in self._inner.guesses:
            self.noisy.add((request.episode, request.turn))  # there was no plan: nothing to learn from
        dice = random.Random(f"noise/{request.seed}/{request.turn}")
        admissible = request.view.admissible
        if not admissible:
            return completion
        earlier = self._earlier.setdefault(request.episode, {})
        earlier.update(dict.fromkeys(admissible))
        if dice.random() >= self._noise:
            return completion
        if isinstance(self._inner, Expert):
            self._inner.forget(request.episode)  # its plan starts from where the noise leads
        self.noisy.add((request.episode, request.turn))
        action = slip(admissible, list(earlier), dice) if dice.random() < self._slips else dice.choice(admissible)
        return replace(completion, text=self._write(action))

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode."""
        self._earlier.pop(episode, None)
        self._inner.forget(episode)

    def load(self, model: Any, version: int) -> None:
        """There are no weights."""
        self._inner.load(model, version)

    def close(self) -> None:
        """Nothing is held."""
        self._inner.close()


def slip(admissible: Sequence[str], earlier: Sequence[str], dice: random.Random) -> str:
    """Return an action such as a learner gets wrong: of another moment, or the head of one with the tail of another.

    Args:
        admissible: what can be done now; at least one action.
        earlier: what could be done at some turn of the episode so far, now included.
        dice: what is drawn from.

    Returns:
        An action that is not admissible, unless there is no earlier one and ten draws put none together.
    """
    known = set(admissible)
    past = [action for action in earlier if action not in known]
    action = ""
    for _ in range(10):
        if past and dice.random() < 0.5:
            return dice.choice(past)
        head, tail = (dice.choice(earlier).split() for _ in range(2))
        action = " ".join([*head[: dice.randint(0, len(head))], *tail[dice.randint(0, len(tail)) :]])
        if action not in known:
            return action
    return dice.choice(past) if past else action


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
        ones = np.ones(len(keep))
        return [Group(one.task, (one,)) for one in filled], Advantages(ones, np.array(keep, dtype=np.bool_), ones)


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
            else Demonstrated(known[wanted.demonstrator], parser=agent.parser)
        )
        sampler = WithNoise(inner, wanted.noise, wanted.slips, agent.parser)
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
