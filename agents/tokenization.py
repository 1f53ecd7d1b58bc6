"""Tokenizers: text to ids, with special tokens read only where a template wrote them.

The name of a special token inside an observation or an action is ordinary text: no environment can end a turn or start
one. `PromptText` records which spans of a prompt are untrusted, and `TokenCodec` encodes those spans as plain words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from turnwise.agents.trusted_text import Span

__all__ = ["TokenCodec", "Tokenizer", "codec_of"]


class Tokenizer(Protocol):
    """The part of a tokenizer's interface that is used; tokenizers of transformers have it."""

    @property
    def eos_token_id(self) -> Any:
        """Id of the token that ends a response, or None."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""


class TokenCodec:
    """Encodes text with a tokenizer, without added tokens and without special tokens in untrusted spans."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Find out which options and special tokens the tokenizer has."""
        self.decode = tokenizer.decode
        self._encode = cast(Callable[..., list[int]], tokenizer.encode)
        self._options: dict[str, bool] = {}
        parameters = inspect.signature(tokenizer.encode).parameters
        if "add_special_tokens" in parameters:
            self._options["add_special_tokens"] = False
        if "kwargs" in parameters and hasattr(tokenizer, "deprecation_warnings"):
            # transformers: no warning about long prompts, since an episode that outgrows the context ends by itself
            self._options["verbose"] = False
        self.eos: int | None = tokenizer.eos_token_id
        self.ends = frozenset(getattr(tokenizer, "all_special_ids", ())) | {self.eos}
        # A model whose tokenizer starts every text with BOS was trained that way, so an episode starts with it too.
        bos = getattr(tokenizer, "bos_token_id", None)
        self.start: tuple[int, ...] = (bos,) if bos is not None and list(tokenizer.encode("x"))[:1] == [bos] else ()
        self._splits = self._can_split(tokenizer)
        if self._splits:
            self._options["split_special_tokens"] = False  # always explicit: some tokenizers remember the last value
        self._special = self._special_tokens(tokenizer)
        self._ids = frozenset(self._special.values())
        self._find = re.compile("|".join(map(re.escape, sorted(self._special, key=len, reverse=True))) or "(?!)")

    def encode(self, text: str, untrusted: Sequence[Span] = ()) -> tuple[int, ...]:
        """Return the ids of a text, int [n], without added tokens; lone surrogates become question marks.

        Args:
            text: any text.
            untrusted: spans in which the names of special tokens are ordinary text (see `PromptText`).
        """
        text = text.encode("utf-8", "replace").decode()
        ids = tuple(self._encode(text, **self._options))
        if not untrusted or self._ids.isdisjoint(ids):
            return ids
        trusted = list(self._trusted(text, untrusted))
        return ids if len(trusted) == sum(one in self._ids for one in ids) else self._encode_apart(text, trusted)

    def response(self, text: str, end: int | None = None) -> tuple[int, ...]:
        """Return the ids of a complete response: the text, then the end token if the tokenizer has one.

        Args:
            text: the answer.
            end: the end token of a chat template, where it differs from the tokenizer's own.
        """
        ids, last = self.encode(text, ((0, len(text)),)), self.eos if end is None else end
        return ids if last is None else (*ids, last)

    def leading(self, text: str) -> int | None:
        """Return the special token with which a text begins; None if it begins with a word."""
        match = self._find.match(text)
        return self._special[match.group()] if match else None

    def _candidates(self, tokenizer: Tokenizer) -> set[str]:
        added = getattr(tokenizer, "added_tokens_decoder", {}).values()
        names = {str(token) for token in added if getattr(token, "special", False)}
        names |= {str(name) for name in getattr(tokenizer, "all_special_tokens", ())}
        return (names | {tokenizer.decode([one]) for one in self.ends if one is not None}) - {""}

    def _special_tokens(self, tokenizer: Tokenizer) -> dict[str, int]:
        """Return the texts that the tokenizer encodes as one special token, with their ids."""
        read = {name: list(self._encode(name, **self._options)) for name in self._candidates(tokenizer)}
        # The unknown token is left out: it ends nothing, and any text may contain it.
        unknown = getattr(tokenizer, "unk_token_id", None)
        special = {name: ids[0] for name, ids in read.items() if len(ids) == 1}
        return {name: one for name, one in special.items() if one != unknown or one == self.eos}

    def _can_split(self, tokenizer: Tokenizer) -> bool:
        """Return whether encode() honours `split_special_tokens`; some tokenizers accept and ignore it."""
        try:
            return any(
                self._encode(name, split_special_tokens=True, **self._options)
                != self._encode(name, split_special_tokens=False, **self._options)
                for name in sorted(self._candidates(tokenizer))
            )
        except (TypeError, ValueError, NotImplementedError):
            return False

    def _trusted(self, text: str, untrusted: Sequence[Span]) -> Iterator[Span]:
        """Yield the spans of special tokens outside the untrusted spans."""
        at = 0
        for start, end in (*untrusted, (len(text), len(text))):
            yield from (match.span() for match in self._find.finditer(text, at, start))
            at = end

    def _encode_apart(self, text: str, trusted: Sequence[Span]) -> tuple[int, ...]:
        """Return the ids of a text in which only the trusted spans are special tokens."""
        ids: list[int] = []
        at = 0
        for start, end in (*trusted, (len(text), len(text))):
            ids += self._encode_words(text[at:start])
            ids += [self._special[text[start:end]]] if start < end else []
            at = end
        return tuple(ids)

    def _encode_words(self, text: str) -> list[int]:
        if not text:
            return []
        if self._splits:
            return list(self._encode(text, **{**self._options, "split_special_tokens": True}))
        # The tokenizer cannot split special tokens, so each of their names is cut in two.
        ids: list[int] = []
        while (match := self._find.search(text)) and match.end() - match.start() > 1:
            ids += self._encode(text[: match.start() + 1], **self._options)
            text = text[match.start() + 1 :]
        return ids + list(self._encode(text, **self._options))


def codec_of(tokenizer: Tokenizer) -> TokenCodec:
    """Return the codec of a tokenizer, from a cache where the tokenizer is hashable."""
    return _cached(tokenizer) if isinstance(tokenizer, Hashable) else TokenCodec(tokenizer)


@lru_cache(maxsize=8)
def _cached(tokenizer: Tokenizer) -> TokenCodec:
    return TokenCodec(tokenizer)
