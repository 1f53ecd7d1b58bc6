"""How a model writes an answer under its chat template: where its thought stands, and its channels.

Parsers read an answer as ``<think>thought</think>action``. A prompt may have opened the thought already; some templates
have other marks for it, put tokens of their own around an answer, or write it as several messages in channels (harmony,
the form of gpt-oss). `AnswerForm.shown` returns what parsers read. A thought that was not closed is never an action.
"""

from __future__ import annotations

import re
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
        marks: of thoughts.
        opened: whether the prompt has opened a thought, so that an answer begins inside it.
        channels: whether an answer has messages in channels.
        around: tokens of the template that stand before and after the text of an answer.
    """

    marks: tuple[Marks, ...] = (TAGS,)
    opened: bool = False
    channels: bool = False
    around: tuple[str, str] = ("", "")

    def shown(self, text: str) -> str:
        """Return an answer as parsers read it: with its thought, if any, in ``<think>`` and ``</think>``.

        Args:
            text: the answer, without what ended it.
        """
        if self.channels and (_CHANNEL in text or _MESSAGE in text):
            return _joined_channels(text)
        text = self._without_frame(text)
        for opening, closing in self.marks:
            begun = text.lstrip().startswith(opening)
            if opening == TAGS[0] or not (begun or (self.opened and closing in text)):
                continue
            thought, closed, rest = text.lstrip().removeprefix(opening).partition(closing)
            return f"<think>{thought}</think>{self._without_frame(rest)}" if closed else f"<think>{thought}"
        return f"<think>{text}" if self.opened and not text.lstrip().startswith("<think>") else text

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


def _joined_channels(text: str) -> str:
    """Return an answer of several messages as a thought in tags, and its calls or else its final message.

    Without either the thought is not closed.
    """
    thoughts: list[str] = []
    finals: list[str] = []
    calls: list[str] = []
    for message in text.split(_START):
        header, begun, content = message.partition(_MESSAGE)
        content = _LAST.sub("", content)
        recipient = _RECIPIENT.search(header)
        channel = header.partition(_CHANNEL)[2]
        if not begun:
            continue  # it was cut before it said anything
        if recipient:
            calls.append(f"to={recipient[1]}{_CHANNEL}commentary json{_MESSAGE}{content}")
        elif channel.startswith("final"):
            finals.append(content)
        else:
            thoughts.append(content)
    said = "\n".join(calls or finals)
    thought = "\n".join(thoughts)
    if not calls and not finals:
        return f"<think>{thought}"
    return f"<think>{thought}</think>{said}" if thought else said
