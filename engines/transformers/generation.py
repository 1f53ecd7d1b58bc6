"""A request in progress."""

import asyncio
from dataclasses import dataclass, field

from turncredit.agents.models.tokenization import Decode
from turncredit.agents.token_experts import Experts
from turncredit.engines.base import Completion, Request
from turncredit.engines.token_requests import stop_strings


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

    def stopped(self, decode: Decode) -> bool:
        """Return whether the end of the response contains a stop string; a character has at most 4 tokens."""
        stops = stop_strings(self.request)
        if not stops:
            return False
        reach = 4 * max(len(stop) for stop in stops) + 4
        tail = decode(self.tokens[-reach:])
        return any(stop in tail for stop in stops)
