"""Tokenizers: text to ids, with special tokens read only where a template wrote them, and ids to text, exactly.

The name of a special token inside an observation or an action is ordinary text: no environment can end a turn or start
one. `PromptText` records which spans of a prompt are untrusted, and `TokenCodec` encodes those spans as plain words.

`exact_decoder` is the one place where ids become text: without the clean-up that tokenizers apply to English prose
(`x != y` would become `x!= y`), since the text is executed.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol, cast

from turncredit.agents.models.stored_layers import panics_as_errors
from turncredit.agents.models.trusted_text import PromptText, Span

__all__ = ["AnswerEnd", "TokenCodec", "Tokenizer", "answer_text", "codec_of", "exact_decoder"]

Decode = Callable[[Sequence[int]], str]
"""Returns the text of token ids."""

CHARS_PER_TOKEN = 8
"""Characters for each token that fits, of which a long text is encoded first; prose has 3 to 5 in a token."""


class Tokenizer(Protocol):
    """The part of a tokenizer's interface that is used; tokenizers of transformers have it."""

    @property
    def eos_token_id(self) -> Any:
        """Id of the token that ends a response, or None."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """What a chat template writes at the end of an answer.

    Attributes:
        text: as the template writes it, such as "<|im_end|>".
        token: its id if it is one special token; None: it is a text of several tokens, which many sequences of ids
            spell.
        gap: what the template writes between the text of an answer and its end.
    """

    text: str
    token: int | None = None
    gap: str = ""

    @property
    def stop(self) -> tuple[str, ...]:
        """The strings that engines look for in the text, as for stop strings."""
        return (self.text,) if self.token is None else ()

    @property
    def tokens(self) -> frozenset[int]:
        """The ids that end an answer."""
        return frozenset() if self.token is None else frozenset((self.token,))


class _Names:
    """Texts of single tokens, with their ids."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        self.tokens = dict(tokens)
        self.ids = frozenset(self.tokens.values())
        self.find = re.compile("|".join(map(re.escape, sorted(self.tokens, key=len, reverse=True))) or "(?!)")


class TokenCodec:
    """Encodes text with a tokenizer, without added tokens and without structural tokens in untrusted spans.

    Structural tokens are the special ones and, in prompts, those that the chat template names: under many templates the
    end of a thought or of a tool's result is an added token that is not special.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Find out which options and special tokens the tokenizer has."""
        self.decode = exact_decoder(tokenizer)
        self._encode = panics_as_errors()(cast(Callable[..., list[int]], tokenizer.encode))
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
        self._special = _Names(self._single_tokens(tokenizer, self._candidates(tokenizer)))
        named = self._single_tokens(tokenizer, self._named_by_template(tokenizer))
        self._structural = _Names({**named, **self._special.tokens})

    def encode(self, text: str, untrusted: Sequence[Span] = ()) -> tuple[int, ...]:
        """Return the ids of a text, int [n], without added tokens; lone surrogates become question marks.

        Args:
            text: any text.
            untrusted: spans in which the names of structural tokens are ordinary text (see `PromptText`).
        """
        return self._encode_without(self._structural, text, untrusted)

    def encode_answer(self, text: str, untrusted: Sequence[Span]) -> tuple[int, ...]:
        """Return the ids of an answer that was not sampled.

        Args:
            text: the answer as the model writes it: with the tags of its thoughts and calls as single tokens.
            untrusted: spans in which the names of special tokens are ordinary text.
        """
        return self._encode_without(self._special, text, untrusted)

    def _encode_without(self, names: _Names, text: str, untrusted: Sequence[Span]) -> tuple[int, ...]:
        """Return the ids of a text without tokens of these names in untrusted spans."""
        text = text.encode("utf-8", "replace").decode()
        ids = tuple(self._encode(text, **self._options))
        if not untrusted or names.ids.isdisjoint(ids):
            return ids
        trusted = list(self._trusted(names, text, untrusted))
        if len(trusted) == sum(token in names.ids for token in ids):
            return ids
        return self._encode_apart(names, text, trusted)

    def encode_beginning(self, text: str, untrusted: Sequence[Span], fitting: int) -> tuple[tuple[int, ...], bool]:
        """Return the ids of a text, or of its beginning if that alone has more than twice as many as fit.

        The work therefore grows with what fits and not with the text. Ids in the first half of a beginning are those
        of the whole text, as tokenizers look ahead no further than a word or their longest token.

        Args:
            text: any text.
            untrusted: see `encode`.
            fitting: number of tokens that can be used.

        Returns:
            The ids, and whether they are those of the whole text.
        """
        most = 2 * max(fitting, 64)
        size = CHARS_PER_TOKEN * most // 2
        while size < len(text):
            ids = self.encode(text[:size], [(start, min(end, size)) for start, end in untrusted if start < size])
            if len(ids) > most:
                return ids, False
            size *= 2
        return self.encode(text, untrusted), True

    def response(self, text: str | PromptText, end: AnswerEnd | None = None) -> tuple[int, ...]:
        """Return the ids of a complete response: the text, then what ends it.

        Args:
            text: the answer; what a chat template writes in it may be trusted.
            end: how a chat template ends answers; None: with the tokenizer's end token, if it has one.
        """
        answer = PromptText.of(text) if isinstance(text, str) else text
        if end is None:
            ids, last = self.encode_answer(answer.text, answer.untrusted), self.eos
        else:
            tail = end.gap if end.token is not None else end.gap + end.text
            ids, last = self.encode_answer(answer.text + tail, answer.untrusted), end.token
        return ids if last is None else (*ids, last)

    def answer_end(self, followed: str, closed: str, *, generates: bool = True) -> AnswerEnd | None:
        """Return how a chat template ends an answer; None if it writes nothing there that could be recognized.

        It is the last of the special tokens that follow every answer at once, whatever comes next: the others may stand
        within an answer. If the last answer of a conversation ends with another token than those before, the last one
        does what the model does. Without special tokens it is the line of text that follows both, or else the line
        that begins the next message.

        Args:
            followed: what the template writes between an answer and the next message.
            closed: what it writes after an answer that nothing follows.
            generates: whether `closed` is without the beginning of another answer.
        """
        history, last = self._leading(followed), self._leading(closed)
        names = ([name for _, name in history], [name for _, name in last])
        shared = next((at for at, (a, b) in enumerate(zip(*names, strict=False)) if a != b), min(map(len, names)))
        if last and generates:
            start, name = last[max(shared, 1) - 1]
            return AnswerEnd(name, self._special.tokens[name], closed[:start])
        if history or last:
            (start, name), text = (history[0], followed) if history else (last[0], closed)
            return AnswerEnd(name, self._special.tokens[name], text[:start])
        line = closed.strip().partition("\n")[0].rstrip()
        if line and followed.lstrip().startswith(line):
            return AnswerEnd(line, gap=closed[: closed.index(line)])
        line = followed.strip().partition("\n")[0].rstrip()
        space = followed[: len(followed) - len(followed.lstrip())]
        return AnswerEnd(space[-1:] + line, gap=space[:-1]) if line else None

    def special_in(self, text: str) -> list[tuple[int, str]]:
        """Return the special tokens in a text and where they begin."""
        return [(match.start(), match.group()) for match in self._special.find.finditer(text)]

    def all_special(self, text: str) -> bool:
        """Whether a text consists of special tokens."""
        return "".join(name for _, name in self.special_in(text)) == text

    def first_special(self, text: str) -> int | None:
        """Return the id of the special token that a text begins with; None without one."""
        match = self._special.find.match(text)
        return None if match is None else self._special.tokens[match.group()]

    def _leading(self, text: str) -> list[tuple[int, str]]:
        """Return the special tokens that a text begins with, apart from white space, and where they begin."""
        tokens: list[tuple[int, str]] = []
        at = 0
        for start, name in self.special_in(text):
            if text[at:start].strip():
                break
            tokens.append((start, name))
            at = start + len(name)
        return tokens

    def is_special(self, token: int) -> bool:
        """Whether an id is that of a special token."""
        return token in self._special.ids or token in self.ends

    def _candidates(self, tokenizer: Tokenizer) -> set[str]:
        added = getattr(tokenizer, "added_tokens_decoder", {}).values()
        names = {str(token) for token in added if getattr(token, "special", False)}
        names |= {str(name) for name in getattr(tokenizer, "all_special_tokens", ())}
        return (names | {self.decode([token]) for token in self.ends if token is not None}) - {""}

    def _named_by_template(self, tokenizer: Tokenizer) -> set[str]:
        """Return the added tokens that the source of the chat template contains."""
        template = getattr(tokenizer, "chat_template", None)
        sources = template.values() if isinstance(template, Mapping) else [template or ""]
        added = {str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()}
        return {name for name in added if name.strip() and any(name in str(source) for source in sources)}

    def _single_tokens(self, tokenizer: Tokenizer, names: set[str]) -> dict[str, int]:
        """Return those of the texts that the tokenizer encodes as one token, with their ids."""
        read = {name: list(self._encode(name, **self._options)) for name in names}
        # The unknown token is left out: it ends nothing, and any text may contain it.
        unknown = getattr(tokenizer, "unk_token_id", None)
        single = {name: ids[0] for name, ids in read.items() if len(ids) == 1}
        return {name: token for name, token in single.items() if token != unknown or token == self.eos}

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

    def _trusted(self, names: _Names, text: str, untrusted: Sequence[Span]) -> Iterator[Span]:
        """Yield the spans of tokens of these names outside the untrusted spans."""
        at = 0
        for start, end in (*untrusted, (len(text), len(text))):
            yield from (match.span() for match in names.find.finditer(text, at, start))
            at = end

    def _encode_apart(self, names: _Names, text: str, trusted: Sequence[Span]) -> tuple[int, ...]:
        """Return the ids of a text in which only the trusted spans are tokens of these names."""
        ids: list[int] = []
        at = 0
        for start, end in (*trusted, (len(text), len(text))):
            ids += self._encode_words(names, text[at:start])
            ids += [names.tokens[text[start:end]]] if start < end else []
            at = end
        return tuple(ids)

    def _encode_words(self, names: _Names, text: str) -> list[int]:
        """Return the ids of a text without tokens of these names."""
        if not text:
            return []
        options = {**self._options, "split_special_tokens": True} if self._splits else self._options
        ids = list(self._encode(text, **options))
        if names.ids.isdisjoint(ids):
            return ids
        # The tokenizer cannot split all of them, so each of their names is cut in two.
        ids = []
        while (match := names.find.search(text)) and match.end() - match.start() > 1:
            ids += self._encode(text[: match.start() + 1], **options)
            text = text[match.start() + 1 :]
        return ids + list(self._encode(text, **options))


def answer_text(decode: Decode, ids: Sequence[int], ends: frozenset[int], end: AnswerEnd | None = None) -> str:
    """Return the text of a response without what ended it.

    Args:
        decode: from `exact_decoder`.
        ids: as sampled.
        ends: ids that end a response.
        end: how the chat template ends answers.
    """
    last = ends if end is None else ends | end.tokens
    text = decode(ids[:-1] if ids and ids[-1] in last else ids)
    return text if end is None or end.token is not None else text.partition(end.text)[0].removesuffix(end.gap)


def exact_decoder(tokenizer: Tokenizer) -> Decode:
    """Return a function that gives the text of ids as they are: special tokens by name, no clean-up of spaces."""
    backend = _backend_without_cleanup(getattr(tokenizer, "backend_tokenizer", None))
    if backend is not None:
        return lambda ids: str(backend.decode(list(ids), skip_special_tokens=False))
    decode = cast(Callable[..., str], tokenizer.decode)
    probe = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    options: dict[str, bool] = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    for taken in ({**options, "spaces_between_special_tokens": False}, options):
        try:
            decode(probe, **taken)
        except (TypeError, ValueError):  # tokenizers that know no such option
            continue
        return partial(_decoded, decode, taken)
    return partial(_decoded, decode, {})


def _decoded(decode: Callable[..., str], options: Mapping[str, bool], ids: Sequence[int]) -> str:
    return decode(list(ids), **options)


def _backend_without_cleanup(backend: Any) -> Any:
    """Return a copy of a tokenizer of the package tokenizers whose decoder does not clean up; None if it never did."""
    decoder = getattr(backend, "decoder", None)
    if decoder is None or b'"cleanup":true' not in decoder.__getstate__():
        return None
    table = json.loads(backend.to_str())
    for part in (table["decoder"], *table["decoder"].get("decoders", ())):
        part.update({"cleanup": False} if "cleanup" in part else {})
    return type(backend).from_str(json.dumps(table))


def codec_of(tokenizer: Tokenizer) -> TokenCodec:
    """Return the codec of a tokenizer and its chat template, from a cache where the tokenizer is hashable."""
    if not isinstance(tokenizer, Hashable):
        return TokenCodec(tokenizer)
    return _cached(tokenizer, str(getattr(tokenizer, "chat_template", None) or ""))


@lru_cache(maxsize=8)
def _cached(tokenizer: Tokenizer, template: str) -> TokenCodec:
    return TokenCodec(tokenizer)
