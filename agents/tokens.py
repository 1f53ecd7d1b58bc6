"""Ids for trajectories that were played without a model, so that they can be imitated.

The ids come from the very prompt builder and encoding that a rollout uses: a trajectory filled in here is, id for id,
what the same answers would have been in a rollout with the tokenizer. Left out on purpose: changing ids that were
sampled; those are the truth of their rollout.
"""

from __future__ import annotations

from dataclasses import replace

from turnwise.agents.agent import Agent
from turnwise.agents.chat import Tokenizer, codec_of
from turnwise.agents.errors import PromptError
from turnwise.agents.parse import parser
from turnwise.agents.prompt import Exchange, View
from turnwise.agents.trajectory import Trajectory, Turn

__all__ = ["tokenize_trajectory"]


def tokenize_trajectory(
    trajectory: Trajectory, agent: Agent, tokenizer: Tokenizer, *, rewrite: bool = False
) -> Trajectory:
    """Return the trajectory with ``prompt`` and ``response`` of every turn filled in, log-probabilities 0.

    Args:
        trajectory: with its texts; ids that it has are replaced.
        agent: its prompt builder makes the prompts, its correction what an unparsable answer got.
        tokenizer: of the policy that will imitate; its end token ends every response.
        rewrite: write an action in the form of the agent's parser where the answer does not read as that action, for
            trajectories that were played with another one (say, bare actions for an agent that is to tag them). Answers
            that do read so stay as they were, with their reasoning, and so do those that had no action.

    Raises:
        PromptError: the template lists the admissible actions, and the trajectory does not have them: it was played
            with a template that does not list them.

    """
    if agent.prompt.template.lists and any(turn.admissible is None for turn in trajectory.turns):
        raise PromptError(
            f"the template lists the admissible actions, which were not kept with the trajectory {trajectory.id!r}: "
            "play the demonstrator with this template too, or use a template without a listing"
        )
    codec = codec_of(tokenizer)
    form = parser(agent.parser)
    memory: list[Exchange] = []
    previous: tuple[int, ...] = ()
    turns: list[Turn] = []
    for number, turn in enumerate(trajectory.turns):
        view = View(trajectory.turns[0].observation, turn.observation, turn.admissible, number)
        prompt = agent.encode(agent.prompt.build(memory, view), previous, tokenizer)
        other = rewrite and turn.action is not None and form.read(turn.text).action != turn.action
        text = form.write(str(turn.action)) if other else turn.text
        response = codec.answer(text)
        turns.append(replace(turn, prompt=prompt, response=response, logprobs=(0.0,) * len(response), text=text))
        memory.append(Exchange(turn.observation, text, turn.action))
        previous = prompt + response
    return replace(trajectory, turns=tuple(turns))
