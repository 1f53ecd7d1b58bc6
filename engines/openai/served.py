"""What the samplers of the OpenAI API share: a client on a background loop, the model's name, and counts of tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from turncredit.agents.errors import RequestFailed, SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Extra
from turncredit.engines.background import BackgroundLoop
from turncredit.engines.base import Completion, Request, Sampler, SamplerSettings
from turncredit.engines.openai.client import DEFAULT_URL, ApiKey, OpenAIClient, base_url
from turncredit.engines.openai.options import OpenAIOptions
from turncredit.engines.token_requests import refuse_annealing

__all__ = ["ServedModel", "answer_bytes", "choice_of"]

BYTES_PER_TOKEN = 1 << 10
"""Maximum number of bytes of JSON for a token of an answer: its text, escaped, its id, and its log-probabilities."""
BYTES_BESIDE = 8 << 20
"""Maximum number of bytes of an answer beside those: reasoning that no limit counts, and what a gateway adds."""


class ServedModel(Sampler):
    """Base of the samplers of the OpenAI API; subclasses define `_answer`."""

    def __init__(self, settings: SamplerSettings, options: OpenAIOptions) -> None:
        """Read the key and open the connections; no request is sent.

        Raises:
            SamplerError: an invalid URL, or httpx is missing.
        """
        if settings.concurrency < 1:
            raise SamplerError(f"concurrency must be >= 1, got {settings.concurrency}")
        self.options = options
        self.context = settings.context
        self._model = options.model or settings.model
        self._background = BackgroundLoop("turncredit-openai")
        self._client = OpenAIClient(
            base_url(settings.url or DEFAULT_URL),
            ApiKey(options.key_variable),
            concurrency=settings.concurrency,
            timeout=options.timeout,
            retries=options.retries,
            longest_wait=options.longest_wait,
            patience=options.patience,
        )

    @property
    def url(self) -> str:
        """Base URL of the server."""
        return self._client.url

    @property
    def provider(self) -> str:
        """The protocol of its server."""
        return "openai"

    async def sample(self, request: Request) -> Completion:
        """Return the model's answer.

        Raises:
            SamplerError: the temperature changes within the answer.
            RequestFailed: this request cannot be answered.
            ContextOverflow: its prompt leaves no room in the model's context.
            EngineFailed: the server cannot answer any request.
        """
        refuse_annealing(request, "openai")
        return await self._background.run(self._answer(request))

    def close(self) -> None:
        """Cancel requests in progress and close the connections; a second call does nothing."""
        try:
            self._background.call(self._client.close())
        except SamplerError:  # closed before
            return
        self._background.close()

    def __repr__(self) -> str:
        """Return model and URL."""
        return f"{type(self).__name__}({self._model!r} at {self.url})"

    @abstractmethod
    async def _answer(self, request: Request) -> Completion: ...

    async def _name(self) -> str:
        """Return the model's name: the given one, or that of the server's only model."""
        if not self._model:
            names = [model["id"] for model in await self._client.models()]
            if len(names) != 1:
                listed = ", ".join(names) or "none"
                raise SamplerError(f"{self.url}: name one of its models as openai:MODEL@URL; it has: {listed}")
            self._model = names[0]
        return self._model

    def _sent(self, body: JsonObject) -> dict[str, object]:
        return {name: value for name, value in {**body, **self.options.body}.items() if name not in self.options.omit}

    def _counts(self, usage: object) -> dict[str, Extra]:
        """Return the tokens of a request, as the server counted them, and its cost."""
        if not isinstance(usage, Mapping):
            return {}
        prompt, sampled = (_count(usage, *names) for names in (_PROMPT, _SAMPLED))
        if prompt is None or sampled is None:
            return {}
        cost = self.options.cost(prompt, sampled)
        counts: dict[str, Extra] = {"prompt_tokens": prompt, "response_tokens": sampled}
        return counts if cost is None else {**counts, "request_cost": cost}


_PROMPT: Final = ("prompt_tokens", "input_tokens")
_SAMPLED: Final = ("completion_tokens", "output_tokens")


def _count(usage: Mapping[str, object], *names: str) -> int | None:
    """Return a count of tokens under one of its names; some servers write it as 12.0. None: there is none."""
    for name in names:
        value = usage.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == value // 1:
            return int(value)
    return None


def answer_bytes(body: JsonObject, prompt: int = 0) -> int:
    """Return how many decoded bytes the answer to a request may have.

    Args:
        body: as sent; its limit of tokens bounds the answer.
        prompt: tokens that the answer may repeat.
    """
    limits = [body.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
    tokens = max((limit for limit in limits if isinstance(limit, int)), default=0) + prompt
    return BYTES_BESIDE + BYTES_PER_TOKEN * tokens


def choice_of(answer: JsonObject, url: str) -> JsonObject:
    """Return the first choice of an answer.

    Raises:
        RequestFailed: it has none.
    """
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        return choices[0]
    raise RequestFailed(f"{url}: the answer has no choices: {str(dict(answer))[:200]}")
