"""The interface to a model: a request for one turn, its completion, and the `Sampler` protocol.

The protocol is asynchronous because episodes are independent: every episode awaits its own completion, and the sampler
batches the requests that are waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast, runtime_checkable

from turnwise.agents.dialogue import Message
from turnwise.agents.prompt import View
from turnwise.agents.tokenization import Tokenizer
from turnwise.agents.trajectory import Extra
from turnwise.registry import Registry

__all__ = ["SAMPLERS", "Completion", "Planner", "Request", "Sampler", "Tokenizer", "UsesPlanner", "task_of"]

Planner = Callable[[], list[str]]
"""Returns the actions that lead from the environment's current state to success."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the model: a prompt as ids and as messages, and how to sample."""

    episode: str
    """Id of the episode, ``task#member@seed``: the key of what a sampler keeps between turns, such as a KV cache."""
    turn: int
    prompt: tuple[int, ...]
    """Token ids of the whole prompt; empty if the sampler has no tokenizer."""
    messages: tuple[Message, ...]
    """The same prompt as chat messages."""
    seed: int
    """Sampling seed of the episode, the same at every turn: a sampler draws from (seed, turn) alone."""
    view: View
    """What the agent sees, for samplers that are not language models."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 32
    stop: tuple[str, ...] = ()
    """Strings that end the response once it contains one of them."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer."""

    tokens: tuple[int, ...]
    """Ids as sampled, with the end token if it was sampled; empty if the sampler has no tokenizer."""
    logprobs: tuple[float, ...]
    """Log-probability (nats) of each token under the distribution that it was sampled from."""
    text: str
    """The decoded tokens without the end token."""
    version: int
    """Version of the weights that sampled it."""
    finish: Literal["stop", "length"]
    """``stop``: end token or stop string; ``length``: cut at ``max_tokens``."""
    extras: Mapping[str, Extra] = field(default_factory=dict, hash=False)
    """Further columns of the turn, such as a critic's `value`; see `turnwise.agents.trajectory.Turn`."""


class Sampler(Protocol):
    """Answers requests.

    A sampler that can use images has the attribute ``images = True``; without it, environments that return images are
    refused. A sampler that may follow the environment's expert implements `UsesPlanner` as well.
    """

    @property
    def version(self) -> int:
        """Version of the weights in use."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer; None for a sampler that works on messages or text."""

    @property
    def context(self) -> int | None:
        """Most tokens of prompt plus response; None: no limit."""

    async def sample(self, request: Request) -> Completion:
        """Return the answer to one request; several may be awaited at once."""

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode that is over."""

    def load(self, model: object, version: int) -> None:
        """Use new weights from now on, and drop what was cached under the old ones."""

    def close(self) -> None:
        """Release what the sampler holds; it cannot be used again."""


@runtime_checkable
class UsesPlanner(Protocol):
    """A sampler that may ask the environment's expert."""

    def attach(self, episode: str, planner: Planner) -> None:
        """Receive the planner of an episode that begins; `forget` drops it."""


def task_of(episode: str) -> str:
    """Return the task id inside an episode id.

    >>> task_of("train/small/000007#3@42")
    'train/small/000007'
    """
    return episode.rpartition("#")[0] or episode


MakeSampler = Callable[..., Sampler]


def _adapt(name: str, loaded: Any) -> MakeSampler:
    if not callable(loaded):
        raise TypeError(f"the sampler {name!r} must be a class or a function, got {type(loaded).__name__}")
    return cast(MakeSampler, loaded)


SAMPLERS: Registry[MakeSampler] = Registry(
    "sampler",
    group="turnwise.samplers",
    adapt=_adapt,
    lazy={
        "expert": "turnwise.agents.samplers.expert:Expert",
        "random": "turnwise.agents.samplers.scripted:Random",
        "scripted": "turnwise.agents.samplers.scripted:Scripted",
        "transformers": "turnwise.agents.samplers.transformers:TransformersSampler",
    },
)
"""What makes a sampler, by name, by entry point (group ``turnwise.samplers``), or as "module:attribute"."""
