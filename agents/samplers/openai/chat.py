"""A model behind /chat/completions as a black box: messages in, text out.

It serves evaluation and demonstrations. There are no token ids and no log-probabilities, so nothing that it answers can
be trained on as its own samples; `turnwise.agents.samplers.openai.tokens` does that where the server allows it.

Servers remove stop strings from the text. One that says which it was (vLLM does) gets it appended, so that the parser
reads what the model wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from turnwise.agents.errors import RequestFailed, SamplerError
from turnwise.agents.samplers.base import Completion, Request, SamplerSettings
from turnwise.agents.samplers.openai.client import DEFAULT_URL
from turnwise.agents.samplers.openai.failures import ContentRefused
from turnwise.agents.samplers.openai.messages import described_tools, native_messages, text_with_calls, with_data_urls
from turnwise.agents.samplers.openai.options import OpenAIOptions
from turnwise.agents.samplers.openai.served import ServedModel, choice_of
from turnwise.agents.samplers.seeds import request_seed
from turnwise.agents.trajectory import Finish

__all__ = ["OpenAIChat"]


class OpenAIChat(ServedModel):
    """Samples from a model behind /chat/completions."""

    def __init__(self, settings: SamplerSettings, options: OpenAIOptions) -> None:
        """See `ServedModel`."""
        super().__init__(settings, options)
        self.images = options.images
        # OpenAI's newer models refuse max_tokens; other servers do not all know its successor.
        official = urlsplit(self.url).hostname == urlsplit(DEFAULT_URL).hostname
        self._limit = options.limit or ("max_completion_tokens" if official else "max_tokens")

    async def load(self, weights: Any, version: int) -> None:
        """Refuse new weights.

        Raises:
            SamplerError: always.
        """
        what = str(weights) if isinstance(weights, Path) else type(weights).__name__
        raise SamplerError(
            f"new weights ({what}) cannot be loaded into a black box; set sampler.options.tokens = true for a token "
            "engine"
        )

    async def _answer(self, request: Request) -> Completion:
        body = {"model": await self._name(), **self._body(request)}
        try:
            answer = await self._client.post("/chat/completions", self._sent(body))
        except ContentRefused:
            return Completion((), (), "", self.version, "refusal")
        choice = choice_of(answer, self.url)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise RequestFailed(f"{self.url}: the answer has no message: {str(dict(choice))[:200]}")
        text = self._text(choice, message)
        return Completion((), (), text, self.version, _finish(choice, message, text), self._counts(answer.get("usage")))

    def _body(self, request: Request) -> dict[str, Any]:
        messages = list(request.messages)
        if self.options.tools:
            messages = native_messages(messages, self.options.tool_format)
        body: dict[str, Any] = {
            "messages": with_data_urls(messages) if self.images else messages,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request_seed(request.seed, request.turn),
            self._limit: request.max_tokens,
        }
        # not in the API of OpenAI: a server that has them, such as vLLM, gets them only where they are set
        body |= {name: value for name in ("top_k", "min_p") if (value := getattr(request, name))}
        if request.stop:
            body["stop"] = list(request.stop)
        if self.options.tools is True:
            body["tools"] = described_tools(request)
        elif self.options.tools:
            body["tools"] = list(self.options.tools)
        return body

    def _text(self, choice: Mapping[str, Any], message: Mapping[str, Any]) -> str:
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        stop, calls = choice.get("stop_reason"), message.get("tool_calls")
        if isinstance(stop, str) and choice.get("finish_reason") == "stop" and not text.endswith(stop):
            text += stop
        if isinstance(calls, list) and calls:
            text = text_with_calls(text, calls, self.options.tool_format)
        return text or str(message.get("refusal") or "")


def _finish(choice: Mapping[str, Any], message: Mapping[str, Any], text: str) -> Finish:
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        return "refusal"
    if choice.get("finish_reason") == "length":
        return "length"
    return "stop" if text.strip() else "empty"
