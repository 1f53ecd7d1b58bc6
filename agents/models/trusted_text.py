"""Text with trusted and untrusted spans.

A tokenizer reads "<|im_end|>" as the end of a turn wherever it occurs. In a template that is intended; in an
observation, an action or an answer it is only text. `PromptText` records which spans are untrusted, and
`turncredit.agents.models.tokenization.TokenCodec` encodes them without special tokens.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PromptText:
    """A text and its untrusted spans [start, end), in order: those that the template did not write."""

    text: str
    untrusted: tuple[Span, ...] = ()

    @classmethod
    def of(cls, text: str) -> PromptText:
        """Return a text that is untrusted as a whole."""
        return cls(text, ((0, len(text)),) if text else ())

    @classmethod
    def joined(cls, parts: Iterable[PromptText], separator: str = "") -> PromptText:
        """Return the parts as one text, with a trusted separator between them."""
        texts: list[str] = []
        spans: list[Span] = []
        at = 0
        for number, part in enumerate(parts):
            if number and separator:
                texts.append(separator)
                at += len(separator)
            texts.append(part.text)
            spans.extend((start + at, end + at) for start, end in part.untrusted)
            at += len(part.text)
        return cls("".join(texts), tuple(spans))

    @classmethod
    def listed(cls, texts: Sequence[str], separator: str) -> PromptText:
        """Return untrusted texts with a trusted separator between them: `joined` of `of` each, but faster."""
        spans: list[Span] = []
        at = 0
        for text in texts:
            end = at + len(text)
            if text:
                spans.append((at, end))
            at = end + len(separator)
        return cls(separator.join(texts), tuple(spans))

    @classmethod
    def filled(cls, form: str, **values: PromptText | str | int) -> PromptText:
        """Return a trusted format string filled in with untrusted values.

        Args:
            form: format string as for `str.format`, with named fields only.
            values: values of the fields; a `PromptText` keeps its own spans.
        """
        plain = {name: value.text if isinstance(value, PromptText) else value for name, value in values.items()}
        parts: list[PromptText] = []
        for literal, name, spec, conversion in _fields(form):
            parts.append(cls(literal))
            if name is None:
                continue
            value = values[name]
            if not spec and not conversion:
                parts.append(value if isinstance(value, PromptText) else cls.of(str(value)))
            else:
                shown = _FORMATTER.convert_field(plain[name], conversion)
                parts.append(cls.of(format(shown, (spec or "").format(**plain))))
        return cls.joined(parts)

    def __add__(self, other: PromptText) -> PromptText:
        """Return this text followed by the other."""
        return PromptText.joined((self, other))

    def strip(self) -> PromptText:
        """Return the text without leading and trailing white space."""
        start = len(self.text) - len(self.text.lstrip())
        end = max(start, len(self.text.rstrip()))
        cut = ((max(a, start) - start, min(b, end) - start) for a, b in self.untrusted)
        return PromptText(self.text[start:end], tuple((a, b) for a, b in cut if a < b))

    def removeprefix(self, prefix: str) -> PromptText:
        """Return the text without a prefix, if it has it."""
        if not self.text.startswith(prefix):
            return self
        size = len(prefix)
        cut = ((max(a - size, 0), b - size) for a, b in self.untrusted)
        return PromptText(self.text[size:], tuple((a, b) for a, b in cut if a < b))


_FORMATTER = string.Formatter()


@lru_cache(maxsize=256)
def _fields(form: str) -> tuple[tuple[str, str | None, str | None, str | None], ...]:
    """Return the parts of a format string, which templates fill in at every turn."""
    return tuple(_FORMATTER.parse(form))
