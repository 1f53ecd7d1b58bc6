"""How a chat template writes an answer that nobody sampled: that of a demonstration, of a person or of another model.

The response taught is what the template renders of the conversation with the answer, without the prompt: with an empty
thought where the template has one, in the channel of final answers, with the blank before it. A template whose answers
do not extend its own prompt teaches nothing, and is refused.

The template is rendered with placeholders, once for each kind of answer; `AnswerWriter` fills them in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import TokenCodec
from turncredit.agents.models.trusted_text import PromptText
from turncredit.agents.prompts.answer_form import TAGS, AnswerForm

__all__ = ["AnswerFrame", "AnswerWriter", "read_writer"]

_THOUGHT: Final = "thought-gamma"
_SAID: Final = "answer-gamma"
_RECIPIENT: Final = "to=functions."
_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
_REFUSAL: Final = (
    "the chat template of this tokenizer writes no {answer} that extends its own prompt, so none can be demonstrated; "
    "{way}"
)

Render = Callable[[Mapping[str, object]], str | None]
"""Returns what a template writes of an answer after its prompt; None if that does not extend the prompt."""


@dataclass(frozen=True, slots=True)
class AnswerFrame:
    """What a template writes around the parts of an answer.

    Attributes:
        before: text before the thought, or before the whole of an answer without one.
        between: text between the thought and what is said.
        end: token after it, where that is another one than after most answers.
    """

    before: str
    between: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes answers as a chat template does. Frames are None where the answer does not extend the prompt.

    Attributes:
        form: the form of the template's answers.
        plain: frame of an answer without a thought.
        empty: frame of one with nothing between ``<think>`` and ``</think>``.
        thinking: frame of one with a thought.
        calls: frames of a call in a channel, without and with a thought.
        verbatim: whether ``<think>`` and ``</think>`` are text like any other.
        trims: whether white space around an answer is left out.
        tokens: special tokens that the template writes in calls.
    """

    form: AnswerForm
    plain: AnswerFrame | None
    empty: AnswerFrame | None
    thinking: AnswerFrame | None
    calls: tuple[AnswerFrame | None, AnswerFrame | None]
    verbatim: bool
    trims: bool
    tokens: tuple[str, ...]

    def write(self, text: str) -> tuple[PromptText, str]:
        """Return an answer as the template writes it, without its end, and the token that ends it if it is another one.

        Args:
            text: the answer, with its thought, if any, between the template's marks or ``<think>`` and ``</think>``.

        Raises:
            PromptError: the template writes no such answer after its prompt.
        """
        thought, speech = (None, text) if self.verbatim else self.form.split(text)
        thinks = bool(thought and thought.strip())
        if self.form.channels and speech.startswith(_RECIPIENT):
            if speech.count(_RECIPIENT) > 1:
                raise PromptError(
                    _REFUSAL.format(answer="answer with several calls", way="demonstrate one call a turn")
                )
            frame = self.calls[thinks]
        else:
            frame = self.thinking if thinks else self.plain if thought is None else self.empty
        if frame is None:
            raise PromptError(_refusal(thinks))
        pieces = [PromptText(frame.before)]
        if thinks:
            pieces += [PromptText.of(str(thought).strip()), PromptText(frame.between)]
        speech = speech.strip() if self.trims or thought is not None else speech
        return PromptText.joined([*pieces, *self._pieces(speech)]), frame.end

    def _pieces(self, speech: str) -> list[PromptText]:
        """Return what was said, in which the tokens of calls are those of the template."""
        if not self.tokens:
            return [PromptText.of(speech)]
        parts = re.split(f"({'|'.join(map(re.escape, self.tokens))})", speech)
        return [PromptText(part) if part in self.tokens else PromptText.of(part) for part in parts]


def read_writer(render: Render, codec: TokenCodec, form: AnswerForm, call: JsonObject | None) -> AnswerWriter:
    """Return what writes the answers of a template.

    Args:
        render: renders one answer.
        codec: knows the special tokens.
        form: the form of the template's answers.
        call: an answer that calls a tool, in fields of the message; None without tools.
    """
    own = tuple(marks for marks in form.marks if marks != TAGS) or (TAGS,)
    tagged = f"{TAGS[0]}{_THOUGHT}{TAGS[1]}{_SAID}"
    thinking = _thinking(render({**_spoken(_SAID), **_thought()}))
    plain = _frame(render(_spoken(_SAID)))
    # Tags are text to a template that writes no thought of its own, neither in the prompt nor before an answer.
    closes = form.closed or (plain is not None and any(closing in plain.before for _, closing in form.marks))
    verbatim = not closes and thinking is None and own == (TAGS,) and tagged in (render(_spoken(tagged)) or "")
    texts = (render(_spoken(f"{opening}{_THOUGHT}{closing}{_SAID}")) for opening, closing in own)
    thinking = thinking or next(filter(None, map(_thinking, texts)), None)
    if thinking and (form.closed or any(closing in thinking.before for _, closing in form.marks)):
        thinking = None  # it would be a second one
    emptied = AnswerFrame(thinking.before + thinking.between) if thinking and form.opened else None
    empty = plain if closes else _frame(render(_spoken(f"{TAGS[0]}{TAGS[1]}{_SAID}")))
    spaced = render(_spoken(f"\n {_SAID} \n"))
    called = None if call is None else render(call)
    return AnswerWriter(
        form=form,
        plain=plain or emptied,
        empty=empty or emptied,
        thinking=thinking,
        calls=(_call(called), None if call is None else _call(render({**call, **_thought()}))),
        verbatim=verbatim,
        trims=spaced is None or f"\n {_SAID} \n" not in spaced,
        tokens=tuple(sorted({name for _, name in codec.special_in(_before_the_end(called or "", codec))})),
    )


def _spoken(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def _thought() -> dict[str, object]:
    return dict.fromkeys(_FIELDS, _THOUGHT)


def _frame(written: str | None) -> AnswerFrame | None:
    """Return the frame of a rendered answer without a thought."""
    before, marker, _ = (written or "").partition(_SAID)
    return AnswerFrame(before) if marker else None


def _thinking(written: str | None) -> AnswerFrame | None:
    """Return the frame of a rendered answer with a thought; None if the thought was left out."""
    before, marker, remainder = (written or "").partition(_THOUGHT)
    between, speech, _ = remainder.partition(_SAID)
    return AnswerFrame(before, between) if marker and speech else None


def _call(written: str | None) -> AnswerFrame | None:
    """Return the frame of a rendered call in a channel, with or without a thought; None if it is written otherwise."""
    header, marker, call = (written or "").partition(_RECIPIENT)
    if not marker:
        return None
    before, _, between = header.partition(_THOUGHT)
    return AnswerFrame(before, between, call.rpartition("}")[2].strip())


def _before_the_end(written: str, codec: TokenCodec) -> str:
    """Return a rendered answer without the special token that ends it."""
    tokens = codec.special_in(written)
    ended = bool(tokens) and written[tokens[-1][0] :].strip() == tokens[-1][1]
    return written[: tokens[-1][0]] if ended else written


def _refusal(thinks: bool) -> str:
    if thinks:
        way = "demonstrate answers without thoughts, or set agent.chat to false"
        return _REFUSAL.format(answer="answer with a thought", way=way)
    way = "set an argument of the template in agent.chat, such as enable_thinking, or agent.chat to false"
    return _REFUSAL.format(answer="answer", way=way)
