"""The column `hindsight`: how likely each answer is to the policy once it knows how the episode ended.

The prompt of each turn is built again, with one sentence more in what the agent sees. No token is sampled: the answers
are scored in one pass of the learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from turncredit.agents.agent import Agent
from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.columns import Floats
from turncredit.training.assign.token_scores import TokenScores
from turncredit.training.batch.batch import pack

__all__ = ["COLUMN", "TOLD", "Hindsight"]

COLUMN = "hindsight"

TOLD = "\n\nLater, this episode ends as follows: {end}"
"""What is added to the observation of a turn; the end is the last observation of its episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """Scores the answers of episodes under prompts that tell how these ended.

    Attributes:
        agent: that played, and builds the prompts.
        scores: computes the log-probabilities.
        context: tokens that the policy can use. Where a turn does not fit in with the end, all turns of its episode
            count alike.
    """

    agent: Agent
    scores: TokenScores
    context: int

    def column(self, groups: Sequence[Group]) -> Floats:
        """Return the mean log-probability of each turn's tokens, float64 [N], nats; 0 for an answer without tokens.

        The turns of an episode that does not fit have 0 as well.

        Args:
            groups: whose turns are scored, in the order of `turncredit.agents.steps.steps_of`.
        """
        told = [self._told(trajectory) for group in groups for trajectory in group.finished]
        fits = [self._fits(trajectory) for trajectory in told]
        batch = pack([Group("", tuple(compress(told, fits)))], merge=False)
        number = batch.turn[batch.mask]
        total = np.bincount(number, weights=self.scores.policy(batch).logprobs[batch.mask], minlength=len(batch.turns))
        scored = np.repeat(np.array(fits, dtype=np.bool_), [len(trajectory.turns) for trajectory in told])
        column = np.zeros(len(scored))
        column[scored] = total / np.maximum(np.bincount(number, minlength=len(batch.turns)), 1)
        return column

    def _fits(self, trajectory: Trajectory) -> bool:
        return all(len(turn.prompt) + len(turn.response) <= self.context for turn in trajectory.turns)

    def _told(self, trajectory: Trajectory) -> Trajectory:
        """Return the episode with prompts that tell how it ended."""
        prompts = self._prompts(trajectory)
        turns = [
            replace(turn, prompt=prompt.ids, shown=prompt.shown, experts=None)
            for turn, prompt in zip(trajectory.turns, prompts, strict=True)
        ]
        return replace(trajectory, turns=tuple(turns))

    def _prompts(self, trajectory: Trajectory) -> Iterator[Prompt]:
        """Yield each prompt with the end in it; the turns before it are as they were."""
        dialogue = Dialogue(self.agent, self.scores.learner.tokenizer)
        sentence = TOLD.format(end=trajectory.final_observation)
        for turn in trajectory.turns:
            view = dialogue.view_of(turn)
            yield dialogue.prompt(_with(view, sentence))
            dialogue.add(view, turn.text, turn.action, turn.response)


def _with(view: View, sentence: str) -> View:
    """Return what the agent sees with a sentence at its end: of the text, or of the last result of its calls."""
    observation = view.observation + sentence
    results = (*view.results[:-1], view.results[-1] + sentence) if view.results else ()
    return replace(view, start=view.start if view.turn else observation, observation=observation, results=results)
