"""What a sampler is asked for one turn of an episode, and what it recorded of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.prompts.prompt import View
from turncredit.agents.samplers.base import Completion, Request
from turncredit.agents.token_experts import TurnExperts
from turncredit.agents.trajectory import Turn

__all__ = ["experts_of", "request_for"]


def request_for(view: View, prompt: Prompt, dialogue: Dialogue, *, episode: str, seed: int) -> Request:
    """Return what a sampler is asked for one turn, with the sampling options of the dialogue's agent.

    Args:
        view: what the agent sees in this turn.
        prompt: the prompt that was built for it.
        dialogue: memory of the episode.
        episode: name of the episode.
        seed: seed of the episode's sampling.
    """
    agent = dialogue.agent
    return Request(
        episode=episode,
        turn=view.turn,
        prompt=prompt.ids,
        messages=prompt.messages,
        seed=seed,
        view=view,
        temperature=agent.temperature,
        annealing=agent.annealing,
        top_p=agent.top_p,
        top_k=agent.top_k,
        min_p=agent.min_p,
        max_tokens=agent.max_tokens,
        stop=agent.stop,
        past=prompt.past,
        images=prompt.shown,
        end=dialogue.end,
        parser=agent.parser if agent.part else "",
    )


def experts_of(completion: Completion, before: Sequence[Turn]) -> TurnExperts | None:
    """Return the experts of a turn's tokens, without those that the turn before has; None if none were recorded."""
    if completion.experts is None:
        return None
    return TurnExperts.after(before[-1].experts if before else None, completion.experts)
