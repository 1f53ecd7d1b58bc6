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
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeVar, cast

from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import AnswerEnd, Tokenizer, codec_of
from turncredit.agents.models.trusted_text import PromptText
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

_USERS = ("user-alpha", "user-beta", "user-gamma")
_ANSWERS = ("answer-alpha", "answer-beta")
_NONE = (PromptText(""), PromptText(""))
_SYSTEM, _THOUGHT = "system-alpha", "thought-alpha"
_REWRITES = (
    "the chat template of this tokenizer rewrites earlier turns, so a later prompt does not extend what was sampled; "
    "set agent.prompt to 'window', or use a tokenizer without this chat template"
)
_DROPS = (
    "the chat template of this tokenizer drops the thinking of earlier turns, so a later prompt does not extend what "
    "was sampled; set agent.prompt to 'window', or agent.chat to {keep_history = true} to leave it in the prompts"
)
_TOOL: Schema = {
    "type": "function",
    "function": {"name": "tool_alpha", "description": "d", "parameters": {"type": "object", "properties": {}}},
}


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
        self._fold = False
        self._before = self._after = ""
        self._as_json = False
        self._joint = "\n"
        reader = reader_of(tokenizer)
        self._marker = "" if reader is None else reader.marker
        read = _bounded(lambda: self._read(appends))
        self._fold, self._before, self._after, self._joint, self._as_json, followed, closed, self.image = read
        self.end: AnswerEnd | None = codec_of(tokenizer).answer_end(followed, closed)
        """What the template writes at the end of an answer; None if there is nothing that could be recognized."""
        if self.end is not None:
            self._before = self._before.lstrip()

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
        self, user: PromptText, results: Sequence[str] = (), images: tuple[PromptText, PromptText] = _NONE
    ) -> PromptText:
        """Return the text from the end of one answer to the start of the next.

        Args:
            user: the message of the user.
            results: results of the calls in the answer; a template that describes tools writes each of them in a
                message of its own, in place of the user's.
            images: what stands before and after the message for its images.
        """
        parts = [PromptText.of(result) for result in results] if self._tools and results else [user.strip()]
        if self._as_json:
            parts = [PromptText.of(json.dumps(part.text, ensure_ascii=False)[1:-1]) for part in parts]
        message = images[0] + PromptText.joined(parts, self._joint) + images[1]
        return PromptText.joined((PromptText(self._before), message, PromptText(self._after)))

    def _first(self, system: str) -> list[str]:
        """Return what the template writes around the first message of the user, wherever that stands."""
        user = _USERS[0]
        if self._fold:
            return self._render(_message("user", f"{system.strip()}\n\n{user}")).split(user)
        head = _message("system", system.strip()) if system else []
        return self._render(head + _message("user", user)).split(user)

    def _read(self, appends: bool) -> tuple[bool, str, str, str, bool, str, str, tuple[str, str]]:
        """Return all that is known of a template: its attributes, and what follows an answer and the last answer."""
        self._check_arguments()
        self._fold = self._system and not self._accepts_system()
        if appends:
            self._read_turns()
        followed = self._before if appends else self._after_an_answer(_USERS[1])
        attributes = (self._fold, self._before, self._after, self._joint, self._as_json)
        return *attributes, followed, self._after_an_answer(), self._read_image() if self._marker else ("", "")

    def _read_image(self) -> tuple[str, str]:
        """Return what the template writes before and after the user's text for an image that follows it.

        Raises:
            PromptError: it writes something else as well, or two images in another way than one.
        """
        begin, _, end = self._render(_message("user", _USERS[0])).partition(_USERS[0])
        text, image = {"type": "text", "text": _USERS[0]}, {"type": "image"}
        messages = [[{"role": "user", "content": [text, *[image] * count]}] for count in (1, 2)]
        single, double = (self._render(message, plain=False) for message in messages)
        before, _, after = single.removeprefix(begin).removesuffix(end).partition(_USERS[0])
        forms = [f"{begin}{before * count}{_USERS[0]}{after * count}{end}" for count in (1, 2)]
        if [single, double] != forms or (before + after).count(self._marker) != 1:
            raise PromptError(
                "the chat template of this tokenizer does more with images than to put them before or after the text, "
                "so prompts with images cannot be built exactly; set agent.chat to false"
            )
        return before, after

    def _read_turns(self) -> None:
        """Read what stands between the turns of a conversation."""
        head = _message("system", _SYSTEM) if self._system and not self._fold else []
        base = head + _message("user", _USERS[0])
        once = self._render([*base, *self._reply(0)])
        history, _, ending = once.partition(_ANSWERS[0])
        self._before, separator, self._after = ending.partition(_USERS[1])
        drops = _loses_thinking(self._render(base), history)
        twice = self._render([*base, *self._reply(0), *self._reply(1)])
        history, _, ending = twice.partition(_ANSWERS[1])
        _loses_thinking(once, history)
        if not separator or ending.strip() != f"{self._before}{_USERS[2]}{self._after}".strip():
            raise PromptError(_REWRITES)
        thought = self._render([*base, *self._reply(0, f"<think>\n{_THOUGHT}\n</think>\n\n")])
        if (drops or _THOUGHT not in thought) and not self._keep:
            raise PromptError(_DROPS)
        quoted = self._render([*base, *self._reply(0, after='"')])
        self._as_json = f'{_USERS[1]}\\"' in quoted
        if self._tools:
            two = self._render([*base, *self._reply(0), *_message("tool", _USERS[2])])
            self._joint = two.partition(_USERS[1])[2].partition(_USERS[2])[0] or self._joint

    def _after_an_answer(self, following: str = "") -> str:
        """Return what the template writes after an answer: up to the message that follows, or to the end."""
        answer = self._reply(0) if following else self._reply(0)[:1]
        try:
            rendered = self._render([*_message("user", _USERS[0]), *answer], prompt=bool(following))
        except PromptError:  # a template for one question has no answers in the history
            return ""
        after = rendered.partition(_ANSWERS[0])[2]
        return after.partition(following)[0] if following else after

    def _reply(self, number: int, before: str = "", after: str = "") -> list[dict[str, str]]:
        """Return an answer and the message that follows it."""
        answer = _message("assistant", before + _ANSWERS[number])
        return answer + _message("tool" if self._tools else "user", _USERS[number + 1] + after)

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
        return tool in self._render(_message("user", "u"))

    def _accepts_system(self) -> bool:
        # Some templates raise on a system message, and some drop it silently.
        try:
            return _SYSTEM in self._render(_message("system", _SYSTEM) + _message("user", "u"))
        except PromptError:
            return False

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
        system=not ChatTemplate(tokenizer, system=True, appends=False)._fold,
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


def _loses_thinking(prompt: str, history: str) -> bool:
    """Return whether the end of a prompt is missing in the history because it belongs to the thinking.

    Args:
        prompt: a rendered prompt.
        history: how the template renders the same conversation later, up to the answer.

    Raises:
        PromptError: they differ in more than that.
    """
    # The model samples the white space between the prompt and its answer, so it may differ.
    prompt, history = prompt.rstrip(), history.rstrip()
    thinking = prompt.removeprefix(history).strip()
    if not prompt.startswith(history) or (thinking and not thinking.startswith("<think>")):
        raise PromptError(_REWRITES)
    return bool(thinking)


def _in_parts(message: Mapping[str, object]) -> dict[str, object]:
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _message(role: str, content: str) -> list[dict[str, str]]:
    return [{"role": role, "content": content}]
