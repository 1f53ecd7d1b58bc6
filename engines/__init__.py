"""Samplers: the interface to models, and the samplers of this package. Torch is imported only when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turncredit.engines.base import (
    MODEL_FREE,
    SAMPLERS,
    Completion,
    Planner,
    Request,
    Sampler,
    SamplerSettings,
    Samples,
    Tokenizer,
    parse_sampler,
    task_of,
)
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import (
    ActionSampler,
    DemonstratorSampler,
    EpisodePlayer,
    PlayerSampler,
    Random,
    Scripted,
)
from turncredit.engines.wrappers import as_sampler, make_sampler

if TYPE_CHECKING:
    from turncredit.engines.transformers.sampler import TransformersSampler

__all__ = [
    "MODEL_FREE",
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
    "SamplerSettings",
    "Samples",
    "Scripted",
    "Tokenizer",
    "TransformersSampler",
    "as_sampler",
    "make_sampler",
    "parse_sampler",
    "task_of",
]


def __getattr__(name: str) -> object:
    if name == "TransformersSampler":
        from turncredit.engines.transformers.sampler import TransformersSampler

        return TransformersSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
