"""Answers that begin within a thought, because the chat template of the server ends its prompts with ``<think>``.

A server that sets reasoning apart (vLLM's `--reasoning-parser`) returns such an answer in two fields. One that does not
returns `thought</think>answer` without an opening tag, and the thought alone of an answer that was cut, which looks
like an answer. What a server does is known, in this order,

    from the option `opens_thought`,
    from its prompt, for which it is asked once, when an answer without tags was cut (vLLM and llama.cpp tell it),
    from its answers: one closed a thought that it had not opened, and none without tags was complete.

If prompts open a thought, an answer without ``</think>`` is within it. If only the answers show that, this holds for
those that were cut: by the limit of tokens, or by a stop string.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from typing import Final

from turncredit.agents.errors import EngineFailed
from turncredit.agents.json_types import JsonObject
from turncredit.engines.openai.client import OpenAIClient

__all__ = ["OpenedThoughts", "prompt_opens_thought"]

_OPEN, _CLOSE = "<think>", "</think>"
_TAIL: Final = 16
"""Tokens at the end of a prompt that are read."""
_LATE: Final = (
    "{url} returns thoughts without an opening <think>, and {count} answers that were cut had been read as answers; "
    "set sampler.options.opens_thought=true, or start the server with a parser of reasoning"
)


class OpenedThoughts:
    """Tells thoughts from answers for one server."""

    def __init__(self, opens: bool | None, ask: Callable[[], Awaitable[bool | None]], url: str) -> None:
        """Remember what is known before the first answer.

        Args:
            opens: whether prompts open a thought; None if that is not known.
            ask: returns the same from the server; None if it does not tell.
            url: address of the server, for the warning.
        """
        self._opens, self._ask, self._url = opens, ask, url
        self._lock, self._asked = asyncio.Lock(), False
        self._closed = self._plain = False
        self._cut = 0

    async def read(self, content: str, *, cut: bool) -> tuple[str, str]:
        """Return the thought that stands before an answer, without tags, and the rest.

        A thought that was not closed is no answer: it is returned as the rest, after ``<think>``.

        Args:
            content: text of the answer, of which the server has set nothing apart.
            cut: whether the limit of tokens or a stop string may have ended it.

        Warns:
            RuntimeWarning: answers were read as complete before an answer showed that they might be thoughts.
        """
        if _OPEN in content or self._opens is False or not content.strip():
            return "", content
        if _CLOSE in content:
            thought, _, answer = content.rpartition(_CLOSE)
            self._shown()
            return thought, answer
        if self._opens is None and cut and not self._asked:
            async with self._lock:
                if not self._asked:
                    self._opens = await self._ask()
                    self._asked = True
        if self._opens or (self._opens is None and cut and self._closed and not self._plain):
            return "", _OPEN + content
        self._plain |= not cut
        self._cut += cut
        return "", content

    def _shown(self) -> None:
        """Remember that an answer closed a thought that it had not opened."""
        if self._opens is None and self._cut and not self._closed and not self._plain:
            warnings.warn(_LATE.format(url=self._url, count=self._cut), RuntimeWarning, stacklevel=3)
        self._closed = True


async def prompt_opens_thought(client: OpenAIClient, model: str, arguments: JsonObject) -> bool | None:
    """Return whether the prompts of a server end within a thought; None if it does not tell.

    Args:
        client: the client of the server.
        model: name of the model.
        arguments: fields of requests that change the prompt, such as ``chat_template_kwargs``.
    """
    asked = {"messages": [{"role": "user", "content": "hello"}], "add_generation_prompt": True, **arguments}
    try:
        rendered = await client.command(f"{client.root}/apply-template", asked)  # llama.cpp
        prompt = rendered.get("prompt")
    except EngineFailed:
        prompt = await _end_of_prompt(client, {"model": model, **asked})
    return prompt.rfind(_OPEN) > prompt.rfind(_CLOSE) if isinstance(prompt, str) else None


async def _end_of_prompt(client: OpenAIClient, asked: JsonObject) -> object:
    """Return the end of the prompt of a server that gives its tokens, as vLLM does."""
    try:
        tokens = (await client.command(f"{client.root}/tokenize", asked)).get("tokens")
        if not isinstance(tokens, list) or not tokens:
            return None
        body = {"model": asked["model"], "tokens": tokens[-_TAIL:]}
        return (await client.command(f"{client.root}/detokenize", body)).get("prompt")
    except EngineFailed:
        return None
