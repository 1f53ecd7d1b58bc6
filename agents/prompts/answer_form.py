"""How a model writes an answer under its chat template: where its thought stands, and its channels.

Parsers read an answer as ``<think>thought</think>action``. A prompt may have opened the thought already; some templates
have other marks for it, put tokens of their own around an answer, or write it as several messages in channels (harmony,
the form of gpt-oss). `AnswerForm.shown` returns what parsers read. A thought that was not closed is never an action.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["PLAIN_FORM", "TAGS", "AnswerForm", "Marks", "has_channels", "marks_in"]

Marks = tuple[str, str]
"""What opens a thought and what closes it."""

TAGS: Final[Marks] = ("<think>", "</think>")
_MARKS: Final[tuple[Marks, ...]] = (
    TAGS,
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<thought>", "</thought>"),
)
"""Marks of thoughts in templates of models; the first are those that any model may write."""

_CHANNEL, _MESSAGE, _START = "<|channel|>", "<|message|>", "<|start|>"
_LAST: Final = re.compile(r"<\|(?:end|return|call)\|>\s*$")
_RECIPIENT: Final = re.compile(r"\bto=(functions\.[\w.-]+)")


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of an answer under a chat template.

    Attributes:
        marks: marks of thoughts.
        opened: whether the prompt has opened a thought, so that an answer begins inside it.
        channels: whether an answer has messages in channels.
        around: tokens of the template that stand before and after the text of an answer.
        closed: whether the prompt has closed a thought, so that an answer begins after it.
    """

    marks: tuple[Marks, ...] = (TAGS,)
    opened: bool = False
    channels: bool = False
    around: tuple[str, str] = ("", "")
    closed: bool = False

    def shown(self, text: str, reads: Callable[[str, str], bool]) -> str:
        """Return an answer as a parser reads it: with its thought, if any, in ``<think>`` and ``</think>``.

        A thought that the prompt or the template sets apart is left out for parsers that read none.

        Args:
            text: the answer, without what ended it.
            reads: (answer without its thought, the whole) -> whether the parser reads the thought.
        """
        thought, answer = self._parts(text)
        if answer is None:
            return f"<think>{thought}"
        whole = f"<think>{thought}</think>{answer}"
        return whole if thought is not None and reads(answer, whole) else answer

    def split(self, text: str) -> tuple[str | None, str]:
        """Return the thought in a complete answer, None without one, and the rest."""
        text = self._without_frame(text)
        for opening, closing in self.marks:
            begun = text.lstrip().startswith(opening)
            if closing in text and (begun or self.opened):
                thought, _, speech = text.lstrip().removeprefix(opening).rpartition(closing)
                return thought, self._without_frame(speech)
        if self.channels and (_CHANNEL in text or _MESSAGE in text):
            thoughts, messages = _channel_parts(text)
            return (None, text) if messages is None else (thoughts, messages)
        return None, text

    def _parts(self, text: str) -> tuple[str | None, str | None]:
        """Return the thought that is set apart, None without one, and what was said; None if the thought is not closed.

        Tags that the answer itself opens are not set apart: they are its text.
        """
        if self.channels and (_CHANNEL in text or _MESSAGE in text):
            return _channel_parts(text)
        text = self._without_frame(text)
        for opening, closing in self.marks:
            begun = text.lstrip().startswith(opening)
            if not (self.opened and (begun or closing in text)) and not (begun and opening != TAGS[0]):
                continue
            thought, closed, after = text.lstrip().removeprefix(opening).rpartition(closing)
            return (thought, self._without_frame(after)) if closed else (after, None)
        return (text, None) if self.opened else (None, text)

    def _without_frame(self, text: str) -> str:
        """Return a text without the tokens that the template puts around an answer."""
        before, after = self.around
        if before and text.lstrip().startswith(before):
            text = text.lstrip().removeprefix(before)
        return text.rstrip().removesuffix(after) if after and text.rstrip().endswith(after) else text


PLAIN_FORM: Final = AnswerForm()
"""The form of an answer without a chat template."""


def marks_in(template: str) -> tuple[Marks, ...]:
    """Return the marks of thoughts that a chat template knows, and those that any model may write."""
    return tuple(marks for marks in _MARKS if marks == TAGS or marks[1] in template)


def has_channels(template: str) -> bool:
    """Return whether a chat template writes answers as messages in channels."""
    return _CHANNEL in template and _MESSAGE in template


def _channel_parts(text: str) -> tuple[str | None, str | None]:
    """Return the thoughts of an answer of several messages, and its calls or else its final message.

    Without either the thought is not closed.
    """
    thoughts: list[str] = []
    finals: list[str] = []
    calls: list[str] = []
    for message in text.split(_START):
        header, begun, content = message.partition(_MESSAGE)
        if not begun:
            continue  # it was cut before it said anything
        content, recipient = _LAST.sub("", content), _RECIPIENT.search(header)
        if recipient:
            calls.append(f"to={recipient[1]}{_CHANNEL}commentary json{_MESSAGE}{content}")
        elif header.partition(_CHANNEL)[2].startswith("final"):
            finals.append(content)
        else:
            thoughts.append(content)
    answer = "\n".join(calls or finals) if calls or finals else None
    return "\n".join(thoughts) if thoughts or answer is None else None, answer
