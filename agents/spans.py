"""Text that remembers which parts of it the template wrote and which came from elsewhere.

A tokenizer reads "<|im_end|>" as the end of a turn wherever it stands. In what a template writes that is meant; in an
observation, an action or an answer it is only text, and must not end anything. `PromptText` keeps the two apart
until the text becomes ids (`turnwise.agents.chat.Codec`).
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PromptText:
    """A text and the spans [start, end) of it, in order, that the template did not write."""

    text: str
    untrusted: tuple[Span, ...] = ()

    @classmethod
    def of(cls, text: str) -> PromptText:
        """Return a text none of which is the template's."""
        return cls(text, ((0, len(text)),) if text else ())

    @classmethod
    def joined(cls, parts: Iterable[PromptText], separator: str = "") -> PromptText:
        """Return the parts as one text, with the template's separator between them."""
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
    def filled(cls, form: str, **values: PromptText | str | int) -> PromptText:
        """Return a format string of a template with its fields filled in; what fills them is not the template's.

        Args:
            form: as for `str.format`, with names only.
            values: by name; a `PromptText` keeps its own marks.

        """
        plain = {name: value.text if isinstance(value, PromptText) else value for name, value in values.items()}
        parts: list[PromptText] = []
        for literal, name, spec, conversion in _FORMATTER.parse(form):
            parts.append(cls(literal))
            if name is None:
                continue
            value = values[name]
            if isinstance(value, PromptText) and not spec and not conversion:
                parts.append(value)
            else:
                shown = _FORMATTER.convert_field(plain[name], conversion)
                parts.append(cls.of(format(shown, (spec or "").format(**plain))))
        return cls.joined(parts)

    def __add__(self, other: PromptText) -> PromptText:
        """Return this text and the other after it."""
        return PromptText.joined((self, other))

    def strip(self) -> PromptText:
        """Return the text without white space at its ends."""
        start = len(self.text) - len(self.text.lstrip())
        end = max(start, len(self.text.rstrip()))
        cut = ((max(a, start) - start, min(b, end) - start) for a, b in self.untrusted)
        return PromptText(self.text[start:end], tuple((a, b) for a, b in cut if a < b))


_FORMATTER = string.Formatter()
