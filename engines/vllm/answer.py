"""An answer of vLLM that may be interrupted: its tokens so far, with the weights that sampled each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.errors import RequestFailed
from turncredit.agents.token_experts import Experts
from turncredit.engines.base import Request
from turncredit.engines.token_requests import first_stop

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
        experts: of the prompt and these tokens without the last, [N, layers, K] of each part, if vLLM returns them; a
            later part has those of the tokens that earlier ones lack.
        held: whether it waits for the end of an interruption.
    """

    request: Request
    limit: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    finish: str = "abort"
    experts: list[NDArray[np.integer]] = field(default_factory=list)
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
        if (experts := getattr(part, "routed_experts", None)) is not None:
            self.experts.append(experts[sum(map(len, self.experts)) :])
        self.finish = str(part.finish_reason)
        if start and (end := first_stop(self.request, self.tokens, start, decode)):
            self.finish = "stop"
            del self.tokens[end:], self.logprobs[end:], self.versions[end:]
        elif self.finish == "abort" and part.token_ids and self.tokens[-1] in ends:
            self.finish = "stop"
        elif self.finish == "abort" and len(self.tokens) >= self.limit:
            self.finish = "length"

    def recorded(self) -> Experts:
        """Return the experts of the prompt and the answer without its last token, [N, layers, K].

        Raises:
            RequestFailed: vLLM returned fewer.
        """
        count = len(self.request.prompt) + len(self.tokens) - 1
        there = sum(map(len, self.experts))
        if there < count:
            raise RequestFailed(
                f"episode {self.request.episode}: vLLM returned the experts of {there} tokens, and it computed {count}"
            )
        experts = np.concatenate(self.experts)[:count]
        return experts if experts.dtype == np.uint8 else experts.astype(np.uint16)
