"""Samplers: what answers a prompt. The one that needs torch is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwise.agents.samplers.base import Completion, Request, Sampler, Tokenizer, task_of
from turnwise.agents.samplers.scripted import Actor, Demonstrated, Expert, FromCallable, Random, Scripted

if TYPE_CHECKING:
    from turnwise.agents.samplers.transformers import TransformersSampler

__all__ = [
    "Actor",
    "Completion",
    "Demonstrated",
    "Expert",
    "FromCallable",
    "Random",
    "Request",
    "Sampler",
    "Scripted",
    "Tokenizer",
    "TransformersSampler",
    "task_of",
]


def __getattr__(name: str) -> object:
    """Import the sampler that needs torch on first use."""
    if name == "TransformersSampler":
        from turnwise.agents.samplers.transformers import TransformersSampler

        return TransformersSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
