"""A model behind /chat/completions or /responses as a black box: messages in, text out.

It serves evaluation and demonstrations. There are no token ids and no log-probabilities, so nothing that it answers can
be trained on as its own samples; `turncredit.engines.openai.tokens` does that where the server allows it.

Servers remove stop strings from the text. One that says which it was (vLLM and SGLang do) gets it appended, so that the
parser reads what the model wrote. The message of an answer is sent back with the next prompt as it came.

Of a server that does not set reasoning apart, `turncredit.engines.openai.opened_thoughts` tells thoughts from
answers.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.weights import Weights
from turncredit.engines.base import Completion, Request, SamplerSettings
from turncredit.engines.openai.answers import chat_failure_in, read_answer, stop_string
from turncredit.engines.openai.client import DEFAULT_URL
from turncredit.engines.openai.failures import ContentRefused
from turncredit.engines.openai.messages import (
    described_tools,
    native_messages,
    plain_messages,
    text_with_calls,
    with_data_urls,
)
from turncredit.engines.openai.opened_thoughts import OpenedThoughts, prompt_opens_thought
from turncredit.engines.openai.options import OpenAIOptions
from turncredit.engines.openai.responses import (
    chat_answer,
    cut_at_stop,
    response_failure_in,
    responses_request,
)
from turncredit.engines.openai.served import ServedModel, answer_bytes, choice_of
from turncredit.engines.seeds import request_seed

__all__ = ["OpenAIChat"]

_TEMPLATE = ("chat_template", "chat_template_kwargs")
"""Fields of a request that change the prompt."""
_EARLIER = "messages."
"""Prefix of the fields of earlier messages in the option `omit`."""


class OpenAIChat(ServedModel):
    """Samples from a model behind /chat/completions, or with options.api = "responses" behind /responses."""

    def __init__(self, settings: SamplerSettings, options: OpenAIOptions) -> None:
        """See `ServedModel`."""
        super().__init__(settings, options)
        self.images = options.images
        # OpenAI's newer models refuse max_tokens; other servers do not all know its successor.
        self._official = urlsplit(self.url).hostname == urlsplit(DEFAULT_URL).hostname
        self._thoughts = OpenedThoughts(options.opens_thought, self._opens_thought, self.url)
        self._limit = options.limit or ("max_completion_tokens" if self._official else "max_tokens")

    async def use(self, weights: Weights, version: int) -> None:
        """Refuse new weights.

        Raises:
            SamplerError: always.
        """
        source = weights.source
        name = str(source) if isinstance(source, Path) else type(source).__name__
        raise SamplerError(
            f"new weights ({name}) cannot be loaded into a black box; set sampler.options.tokens = true for a token "
            "engine"
        )

    async def _answer(self, request: Request) -> Completion:
        try:
            answer = await self._asked({"model": await self._name(), **self._body(request)})
        except ContentRefused:
            return Completion((), (), "", self.version, "refusal")
        choice = choice_of(answer, self.url)
        reply = read_answer(choice, self.url)
        content, message = reply.content, dict(reply.message)
        if self.options.api == "responses":
            content = cut_at_stop(content, request.stop)
            message |= {"content": content}
        stop = stop_string(choice)
        if stop and not content.endswith(stop):
            content += stop
            message |= {"content": content} if isinstance(message.get("content"), str) else {}
        reasoning, text, finish = reply.reasoning, content, reply.finish
        if reply.calls:
            text = text_with_calls(content, reply.calls, self.options.tool_format)
        elif not reasoning.strip() and finish in ("stop", "length"):
            cut = finish == "length" or bool(stop or request.stop)
            reasoning, text = await self._thoughts.read(content, cut=cut)
            finish = finish if text.strip() or finish == "length" else "empty"
        return Completion(
            (),
            (),
            text or reply.refusal,
            self.version,
            finish,
            self._counts(answer.get("usage")),
            reasoning=reasoning,
            message=message or None,
        )

    async def _opens_thought(self) -> bool | None:
        """Return whether the server's prompts end within a thought; None if it does not tell."""
        if self._official or self.options.api != "chat":
            return None
        sent = self._sent({})
        arguments: JsonObject = {name: sent[name] for name in _TEMPLATE if name in sent}
        return await prompt_opens_thought(self._client, await self._name(), arguments)

    async def _asked(self, body: JsonObject) -> JsonObject:
        """Return the answer of /chat/completions to a request, or that of /responses in the same form."""
        if self.options.api == "chat":
            sent = self._sent(body)
            most = answer_bytes(sent)
            return await self._client.post("/chat/completions", sent, max_bytes=most, judge=chat_failure_in)
        sent = self._sent(responses_request(body, official=self._official))
        most = answer_bytes(sent)
        answer = await self._client.post("/responses", sent, max_bytes=most, judge=response_failure_in)
        return chat_answer(answer)

    def _body(self, request: Request) -> dict[str, object]:
        native = bool(self.options.tools)
        messages = native_messages(request, self.options.tool_format) if native else plain_messages(request)
        left_out = {name.removeprefix(_EARLIER) for name in self.options.omit if name.startswith(_EARLIER)}
        messages = [{name: value for name, value in message.items() if name not in left_out} for message in messages]
        body: dict[str, object] = {
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
