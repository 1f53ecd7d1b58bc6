"""Short episodes that a model that sees has played, and what plain torch makes of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import torch
from toys.vision import screen

from turncredit.agents.errors import RequestFailed
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.agents.vision.image_reader import reader_of
from turncredit.engines.base import Request
from turncredit.engines.transformers.sampler import TransformersSampler

EPISODES, TURNS = 3, 3


def played(model, tokenizer, agent, *, first=0, device="cpu"):
    """Return episodes in which every turn sees another screen, and the second turn of one none."""
    sampler = TransformersSampler(model, tokenizer, device=device, concurrency=EPISODES)

    async def answered(request):
        while True:
            try:
                return await sampler.sample(request)
            except RequestFailed:  # a random model may say the placeholder of images
                request = replace(request, seed=request.seed + 100)

    async def play(number):
        dialogue, turns = Dialogue(agent, tokenizer, 2048), []
        for turn in range(TURNS):
            images = () if (number, turn) == (1, 1) else (screen(first + 10 * number + turn),)
            view = dialogue.view(f"tap {number} {turn}", images=images)
            prompt = dialogue.prompt(view)
            answer = await answered(
                Request(
                    f"e#{number}@0",
                    turn,
                    prompt.ids,
                    prompt.messages,
                    number,
                    view,
                    max_tokens=5 + turn,
                    images=prompt.shown,
                    end=dialogue.end,
                )
            )
            dialogue.add(view, answer.text, None, answer.tokens)
            turns.append(
                Turn(
                    prompt.ids,
                    answer.tokens,
                    answer.logprobs,
                    0,
                    view.observation,
                    answer.text,
                    None,
                    "",
                    0.0,
                    False,
                    images=images,
                    shown=prompt.shown,
                )
            )
        sampler.forget(f"e#{number}@0")
        return Trajectory(f"e#{number}@0", "e", None, 0, tuple(turns), "turns", False, 0.0, "", "", None, 0.0)

    async def play_all():
        return await asyncio.gather(*(play(number) for number in range(EPISODES)))

    return [Group("e", tuple(asyncio.run(play_all())))]


def plain(model, tokenizer, turn):
    """Return the log-probabilities of a turn's answer from one forward of the model."""
    ids = torch.tensor([turn.prompt + turn.response], device=model.device)
    arguments = reader_of(tokenizer).arguments(ids, turn.shown, model)
    logits = model(input_ids=ids, use_cache=False, **arguments).logits[0, len(turn.prompt) - 1 : -1]
    return logits.log_softmax(-1)[torch.arange(len(turn.response)), ids[0, len(turn.prompt) :]]
