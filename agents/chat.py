"""Text to ids, and the chat template of a tokenizer cut into pieces that can be appended.

Special tokens (the end of a turn, say) are read from what a template writes only. In all other text, be it of the
environment or the model, their names are words like others: no observation can end a turn or open one.

A chat template renders a whole conversation at once. Rendering it again at every turn and tokenising the result would
change the ids that the model sampled (the same text has many tokenisations), and then log-probabilities and gradients
belong to a sequence that nobody sampled. `ChatFormat` therefore reads the template once, with placeholders, and keeps
the text before, between and after the messages; only that text is ever tokenised.

Left out on purpose: tools, images and several system messages.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from turnwise.agents.errors import PromptError
from turnwise.agents.spans import PromptText, Span

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
        parameters = inspect.signature(tokenizer.encode).parameters
        if "add_special_tokens" in parameters:
            self._plain["add_special_tokens"] = False
        if "kwargs" in parameters and hasattr(tokenizer, "deprecation_warnings"):
            # transformers: no warning of a prompt beyond the context, which ends the episode in good order
            self._plain["verbose"] = False
        self.eos: int | None = tokenizer.eos_token_id
        self.ends = frozenset(getattr(tokenizer, "all_special_ids", ())) | {self.eos}
        # a tokenizer that starts every text with BOS was trained so: the first piece of an episode needs it as well
        bos = getattr(tokenizer, "bos_token_id", None)
        self.start: tuple[int, ...] = (bos,) if bos is not None and list(tokenizer.encode("x"))[:1] == [bos] else ()
        self._splits = self._can_split(tokenizer)
        if self._splits:
            self._plain["split_special_tokens"] = False  # said every time: a tokenizer may keep what it was told last
        self._special = self._names(tokenizer)
        self._ids = frozenset(self._special.values())
        self._find = re.compile("|".join(map(re.escape, sorted(self._special, key=len, reverse=True))) or "(?!)")

    def encode(self, text: str, untrusted: Sequence[Span] = ()) -> tuple[int, ...]:
        """Return the ids of a text, int [n], with nothing added; lone surrogates become question marks.

        Args:
            text: any text.
            untrusted: spans of it in which names of special tokens are words like others (see `PromptText`).

        """
        text = text.encode("utf-8", "replace").decode()
        ids = tuple(self._encode(text, **self._plain))
        if not untrusted or self._ids.isdisjoint(ids):
            return ids
        meant = list(self._meant(text, untrusted))
        return ids if len(meant) == sum(number in self._ids for number in ids) else self._apart(text, meant)

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the ids of a whole answer: those of the text and the end token, where the tokenizer has one."""
        ids = self.encode(text, ((0, len(text)),))
        return ids if self.eos is None else (*ids, self.eos)

    def _candidates(self, tokenizer: Tokenizer) -> set[str]:
        added = getattr(tokenizer, "added_tokens_decoder", {}).values()
        names = {str(token) for token in added if getattr(token, "special", False)}
        names |= {str(name) for name in getattr(tokenizer, "all_special_tokens", ())}
        return (names | {tokenizer.decode([one]) for one in self.ends if one is not None}) - {""}

    def _names(self, tokenizer: Tokenizer) -> dict[str, int]:
        """The texts that this tokenizer reads as one special token, and its id."""
        read = {name: list(self._encode(name, **self._plain)) for name in self._candidates(tokenizer)}
        # what stands for the unknown ends nothing, and any text may hold it
        unknown = getattr(tokenizer, "unk_token_id", None)
        special = {name: ids[0] for name, ids in read.items() if len(ids) == 1}
        return {name: one for name, one in special.items() if one != unknown or one == self.eos}

    def _can_split(self, tokenizer: Tokenizer) -> bool:
        """Whether encode() can be told to read names of special tokens as words; transformers' can, some ignore it."""
        try:
            return any(
                self._encode(name, split_special_tokens=True, **self._plain)
                != self._encode(name, split_special_tokens=False, **self._plain)
                for name in sorted(self._candidates(tokenizer))
            )
        except (TypeError, ValueError, NotImplementedError):
            return False

    def _meant(self, text: str, untrusted: Sequence[Span]) -> Iterator[Span]:
        """Where the template itself names a special token."""
        at = 0
        for start, end in (*untrusted, (len(text), len(text))):
            yield from (match.span() for match in self._find.finditer(text, at, start))
            at = end

    def _apart(self, text: str, meant: Sequence[Span]) -> tuple[int, ...]:
        """The ids of a text in which only the given spans are special tokens."""
        ids: list[int] = []
        at = 0
        for start, end in (*meant, (len(text), len(text))):
            ids += self._words(text[at:start])
            ids += [self._special[text[start:end]]] if start < end else []
            at = end
        return tuple(ids)

    def _words(self, text: str) -> list[int]:
        if not text:
            return []
        if self._splits:
            return list(self._encode(text, **{**self._plain, "split_special_tokens": True}))
        # a name that is cut in two is no name
        ids: list[int] = []
        while (match := self._find.search(text)) and match.end() - match.start() > 1:
            ids += self._encode(text[: match.start() + 1], **self._plain)
            text = text[match.start() + 1 :]
        return ids + list(self._encode(text, **self._plain))


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
        if parts[0].rstrip() != once.rstrip() or parts[2].strip() != self.between(PromptText(_USERS[2])).text.strip():
            raise PromptError(_BREAKS)

    def first(self, system: str, user: PromptText) -> PromptText:
        """Return the text up to the first answer.

        Raises:
            PromptError: the template does not write the user's message as it is.

        """
        said = _USERS[0]
        if self._fold:
            rendered = self._render(self._message("user", f"{system.strip()}\n\n{said}"))
        else:
            head = self._message("system", system.strip()) if system else []
            rendered = self._render(head + self._message("user", said))
        parts = [PromptText(part) for part in rendered.split(said)]
        if len(parts) == 1:
            raise PromptError("the chat template of this tokenizer does not write the user's message as it is")
        user = user.strip()
        return PromptText.joined([parts[0], *(one for part in parts[1:] for one in (user, part))])

    def between(self, user: PromptText) -> PromptText:
        """Return the text from the end of an answer to the start of the next one."""
        return PromptText.joined((PromptText(self._before), user.strip(), PromptText(self._after)))

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
