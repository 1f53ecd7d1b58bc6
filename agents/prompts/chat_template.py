"""A tokenizer's chat template, cut into pieces that can be appended to what was sampled.

A chat template renders a whole conversation at once. Rendering it again at every turn and tokenizing the result would
change the ids that the model sampled, because the same text has many tokenizations; log-probabilities and gradients
would then belong to a sequence that nobody sampled. `ChatTemplate` renders the template once with placeholders, and
keeps the text before, between and after the messages. Only that text is tokenized.

Many templates of reasoning models drop the thinking of earlier turns, so a later prompt does not extend what was
sampled. They are refused for conversations, unless `keep_history` says that the thinking stays in the prompts.

A template is a program that came with a model. It is rendered in a copy of this process, under limits of time and
memory, and what it reads as today's date is an argument, so that prompts can be built again on another day.

Not included: conversations with several system messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeVar, cast

from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import AnswerEnd, Tokenizer, codec_of
from turncredit.agents.models.trusted_text import PromptText
from turncredit.agents.prompts.template_reading import TOOL_NAME, USERS, TemplateReader, TemplateReading, message
from turncredit.agents.vision.image_reader import reader_of
from turncredit.processes.bounded_fork import LimitExceeded, call_bounded

KEEP_HISTORY, TOOLS, DATE = "keep_history", "tools", "date"
"""The keys of `agent.chat` that are not arguments of the template."""

SECONDS, MEMORY, CHARACTERS = 10, 1 << 30, 4_000_000
"""Limits of CPU time (seconds) and memory (bytes) for reading a template, and of characters of a rendered prompt."""

_CLOCK = "strftime_now"
"""The function from which templates of transformers read the time."""

_DIRECTIVES = [*(f"-{name}" for name in "dHIjmMSy"), *"aAbBcdDeFGhHIjlmMpPrRSTuUVwWxXyYzZ%"]
"""What may follow a percent sign in a format of the time; the names with a hyphen have no leading zero."""

T = TypeVar("T")

Schema = JsonObject
"""The JSON schema of a function, as in the OpenAI API: {"type": "function", "function": {"name": ..., ...}}."""

_NONE = (PromptText(""), PromptText(""))
_TOOL: Schema = {
    "type": "function",
    "function": {"name": TOOL_NAME, "description": "d", "parameters": {"type": "object", "properties": {}}},
}


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """An answer as a chat template writes it: its text without its end, and what ends it."""

    text: PromptText
    end: AnswerEnd | None


class ChatTemplate:
    """Text of a chat template: `first` starts a conversation, `between` leads from one answer to the next."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        system: bool,
        appends: bool = True,
        options: JsonObject | None = None,
    ) -> None:
        """Render the template with placeholders.

        Args:
            tokenizer: has a chat template.
            system: whether conversations have a system message.
            appends: whether later prompts extend earlier ones; if so, the template must only ever append.
            options: arguments of the template, such as ``enable_thinking``; ``keep_history``: whether later prompts
                append to what was sampled even where the template would drop the thinking of earlier turns;
                ``tools``: schemas of functions that the template describes, whose results take the place of the user's
                later messages; and ``date``, "YYYY-MM-DD": what the template takes for today, by default today.

        Raises:
            PromptError: the template cannot be rendered, takes too much time or memory, has no such argument, does not
                describe tools, or rewrites earlier turns although `appends` is set.
        """
        self._tokenizer = cast(Any, tokenizer)
        self._system, self._arguments = system, dict(options or {})
        self._keep = bool(self._arguments.pop(KEEP_HISTORY, False))
        self._tools = _schemas(self._arguments.pop(TOOLS, None))
        self.date = _day(self._arguments.pop(DATE, None))
        """What the template takes for today, if it reads the clock (see `reads_clock`)."""
        self._firsts: dict[str, list[str]] = {}
        self._codec = codec_of(tokenizer)
        reader = reader_of(tokenizer)
        self._marker = "" if reader is None else reader.marker
        self._read = _bounded(lambda: self._reading(appends))
        self.image = self._read.image
        """What it writes before and after the user's text for an image."""
        ending = self._read.followed, self._read.closed
        self.end: AnswerEnd | None = self._codec.answer_end(*ending, generates=self._read.generates)
        """What the template writes at the end of an answer; None if there is nothing that could be recognized."""
        self.ends_unseen = self.end is None and bool(self._read.closed) and not "".join(ending).strip()
        """Whether nothing but white space follows an answer, so that nobody could know where one ends."""
        after = "" if self.end is None else self.end.gap.strip()
        around = self._read.form.around[0], after if self._codec.all_special(after) else ""
        self.form = replace(self._read.form, around=around)
        """How answers are written, for parsers."""
        self._writer = replace(self._read.writer, form=self.form)
        self._before = self._read.before
        if self.end is not None:
            start = self._before.find(self.end.text)
            self._before = self._before[start:] if start >= 0 else self._before.lstrip()
        self.history_end: int | None = self._codec.first_special(self._before) if self._ends_otherwise() else None
        """The token that stands after an answer of the history, where a sampled one ends with another token."""

    def first(self, system: str, user: PromptText, images: tuple[PromptText, PromptText] = _NONE) -> PromptText:
        """Return the text from the start of the conversation to the first answer.

        Args:
            system: the system message.
            user: the message of the user.
            images: what stands before and after that message for its images.

        Raises:
            PromptError: the template does not contain the user's message as given.
        """
        if system not in self._firsts:
            self._firsts[system] = _bounded(lambda: self._first(system))
        parts = [PromptText(part) for part in self._firsts[system]]
        if len(parts) == 1:
            raise PromptError("the chat template of this tokenizer does not contain the user's message as given")
        user = images[0] + user.strip() + images[1]
        return PromptText.joined([parts[0], *(piece for part in parts[1:] for piece in (user, part))])

    def between(
        self,
        user: PromptText,
        results: Sequence[str] = (),
        images: tuple[PromptText, PromptText] = _NONE,
        answer: str = "",
    ) -> PromptText:
        """Return the text from the end of one answer to the start of the next.

        Args:
            user: the message of the user.
            results: results of the calls in the answer; a template that describes tools writes each of them in a
                message of its own, in place of the user's.
            images: what stands before and after the message for its images.
            answer: text of the answer, whose calls some templates name beside their results.
        """
        parts = [PromptText.of(result) for result in results] if self._tools and results else [user.strip()]
        if self._read.as_json:
            parts = [PromptText.of(json.dumps(part.text, ensure_ascii=False)[1:-1]) for part in parts]
        pieces = [images[0]]
        for number, part in enumerate(parts):
            pieces += [PromptText(self._named(self._read.joint, answer, number))] if number else []
            pieces.append(part)
        pieces.append(images[1])
        before = self._named(self._before, answer, 0)
        return PromptText.joined((PromptText(before), *pieces, PromptText(self._read.after)))

    def written(self, text: str) -> WrittenAnswer:
        """Return an answer that nobody sampled as the template writes it after its prompt.

        Args:
            text: the answer, with its thought, if any, in ``<think>`` and ``</think>``.

        Raises:
            PromptError: the template writes no such answer after its prompt.
        """
        words, ending = self._writer.write(text)
        end = self.end
        token = self._codec.first_special(ending)
        if token is not None and (end is None or token != end.token):
            end = AnswerEnd(ending, token)
        return WrittenAnswer(words, end)

    def _named(self, text: str, answer: str, number: int) -> str:
        """Return a text of the template with the name or id of a call of an answer, or of its last call."""
        for names in self._read.names:
            calls = names.of(answer) or [names.without_call(self._tools)]
            text = text.replace(names.placeholder, calls[min(number, len(calls) - 1)])
        return text

    def _ends_otherwise(self) -> bool:
        """Return whether answers of the history end with another token than the one that was sampled."""
        return self.end is not None and self.end.token is not None and not self._before.startswith(self.end.text)

    def _first(self, system: str) -> list[str]:
        """Return what the template writes around the first message of the user, wherever that stands."""
        user = USERS[0]
        if self._read.fold:
            return self._render(message("user", f"{system.strip()}\n\n{user}")).split(user)
        head = message("system", system.strip()) if system else []
        return self._render(head + message("user", user)).split(user)

    def _reading(self, appends: bool) -> TemplateReading:
        """Return all that is known of the template."""
        self._check_arguments()
        template = str(getattr(self._tokenizer, "chat_template", ""))
        reader = TemplateReader(self._render, self._codec, template, system=self._system, tools=bool(self._tools))
        return reader.read(appends=appends, keep=self._keep, marker=self._marker)

    def _check_arguments(self) -> None:
        text = str(getattr(self._tokenizer, "chat_template", ""))
        for name in self._arguments:
            if not re.search(rf"\b{re.escape(name)}\b", text):
                raise PromptError(f"the chat template of this tokenizer has no argument {name!r}")
        if self._tools and not self._describes(str(self._tools[0]["function"]["name"])):
            raise PromptError(
                "the chat template of this tokenizer does not describe tools; let the environment describe them"
            )

    def _describes(self, tool: str) -> bool:
        return tool in self._render(message("user", "u"))

    def _render(self, messages: Sequence[Mapping[str, object]], *, prompt: bool = True, plain: bool = True) -> str:
        if self._marker and plain:  # templates of such models may read lists of parts only
            messages = [_in_parts(message) for message in messages]
        options: dict[str, Any] = {"tools": self._tools} if self._tools else {}
        try:
            if reads_clock(self._tokenizer):
                template = self._tokenizer.get_chat_template(None, self._tools or None)
                options["chat_template"] = _with_date(template, self.date)
            text = str(
                self._tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=prompt, **options, **self._arguments
                )
            )
        except MemoryError:
            raise
        except Exception as error:  # jinja's errors, and those that a template raises itself
            raise PromptError(f"the chat template of the tokenizer cannot be rendered: {error}") from error
        if len(text) > CHARACTERS:
            raise PromptError(
                f"the chat template of the tokenizer writes {len(text):,} characters around a few words; at most "
                f"{CHARACTERS:,} are allowed"
            )
        return text


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What a chat template does.

    Attributes:
        system: whether it renders system messages; otherwise they become part of the first message of the user.
        tools: whether it describes tools.
        thinking: whether thinking can be switched on and off (``enable_thinking``).
        drops_thinking: whether it drops the thinking of earlier turns.
        appends: whether later prompts extend earlier ones, apart from dropped thinking.
    """

    system: bool
    tools: bool
    thinking: bool
    drops_thinking: bool
    appends: bool


def template_facts(tokenizer: Tokenizer) -> TemplateFacts:
    """Return what the chat template of a tokenizer does."""
    return TemplateFacts(
        system=not ChatTemplate(tokenizer, system=True, appends=False)._read.fold,
        tools=_works(tokenizer, appends=False, options={TOOLS: [_TOOL]}),
        thinking=_works(tokenizer, appends=False, options={"enable_thinking": False}),
        drops_thinking=not _works(tokenizer) and _works(tokenizer, options={KEEP_HISTORY: True}),
        appends=_works(tokenizer, options={KEEP_HISTORY: True}),
    )


def chat_fields(chat: bool | JsonObject, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return the fields of an agent for the setting `agent.chat`.

    Args:
        chat: whether the tokenizer's chat template writes the prompts, or options of `ChatTemplate`.
        tokenizer: tokenizer of the model; None for players without one.
    """
    options = dict(chat) if isinstance(chat, Mapping) else {}
    return {"chat": None if chat is False else tokenizer, "chat_options": options}


def reads_clock(tokenizer: Tokenizer | None) -> bool:
    """Whether the chat template of a tokenizer writes the date."""
    return _CLOCK in str(getattr(tokenizer, "chat_template", None) or "")


def _with_date(template: str, day: date) -> str:
    """Return a chat template in which a macro of its own stands in the place of the function that tells the time.

    transformers passes plain data to templates, and no functions. The line break is eaten by the block before it.
    """
    midnight = datetime.combine(day, datetime.min.time())
    replaced = " | ".join(f"replace({'%' + name!r}, {midnight.strftime('%' + name)!r})" for name in _DIRECTIVES)
    return f"{{% macro {_CLOCK}(format) %}}{{{{ format | {replaced} }}}}{{% endmacro %}}\n{template}"


def _bounded(work: Callable[[], T]) -> T:
    """Return the result of work that renders a template, under limits.

    Raises:
        PromptError: from the work, or it exceeds a limit.
    """
    try:
        return call_bounded(work, seconds=SECONDS, memory=MEMORY)
    except LimitExceeded as error:
        raise PromptError(f"the chat template of the tokenizer cannot be rendered: it takes {error}") from error


def _day(value: object) -> date:
    """Return the date in the setting `agent.chat`; today without one."""
    if value is None:
        return date.today()
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise PromptError(f"agent.chat.date must be a date such as 2026-01-31, got {value!r}") from None


def _schemas(schemas: Any) -> list[dict[str, Any]]:
    if schemas is not None and (
        isinstance(schemas, bool | str) or not all(isinstance(schema, Mapping) for schema in schemas)
    ):
        raise PromptError(
            f"the tools of a chat template are a list of JSON schemas, or true where a run names the environment; got "
            f"{schemas!r}"
        )
    return [dict(schema) for schema in schemas or ()]


def _works(tokenizer: Tokenizer, **options: Any) -> bool:
    try:
        ChatTemplate(tokenizer, system=False, **options)
    except PromptError:
        return False
    return True


def _in_parts(message: Mapping[str, object]) -> dict[str, object]:
    return {**message, "content": [{"type": "text", "text": message["content"]}]}
