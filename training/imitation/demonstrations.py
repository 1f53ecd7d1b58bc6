"""Demonstrations of a run: trajectories to imitate, the mistakes in them, and what was left out."""

from dataclasses import dataclass, field

import numpy as np

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Played or stored demonstrations.

    Attributes:
        trajectories: in the order in which they were played.
        mistakes: (trajectory id, turn) of the turns that must not be imitated.
        left_out: a sentence about those that were left out or are missing; empty if there are none.
    """

    trajectories: tuple[Trajectory, ...]
    mistakes: set[tuple[str, int]] = field(default_factory=set)
    left_out: str = ""

    @property
    def texts(self) -> list[str]:
        """Every observation and answer, to train a tokenizer on."""
        return [
            text
            for trajectory in self.trajectories
            for turn in trajectory.turns
            for text in (turn.observation, turn.text)
        ]

    def tokenized(
        self, agent: Agent, tokenizer: Tokenizer, context: int | None = None
    ) -> tuple[list[Group], Advantages]:
        """Return the demonstrations with token ids, and advantages that leave the mistakes out of the loss.

        Args:
            agent: prompts and parser of the policy that will imitate.
            tokenizer: of that policy.
            context: maximum number of tokens that are used of a sequence; the rest of a much longer one may be missing.

        Returns:
            One group per demonstration, and an advantage of 1 for every turn, as `pack` takes them.
        """
        filled = [
            tokenize_trajectory(trajectory, agent, tokenizer, rewrite=True, context=context)
            for trajectory in self.trajectories
        ]
        groups = [Group(trajectory.task, (trajectory,)) for trajectory in filled]
        keep = [
            (trajectory.id, number) not in self.mistakes
            for trajectory in filled
            for number in range(len(trajectory.turns))
        ]
        return groups, Advantages.of(
            steps_of(groups, only_common=True), np.ones(len(keep)), keep=np.array(keep, dtype=np.bool_)
        )
