"""What a chat template writes between the turns of a conversation, read from conversations with placeholders.

A template is tried with answers as its model gives them: with a thought where the prompt does not close it, in the
field that templates read or in the text; and, where it describes tools, with calls in fields if it takes no result
without them. It is refused for conversations only if it rewrites turns with such answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import TokenCodec
from turncredit.agents.prompts.answer_form import AnswerForm, has_channels, marks_in
from turncredit.agents.prompts.answer_writing import AnswerWriter, read_writer

__all__ = ["SYSTEM", "TOOL_NAME", "USERS", "CallNames", "TemplateReader", "TemplateReading", "message"]

USERS: Final = ("user-alpha", "user-beta", "user-gamma")
SYSTEM: Final = "system-alpha"
TOOL_NAME: Final = "tool_alpha"
_ANSWERS: Final = ("answer-alpha", "answer-beta")
_THOUGHTS: Final = ("thought-alpha", "thought-beta")
_CALL_ID: Final = "callalpha"
_REWRITES = (
    "the chat template of this tokenizer rewrites earlier turns, so a later prompt does not extend what was sampled; "
    "set agent.prompt to 'window', or use a tokenizer without this chat template"
)
_DROPS = (
    "the chat template of this tokenizer drops the thinking of earlier turns, so a later prompt does not extend what "
    "was sampled; set agent.prompt to 'window', or agent.chat to {keep_history = true} to leave it in the prompts"
)

Messages = list[JsonObject]
Render = Callable[..., str]
Style = Callable[..., JsonObject]
"""Returns an answer by its number, with further fields of the message and text before the answer."""


@dataclass(frozen=True, slots=True)
class CallNames:
    """Where the name of a called function, or the id of a call, stands in an answer.

    Attributes:
        placeholder: what stands for it in the texts of a template.
        before: what a template writes before it in a call.
    """

    placeholder: str
    before: str

    def of(self, answer: str) -> list[str]:
        """Return the names, or ids, of the calls in an answer."""
        return re.findall(re.escape(self.before) + r"([\w.:-]+)", answer) if self.before else []

    def without_call(self, tools: Sequence[JsonObject]) -> str:
        """Return what stands there after an answer without a call: the name of a tool, and no id."""
        return str(tools[0]["function"]["name"]) if self.placeholder == TOOL_NAME else ""


@dataclass(frozen=True, slots=True)
class _Turns:
    """What a template writes between two answers: before the next message and after it, and how it ends an answer."""

    before: str
    after: str
    closed: str = ""
    names: tuple[CallNames, ...] = ()
    joint: str = "\n"
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class TemplateReading:
    """All that is known of a template.

    Attributes:
        fold: whether the system message becomes part of the user's first.
        before: text between an answer and the next message.
        after: text between that message and the next answer.
        joint: text between two results of tools.
        as_json: whether the message is written as a JSON string.
        names: what `before` and `joint` repeat of the calls in the answer.
        followed: text after an answer that another message follows.
        closed: text after an answer that nothing follows.
        generates: whether the template writes the beginning of an answer only when it is asked to.
        form: the form of its answers.
        writer: writes answers that nobody sampled.
        image: what it writes before and after the user's text for an image.
    """

    fold: bool
    before: str
    after: str
    joint: str
    as_json: bool
    names: tuple[CallNames, ...]
    followed: str
    closed: str
    generates: bool
    form: AnswerForm
    writer: AnswerWriter
    image: tuple[str, str]


class TemplateReader:
    """Reads one template; see `read`."""

    def __init__(self, render: Render, codec: TokenCodec, template: str, *, system: bool, tools: bool) -> None:
        """Remember how to render it.

        Args:
            render: (messages, prompt, plain) -> what the template writes.
            codec: knows the special tokens.
            template: its source.
            system: whether conversations have a system message.
            tools: whether results of tools take the place of the user's later messages.
        """
        self._render, self._codec, self._system, self._tools = render, codec, system, tools
        self._marks = marks_in(template)
        self._channels = has_channels(template)
        self._base: Messages = []
        self._closed_by_prompt = False

    def read(self, *, appends: bool, keep: bool, marker: str) -> TemplateReading:
        """Return all that is known of the template.

        Args:
            appends: whether later prompts extend earlier ones; if so, the template must only ever append.
            keep: whether it may leave out the thinking of earlier turns, which then stays in the prompts.
            marker: the model's text for an image; "" for a model without images.

        Raises:
            PromptError: it cannot be rendered, or rewrites earlier turns although `appends` is set.
        """
        fold = self._system and not self._accepts_system()
        head = message("system", SYSTEM) if self._system and not fold else []
        self._base = [*head, *message("user", USERS[0])]
        tail = self._render(self._base).partition(USERS[0])[2]
        opened = any(tail.rfind(opening) > tail.rfind(closing) for opening, closing in self._marks)
        self._closed_by_prompt = not opened and any(closing in tail for _, closing in self._marks)
        turns = self._read_turns(keep) if appends else _Turns("", "")
        followed = turns.before if appends else self._after_an_answer(USERS[1])
        closed = turns.closed or self._after_an_answer()
        around = (self._before_an_answer(), "")
        form = AnswerForm(self._marks, opened, self._channels, around, self._closed_by_prompt)
        return TemplateReading(
            fold=fold,
            before=turns.before,
            after=turns.after,
            joint=turns.joint,
            as_json=turns.as_json,
            names=turns.names,
            followed=followed,
            closed=closed,
            generates=closed != self._after_an_answer(prompt=True),
            form=form,
            writer=read_writer(self._written, self._codec, form, _called(0) if self._tools else None),
            image=self._read_image(marker) if marker else ("", ""),
        )

    # -- turns --

    def _read_turns(self, keep: bool) -> _Turns:
        """Read what stands between the turns of a conversation."""
        styles = [_spoken, _called] if self._tools else [_spoken]
        problems: list[PromptError] = []
        for loose in (False, True) if keep else (False,):
            readings: list[_Turns] = []
            for style in styles:
                try:
                    readings.append(self._of_style(style, loose))
                except PromptError as error:
                    problems.append(error)
                else:
                    if not readings[-1].names:
                        return readings[-1]
            if readings:  # results name their calls, which are known best from calls in fields
                return readings[-1]
        raise next((error for error in problems if str(error) == _DROPS), problems[0])

    def _of_style(self, style: Style, loose: bool) -> _Turns:
        """Return what stands between turns whose answers have one style.

        Args:
            style: style of the answers.
            loose: whether thoughts may be missing in the history.
        """
        pairs = [[style(0), style(1)]] if loose or self._closed_by_prompt else self._thoughtful(style)
        readings = [self._between(pair, loose) for pair in pairs]
        turns, first = readings[0], pairs[0][0]
        if style is _called:
            turns = self._from_the_end(turns, first)
        turns = replace(turns, names=self._names_in(turns, first))
        quoted = self._render([*self._base, first, *self._next(0, '"')])
        two = self._render([*self._base, first, *self._next(0), *self._next(1)]) if self._tools else ""
        joint = two.partition(USERS[1])[2].partition(USERS[2])[0] or "\n"
        as_json = f'{USERS[1]}\\"' in quoted
        return replace(turns, joint=joint, as_json=as_json)

    def _thoughtful(self, style: Style) -> list[list[JsonObject]]:
        """Return pairs of answers with thoughts: in fields of the message if the template reads them, else as text."""
        fields = [dict.fromkeys(("reasoning_content", "reasoning", "thinking"), thought) for thought in _THOUGHTS]
        named = [style(number, fields[number]) for number in (0, 1)]
        if _THOUGHTS[0] in self._render([*self._base, named[0]], prompt=False):
            return [named]
        texts = [[f"{opening}\n{thought}\n{closing}\n\n" for thought in _THOUGHTS] for opening, closing in self._marks]
        return [[style(number, {}, pair[number]) for number in (0, 1)] for pair in texts]

    def _between(self, pair: Sequence[JsonObject], loose: bool) -> _Turns:
        """Return what stands between two answers.

        Raises:
            PromptError: later turns change it, or thoughts are missing although `loose` is not set.
        """
        prompt = self._render(self._base)
        once = self._render([*self._base, pair[0], *self._next(0)])
        twice = self._render([*self._base, pair[0], *self._next(0), pair[1], *self._next(1)])
        history, _, ending = once.partition(_ANSWERS[0])
        before, separator, after = ending.partition(USERS[1])
        lost = self._lost(prompt, history)
        later, _, remaining = twice.partition(_ANSWERS[1])
        lost = self._lost(once, later) or lost
        if not separator or remaining.strip() != f"{before}{USERS[2]}{after}".strip():
            raise PromptError(_REWRITES)
        if not loose:
            added = history.removeprefix(prompt.rstrip())
            thinks = any(_THOUGHTS[0] in str(value) for value in pair[0].values())
            emptied = any(re.search(f"{re.escape(a)}\\s*{re.escape(b)}", added) for a, b in self._marks)
            if lost or (thinks and (_THOUGHTS[0] not in added or emptied)):
                raise PromptError(_DROPS)
        return _Turns(before, after)

    def _lost(self, prompt: str, history: str) -> bool:
        """Return whether the end of a prompt is missing in the history because it belongs to the thinking.

        Args:
            prompt: a rendered prompt.
            history: how the template renders the same conversation later, up to the answer.

        Raises:
            PromptError: they differ in more than that.
        """
        # The model samples the white space between the prompt and its answer, so it may differ.
        prompt, history = prompt.rstrip(), history.rstrip()
        if history.startswith(prompt):
            return False
        for opening, _ in self._marks:
            start = prompt.rfind(opening)
            inside = start >= 0 and not any(user in prompt[start:] for user in USERS)
            if inside and history.startswith(prompt[:start].rstrip()):
                return True
        raise PromptError(_REWRITES)

    def _from_the_end(self, turns: _Turns, answer: JsonObject) -> _Turns:
        """Return what stands between turns from the end of an answer on: its call ends before that."""
        closed = self._render([*self._base, answer], prompt=False).partition(_ANSWERS[0])[2]
        tokens = self._codec.special_in(closed)
        start = tokens[-1][0] if tokens else len(closed)
        if not tokens or turns.before[:start] != closed[:start]:
            raise PromptError(_REWRITES)
        return _Turns(turns.before[start:], turns.after, closed[start:])

    def _names_in(self, turns: _Turns, answer: JsonObject) -> tuple[CallNames, ...]:
        """Return what results repeat of the calls in an answer."""
        written = self._render([*self._base, answer], prompt=False).rpartition(USERS[0])[2]
        between = turns.before + turns.after
        placeholders = [placeholder for placeholder in (TOOL_NAME, _CALL_ID) if placeholder in between]
        return tuple(CallNames(placeholder, _word_before(written, placeholder)) for placeholder in placeholders)

    # -- single answers --

    def _after_an_answer(self, following: str = "", *, prompt: bool = False) -> str:
        """Return what the template writes after an answer: up to the message that follows, or to the end."""
        base, answer = message("user", USERS[0]), [_spoken(0), *(self._next(0) if following else [])]
        try:
            rendered = self._render([*base, *answer], prompt=bool(following) or prompt)
        except PromptError:
            if following and self._tools:  # a result needs a call, and a user's message does not
                return self._after_an_answer_to_a_user(following)
            return ""  # a template for one question has no answers in the history
        after = rendered.partition(_ANSWERS[0])[2]
        return after.partition(following)[0] if following else after

    def _after_an_answer_to_a_user(self, following: str) -> str:
        messages = [*message("user", USERS[0]), _spoken(0), *message("user", following)]
        return self._render(messages).partition(_ANSWERS[0])[2].partition(following)[0]

    def _written(self, answer: Mapping[str, object]) -> str | None:
        """Return what the template writes of an answer after its prompt; None if that does not extend the prompt."""
        try:
            prompt, whole = self._render(self._base), self._render([*self._base, dict(answer)], prompt=False)
        except PromptError:
            return None
        return whole.removeprefix(prompt) if whole.startswith(prompt) else None

    def _before_an_answer(self) -> str:
        """Return the special tokens, without those of thoughts, that the template writes between prompt and answer."""
        try:
            begin = self._render(message("user", USERS[0])).rstrip()
            answered = self._render([*message("user", USERS[0]), _spoken(0)], prompt=False)
        except PromptError:
            return ""
        lead = answered.partition(_ANSWERS[0])[0]
        added = lead.removeprefix(begin).strip() if lead.startswith(begin) else ""
        if any(mark in added for mark in chain(*self._marks)):
            return ""
        return added if self._codec.all_special(added) else ""

    def _accepts_system(self) -> bool:
        # Some templates raise on a system message, and some drop it silently.
        try:
            return SYSTEM in self._render(message("system", SYSTEM) + message("user", "u"))
        except PromptError:
            return False

    def _next(self, number: int, after: str = "") -> Messages:
        """Return the message that follows an answer."""
        text = USERS[number + 1] + after
        if not self._tools:
            return message("user", text)
        return [{"role": "tool", "content": text, "tool_call_id": _CALL_ID}]

    def _read_image(self, marker: str) -> tuple[str, str]:
        """Return what the template writes before and after the user's text for an image that follows it.

        Raises:
            PromptError: it writes something else as well, or two images in another way than one.
        """
        begin, _, end = self._render(message("user", USERS[0])).partition(USERS[0])
        text, image = {"type": "text", "text": USERS[0]}, {"type": "image"}
        messages = [[{"role": "user", "content": [text, *[image] * count]}] for count in (1, 2)]
        single, double = (self._render(part, plain=False) for part in messages)
        before, _, after = single.removeprefix(begin).removesuffix(end).partition(USERS[0])
        forms = [f"{begin}{before * count}{USERS[0]}{after * count}{end}" for count in (1, 2)]
        if [single, double] != forms or (before + after).count(marker) != 1:
            raise PromptError(
                "the chat template of this tokenizer does more with images than to put them before or after the text, "
                "so prompts with images cannot be built exactly; set agent.chat to false"
            )
        return before, after


def message(role: str, content: str) -> Messages:
    """Return a message as a list of one."""
    return [{"role": role, "content": content}]


def _spoken(number: int, fields: Mapping[str, str] | None = None, before: str = "") -> JsonObject:
    """Return an answer as text."""
    return {"role": "assistant", "content": before + _ANSWERS[number], **(fields or {})}


def _called(number: int, fields: Mapping[str, str] | None = None, before: str = "") -> JsonObject:
    """Return an answer with a call in fields of the message."""
    function = {"name": TOOL_NAME, "arguments": {"value": _ANSWERS[number]}}
    calls = [{"type": "function", "id": _CALL_ID, "function": function}]
    return {"role": "assistant", "content": before.strip(), **(fields or {}), "tool_calls": calls}


def _word_before(text: str, placeholder: str) -> str:
    """Return the last token or word before a placeholder."""
    match = re.search(r"(?:<[^<>\s]*>|[^\s<>]*)$", text.partition(placeholder)[0])
    return match.group() if match and placeholder in text else ""
