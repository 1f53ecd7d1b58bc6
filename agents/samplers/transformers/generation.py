"""A request in progress."""

import asyncio
from dataclasses import dataclass, field

from turnwise.agents.samplers.base import Completion, Request
from turnwise.agents.token_experts import Experts


@dataclass(slots=True, eq=False)
class Generation:
    """A request in progress: the sequence so far, and the sampled tokens."""

    request: Request
    future: asyncio.Future[Completion]
    ids: list[int]
    limit: int
    key: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    experts: list[Experts] = field(default_factory=list)

    @property
    def recorded(self) -> int:
        """Number of tokens whose experts are known."""
        return sum(map(len, self.experts))
