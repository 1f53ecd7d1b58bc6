"""Models of a family whose answers depend on their prompts, and samplers that serve several prompts at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import transformers
from toys.families import VOCAB, Family

from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request
from turncredit.engines.transformers.sampler import TransformersSampler

VIEW = View(start="", observation="", admissible=None, turn=0)


class Numbers:
    """A tokenizer without meaning; no id ends a response."""

    eos_token_id = None

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % VOCAB for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


def make_model(family: Family) -> Any:
    """Return a model on the CPU whose predictions are sharp enough to show a wrong token."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = getattr(transformers, family.loader).from_config(family.config()).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.ndim == 2 and "router" not in name:
                    weight.normal_(0.0, 0.1)
    model.generation_config.eos_token_id = None
    return model


def prompt(length: int, salt: int = 0) -> tuple[int, ...]:
    """Return ids that differ with their place and the salt."""
    return tuple(5 + (7 * i + 3 * salt + i * i) % (VOCAB - 20) for i in range(length))


def serve(sampler: TransformersSampler, *prompts: Sequence[int], turn: int = 0, **how: object) -> list[Completion]:
    """Return the answers of episodes that ask at the same time."""

    def request(number: int, ids: Sequence[int]) -> Request:
        return Request(f"e{number}", turn, tuple(ids), (), number, VIEW, **{"temperature": 0.0, "max_tokens": 9, **how})

    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(request(k, ids)) for k, ids in enumerate(prompts)))

    return asyncio.run(together())


def assert_equal(answers: Sequence[Completion], right: Sequence[Completion], limit: float = 1e-5) -> None:
    """Equal tokens, and log-probabilities up to a limit in nats."""
    for answer, other in zip(answers, right, strict=True):
        assert answer.tokens == other.tokens
        assert answer.logprobs == pytest.approx(other.logprobs, abs=limit)
