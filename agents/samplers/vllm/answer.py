"""An answer of vLLM that may be interrupted: its tokens so far, with the weights that sampled each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from turnwise.agents.samplers.base import Request
from turnwise.agents.samplers.token_requests import first_stop

__all__ = ["PartialAnswer"]


@dataclass(slots=True, eq=False)
class PartialAnswer:
    """What was sampled of an answer. vLLM samples it in parts if new weights are loaded in the middle.

    Attributes:
        request: what it answers.
        limit: maximum number of its tokens.
        tokens: sampled ids.
        logprobs: log-probability of each token, nats.
        versions: version of the weights that sampled each token.
        finish: how vLLM ended the last part.
        held: whether it waits for the end of an interruption.
    """

    request: Request
    limit: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    finish: str = "abort"
    held: bool = False

    @classmethod
    def of(cls, request: Request, limit: int) -> Self:
        """Return the answer to a request before anything is sampled.

        Args:
            request: what it answers.
            limit: maximum number of its tokens, those that the request begins it with included.
        """
        start = request.start
        return cls(request, limit, list(start.tokens), list(start.logprobs), list(start.versions))

    def add(self, part: Any, version: int, ends: frozenset[int], decode: Callable[[Sequence[int]], str]) -> None:
        """Append what vLLM returned for the rest of the answer.

        Args:
            part: vLLM's `CompletionOutput`.
            version: version of the weights that sampled it.
            ends: ids that end an answer, beside the one of the request's chat template.
            decode: returns the text of tokens.
        """
        start, end_of_template = len(self.tokens), self.request.end
        ends = ends if end_of_template is None else ends | end_of_template.tokens
        self.tokens += part.token_ids
        self.logprobs += [
            table[token].logprob for token, table in zip(part.token_ids, part.logprobs or (), strict=True)
        ]
        self.versions += [version] * len(part.token_ids)
        self.finish = str(part.finish_reason)
        if start and (end := first_stop(self.request, self.tokens, start, decode)):
            self.finish = "stop"
            del self.tokens[end:], self.logprobs[end:], self.versions[end:]
        elif self.finish == "abort" and self.tokens and self.tokens[-1] in ends:
            self.finish = "stop"
        elif self.finish == "abort" and len(self.tokens) >= self.limit:
            self.finish = "length"
