"""Samplers: the interface to models, and the samplers of this package. Torch is imported only when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwise.agents.samplers.base import (
    SAMPLERS,
    Completion,
    Planner,
    Request,
    Sampler,
    Tokenizer,
    UsesPlanner,
    task_of,
)
from turnwise.agents.samplers.expert import Expert
from turnwise.agents.samplers.scripted import (
    ActionSampler,
    DemonstratorSampler,
    EpisodePlayer,
    PlayerSampler,
    Random,
    Scripted,
)

if TYPE_CHECKING:
    from turnwise.agents.samplers.transformers import TransformersSampler

__all__ = [
    "SAMPLERS",
    "ActionSampler",
    "Completion",
    "DemonstratorSampler",
    "EpisodePlayer",
    "Expert",
    "Planner",
    "PlayerSampler",
    "Random",
    "Request",
    "Sampler",
    "Scripted",
    "Tokenizer",
    "TransformersSampler",
    "UsesPlanner",
    "task_of",
]


def __getattr__(name: str) -> object:
    if name == "TransformersSampler":
        from turnwise.agents.samplers.transformers import TransformersSampler

        return TransformersSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
