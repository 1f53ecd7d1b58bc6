"""Token ids for trajectories that were played without a model, so that they can be imitated.

The ids are those of a rollout: the same `Dialogue` builds them. A response is what the chat template itself renders of
such an answer: with the thought that the prompt has opened closed, and in the channel of final answers. Sampled ids are
never replaced in place, since they are what the model was given and what it said.
"""

from __future__ import annotations

from dataclasses import replace

from turncredit.agents.agent import Agent
from turncredit.agents.errors import PromptError
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.trajectory import Trajectory, Turn

__all__ = ["tokenize_trajectory"]


def tokenize_trajectory(
    trajectory: Trajectory,
    agent: Agent,
    tokenizer: Tokenizer,
    *,
    rewrite: bool = False,
    context: int | None = None,
) -> Trajectory:
    """Return the trajectory with ``prompt`` and ``response`` of every turn filled in, and log-probabilities of 0.

    Args:
        trajectory: its texts are used; ids that it has are replaced.
        agent: builds the prompts.
        tokenizer: tokenizer of the policy that will imitate; its end token ends every response.
        rewrite: write an action in the form of the agent's parser if the answer does not parse as that action, for
            trajectories that were played with another parser. Other answers, and their reasoning, stay as they are.
        context: maximum number of tokens that are used of a sequence; longer prompts are encoded only in part.

    Raises:
        PromptError: the chat template writes no such answers after its prompts; or the template lists the admissible
            actions, and the trajectory does not have them because it was played with one that does not list them.
    """
    agent = agent.for_task(trajectory.task)
    if agent.prompt.template.lists and any(turn.admissible is None for turn in trajectory.turns):
        raise PromptError(
            f"the template lists the admissible actions, but the trajectory {trajectory.id!r} does not contain them: "
            "play the demonstrator with this template too, or use a template without a listing"
        )
    dialogue = Dialogue(agent, tokenizer, context)
    turns: list[Turn] = []
    for turn in trajectory.turns:
        view = dialogue.view_of(turn)
        prompt = dialogue.prompt(view)
        read = agent.parse(turn.text, sampled=bool(turn.response)).action
        differs = rewrite and turn.action is not None and read != turn.action
        text = agent.format(str(turn.action)) if differs else turn.text
        text, response = dialogue.demonstrated(text)
        dialogue.add(view, text, turn.action, response)
        logprobs = (0.0,) * len(response)
        turns.append(
            replace(
                turn,
                prompt=prompt.ids,
                shown=prompt.shown,
                response=response,
                logprobs=logprobs,
                text=text,
                experts=None,
            )
        )
    return replace(trajectory, turns=tuple(turns))
