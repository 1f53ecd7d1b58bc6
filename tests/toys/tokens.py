"""Tokenizers for tests: one id a byte, with an end token, optionally with BOS and with a chat template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Bytes:
    """One id a byte; 256 ends a response, 257 begins a text when `bos` is set."""

    eos_token_id = 256
    specials: tuple[str, ...] = ("<|end|>",)

    def __init__(self, bos: bool = False) -> None:
        self.bos_token_id = 257 if bos else None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return ([257] if self.bos_token_id and add_special_tokens else []) + list(self.ids(text))

    def ids(self, text: str) -> tuple[int, ...]:
        parts = re.split("(" + "|".join(map(re.escape, self.specials)) + ")", text)
        known = {name: 256 + number for number, name in enumerate(self.specials)}
        return tuple(one for part in parts for one in ([known[part]] if part in known else part.encode()))

    def decode(self, ids: Sequence[int]) -> str:
        data = b"".join(self.specials[one - 256].encode() if one >= 256 else bytes([one]) for one in ids)
        return data.decode("utf-8", "replace")


class ChatBytes(Bytes):
    """Bytes with a chat template, rendered as transformers renders it."""

    specials = ("<|im_end|>", "<|im_start|>")
    eos_token = "<|im_end|>"
    all_special_ids = (256, 257)

    def __init__(self, chat_template: str) -> None:
        super().__init__()
        self.chat_template = chat_template

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        def raise_exception(message: str) -> None:
            raise TemplateError(message)

        template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(self.chat_template)
        return template.render(messages=messages, raise_exception=raise_exception, **options)
