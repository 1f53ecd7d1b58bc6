"""What a sampler is asked for one turn of an episode, its answer, and what it recorded of that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from turncredit.agents.errors import RequestFailed, SamplerError
from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.prompts.prompt import View
from turncredit.agents.rollouts.spans import call_of_model, note_answer
from turncredit.agents.token_experts import TurnExperts
from turncredit.agents.trajectory import Turn
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.engines.token_requests import check_sample

__all__ = ["answer_of", "experts_of", "request_for"]


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


async def answer_of(sampler: Sampler, request: Request) -> Completion:
    """Return the sampler's answer.

    Raises:
        RequestFailed: it cannot be used, or a library let its own cancellation out.
    """
    with call_of_model(sampler, request) as span:
        try:
            completion = await sampler.sample(request)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RequestFailed(f"turn {request.turn}: the sampler was cancelled from within") from error
        if completion.tokens or completion.logprobs:
            check_sample(request, completion.tokens, completion.logprobs, engine="the sampler")
        begun = request.start.tokens
        if completion.tokens[: len(begun)] != begun:
            raise SamplerError(
                f"turn {request.turn}: the sampler's answer does not begin with the {len(begun)} tokens that it got"
            )
        note_answer(span, request, completion)
        return completion


def experts_of(completion: Completion, before: Sequence[Turn]) -> TurnExperts | None:
    """Return the experts of a turn's tokens, without those that the turn before has; None if none were recorded."""
    if completion.experts is None:
        return None
    return TurnExperts.after(before[-1].experts if before else None, completion.experts)
