"""The smallest interface to a model: a request with the prompt of one turn, a completion, and the `Sampler` protocol.

The protocol is asynchronous because episodes are independent: every live episode awaits its own completion, and the
sampler batches whatever is waiting. What is left out on purpose: chat messages, tools and images; a sampler sees token
ids (or the `View`, when it has no tokenizer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from turnwise.agents.chat import Tokenizer
from turnwise.agents.prompt import View
from turnwise.agents.trajectory import Extra

__all__ = ["Completion", "Request", "Sampler", "Tokenizer", "task_of"]


@dataclass(frozen=True, slots=True)
class Request:
    """One turn's call of the model."""

    episode: str
    """Id of the episode: ``task#member@seed``. The key of what a sampler keeps between turns (its KV cache)."""
    turn: int
    prompt: tuple[int, ...]
    """Token ids of the whole prompt; empty when the sampler has no tokenizer."""
    seed: int
    """Sampling seed of the episode, the same at every turn: a sampler draws from (seed, turn) alone."""
    view: View
    """What the agent sees, for samplers that are no language model."""
    plan: Callable[[], list[str]] | None
    """Actions from the current state to success, where the environment can tell (the expert); else None."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 32
    stop: tuple[str, ...] = ()
    """Strings that end the response once they appear in it."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model answered."""

    tokens: tuple[int, ...]
    """Ids as sampled, with the end token when it was sampled; empty when the sampler has no tokenizer."""
    logprobs: tuple[float, ...]
    """Log-probability (nats) of each of the tokens under the distribution that was sampled from."""
    text: str
    """The decoded tokens without the end token."""
    version: int
    """Version of the weights that sampled it."""
    finish: Literal["stop", "length"]
    """``stop``: end token or stop string; ``length``: cut at ``max_tokens``."""
    extras: Mapping[str, Extra] = field(default_factory=dict, hash=False)
    """Further columns of the turn, such as a critic's `value`; see `turnwise.agents.trajectory.Turn`."""


class Sampler(Protocol):
    """Anything that answers requests. ``version`` grows with every `load`; ``context`` bounds prompt plus response."""

    @property
    def version(self) -> int:
        """Version of the weights in use."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer; None for a sampler that works on text."""

    @property
    def context(self) -> int | None:
        """Most tokens of prompt plus response; None: unbounded."""

    async def sample(self, request: Request) -> Completion:
        """Return the answer to one request; many may be awaited at once."""

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode: it is over."""

    def load(self, model: object, version: int) -> None:
        """Use new weights from now on; what was cached under the old ones is dropped."""

    def close(self) -> None:
        """Release what the sampler holds; it cannot be used again."""


def task_of(episode: str) -> str:
    """Return the task id inside an episode id.

    >>> task_of("train/small/000007#3@42")
    'train/small/000007'
    """
    return episode.rpartition("#")[0] or episode
