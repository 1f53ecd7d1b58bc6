"""Text to ids, and the chat template of a tokenizer cut into pieces that can be appended.

A chat template renders a whole conversation at once. Rendering it again at every turn and tokenising the result would
change the ids that the model sampled (the same text has many tokenisations), and then log-probabilities and gradients
belong to a sequence that nobody sampled. `ChatFormat` therefore reads the template once, with placeholders, and keeps
the text before, between and after the messages; only that text is ever tokenised.

Left out on purpose: tools, images and several system messages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from turnwise.agents.errors import PromptError

_USERS = ("user-alpha", "user-beta", "user-gamma")
_ANSWERS = ("answer-alpha", "answer-beta")


class Tokenizer(Protocol):
    """What is needed of a tokenizer; those of transformers fit. ``eos_token_id`` is an int or None."""

    @property
    def eos_token_id(self) -> Any:
        """Id of the token that ends a response, or None."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""


class Codec:
    """A tokenizer seen from here: ids of a text without additions, and what may stand at its ends."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Look once at how this tokenizer wants to be called."""
        self._encode = cast(Callable[..., list[int]], tokenizer.encode)
        self._plain: dict[str, bool] = {}
        if "add_special_tokens" in inspect.signature(tokenizer.encode).parameters:
            self._plain = {"add_special_tokens": False}
        self.eos: int | None = tokenizer.eos_token_id
        self.ends = frozenset(getattr(tokenizer, "all_special_ids", ())) | {self.eos}
        # a tokenizer that starts every text with BOS was trained so: the first piece of an episode needs it as well
        bos = getattr(tokenizer, "bos_token_id", None)
        self.start: tuple[int, ...] = (bos,) if bos is not None and list(tokenizer.encode("x"))[:1] == [bos] else ()

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text, int [n], with nothing added; lone surrogates become question marks."""
        return tuple(self._encode(text.encode("utf-8", "replace").decode(), **self._plain))

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the ids of a whole answer: those of the text and the end token, where the tokenizer has one."""
        ids = self.encode(text)
        return ids if self.eos is None else (*ids, self.eos)


def codec_of(tokenizer: Tokenizer) -> Codec:
    """Return the (cached) codec of a tokenizer."""
    return _cached(tokenizer) if isinstance(tokenizer, Hashable) else Codec(tokenizer)


@lru_cache(maxsize=8)
def _cached(tokenizer: Tokenizer) -> Codec:
    return Codec(tokenizer)


class ChatFormat:
    """The chat template of a tokenizer as text to append: `first` opens a conversation, `between` goes on."""

    def __init__(self, tokenizer: Tokenizer, system: bool, extending: bool = True) -> None:
        """Read the template with placeholders and, where prompts are to extend, check that it only ever appends.

        Raises:
            PromptError: the template cannot be rendered, or rewrites earlier turns: then no prompt would extend the
                sequence before it, and what was sampled could not be trained on as it was sampled.

        """
        self._tokenizer = cast(Any, tokenizer)
        self._fold = system and not self._takes_system()
        self._before = self._after = ""
        if extending:
            self._read(system)

    def _read(self, system: bool) -> None:
        base = self._head(system) + self._message("user", _USERS[0])
        opening = self._render(base)
        once = self._render([*base, *self._reply(0)])
        parts = once.partition(_ANSWERS[0])
        self._before, found, self._after = parts[2].partition(_USERS[1])
        # white space between the generation prompt and the answer is the model's to sample: it may differ
        if not found or parts[0].rstrip() != opening.rstrip():
            raise PromptError(_BREAKS)
        eos = getattr(self._tokenizer, "eos_token", None)
        if eos and self._before.lstrip().startswith(eos):
            self._before = self._before.lstrip()
        twice = self._render([*base, *self._reply(0), *self._reply(1)])
        parts = twice.partition(_ANSWERS[1])
        if parts[0].rstrip() != once.rstrip() or parts[2].strip() != self.between(_USERS[2]).strip():
            raise PromptError(_BREAKS)

    def first(self, system: str, user: str) -> str:
        """Return the text up to the first answer."""
        if self._fold:
            return self._render(self._message("user", f"{system.strip()}\n\n{user.strip()}"))
        head = self._message("system", system.strip()) if system else []
        return self._render(head + self._message("user", user.strip()))

    def between(self, user: str) -> str:
        """Return the text from the end of an answer to the start of the next one."""
        return f"{self._before}{user.strip()}{self._after}"

    def _head(self, system: bool) -> list[dict[str, str]]:
        return self._message("system", "system-alpha") if system and not self._fold else []

    def _reply(self, number: int) -> list[dict[str, str]]:
        return self._message("assistant", _ANSWERS[number]) + self._message("user", _USERS[number + 1])

    @staticmethod
    def _message(role: str, content: str) -> list[dict[str, str]]:
        return [{"role": role, "content": content}]

    def _takes_system(self) -> bool:
        # some templates raise on a system message, some drop it without a word
        try:
            return "system-alpha" in self._render(self._message("system", "system-alpha") + self._message("user", "u"))
        except PromptError:
            return False

    def _render(self, messages: Sequence[dict[str, str]]) -> str:
        try:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # jinja's errors, and whatever a template raises by itself
            raise PromptError(f"the chat template of the tokenizer cannot be rendered: {error}") from error


_BREAKS = (
    "the chat template of this tokenizer rewrites earlier turns, so a later prompt does not extend what was sampled; "
    "use a window as the prompt, or the conversation without the chat template (chat = false)"
)
