"""The agent: how prompts are built, how answers are parsed, and the limits of an episode. It holds no weights.

In a mixture of environments, each part may be asked in its own way: `Agent.parts` has what differs, and `for_task`
returns the agent that plays a task.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, cast

from turncredit.agents.annealing import Annealing, annealed
from turncredit.agents.errors import AgentError, PromptError, look_up
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.prompts.answer_form import PLAIN_FORM
from turncredit.agents.prompts.chat_template import ChatTemplate
from turncredit.agents.prompts.parsing import PARSERS, Parsed, Parser, without_stop
from turncredit.agents.prompts.prompt import PROMPTS, Conversation, PromptBuilder
from turncredit.agents.prompts.templates import PLAIN, TEMPLATES, Template
from turncredit.registry import suggest
from turncredit.task_ids import part_of

_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("prompt", (str, Mapping), "a name or a table with a name"),
    ("template", (str, Mapping, Template), "a name or a table of strings"),
    ("parser", (str,), "a name"),
    ("stop", (str, list, tuple), "a list of strings"),
)
"""What options of an agent must be, beside the numbers."""


@dataclass(frozen=True)
class Agent:
    """Everything between a model and an environment that is not learned."""

    prompt: PromptBuilder = field(default_factory=Conversation)
    parser: str = "bare"
    """Name of a parser, or "module:attribute"."""
    max_turns: int = 50
    """Maximum number of turns of an episode, including those whose answer could not be parsed."""
    max_tokens: int = 32
    """Maximum number of tokens of one response."""
    temperature: float = 1.0
    """0: always the most likely token. As an option also the name of an annealing, or a table of it."""
    annealing: Annealing | None = None
    """Multiplies the temperature by a factor of the position in the answer."""
    top_p: float = 1.0
    """Only the fewest most probable tokens that have this probability together are sampled; 1: all."""
    top_k: int = 0
    """Number of most probable tokens that may be sampled; 0: all."""
    min_p: float = 0.0
    """Only tokens at least this many times as probable as the most probable one are sampled; 0: all."""
    stop: tuple[str, ...] = ()
    """Strings that end a response."""
    chat: Tokenizer | None = None
    """A tokenizer whose chat template writes the prompts, if it has one."""
    chat_options: JsonObject = field(default_factory=dict)
    """Options of `ChatTemplate`: arguments of the chat template, and ``keep_history``."""
    keep_images: int = 0
    """Number of images in a prompt, at least those of its own turn: older ones are left out; 0: all stay."""
    image_note: str = ""
    """Text in the place of an image that was left out; empty: nothing."""
    parts: Mapping[str, JsonObject] = field(default_factory=dict)
    """Fields that are others for the tasks of a part of a mixture, by the name of the part."""
    part: str = ""
    """Name of the part that it plays; empty: the whole."""
    chat_template: ChatTemplate | None = field(init=False, repr=False, compare=False, default=None)
    _parser: Parser = field(init=False, repr=False, compare=False)
    _of_part: dict[str, Agent] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the limits, find the parser, and read the chat template once."""
        object.__setattr__(self, "_parser", look_up(PARSERS, self.parser))
        for name in ("max_turns", "max_tokens"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise AgentError(f"{name} must be an integer >= 1, got {value!r}")
        for name in ("temperature", "top_p", "min_p"):
            if not isinstance(getattr(self, name), Real):
                raise AgentError(f"{name} must be a number, got {getattr(self, name)!r}")
        if not self.temperature >= 0:
            raise AgentError(f"temperature must be >= 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise AgentError(f"top_p must be in (0, 1], got {self.top_p}")
        if not isinstance(self.top_k, Integral) or isinstance(self.top_k, bool) or self.top_k < 0:
            raise AgentError(f"top_k must be an integer >= 0, got {self.top_k!r}")
        if not 0 <= self.min_p <= 1:
            raise AgentError(f"min_p must be in [0, 1], got {self.min_p}")
        keep = self.keep_images
        if not isinstance(keep, Integral) or isinstance(keep, bool) or keep < 0:
            raise AgentError(f"keep_images must be an integer >= 0, got {keep!r}")
        if not isinstance(self.image_note, str):
            raise AgentError(f"image_note must be a text, got {self.image_note!r}")
        if isinstance(self.stop, str) or not all(isinstance(stop, str) for stop in self.stop):
            raise AgentError(f"stop must be a tuple of strings, got {self.stop!r}")
        if self.chat is not None and getattr(self.chat, "chat_template", None):
            system = bool(self.prompt.template.system)
            template = ChatTemplate(self.chat, system=system, appends=self.prompt.appends, options=self.chat_options)
            if template.ends_unseen and not self.stop:
                raise PromptError(
                    "the chat template of this tokenizer writes nothing after an answer by which its end could be "
                    'known; set agent.stop, such as ["\\n"], or agent.chat to false'
                )
            object.__setattr__(self, "chat_template", template)
        elif self.chat is not None and self.chat_options:
            raise PromptError(
                f"agent.chat has options ({', '.join(self.chat_options)}), but the tokenizer has no chat template; set "
                "it to false"
            )
        agents = {name: replace(self, parts={}, part=name, **fields) for name, fields in self.parts.items()}
        object.__setattr__(self, "_of_part", agents)

    def for_task(self, task: str) -> Agent:
        """Return the agent that plays a task: itself, or that of the task's part.

        Args:
            task: id of a task, or of an episode.
        """
        return self._of_part[name] if (name := part_of(task, self._of_part)) else self

    @classmethod
    def from_options(
        cls,
        *,
        prompt: str | Mapping[str, object] = "conversation",
        template: str | Mapping[str, object] | Template = PLAIN,
        example: bool = False,
        parts: Mapping[str, Mapping[str, object]] | None = None,
        **options: object,
    ) -> Agent:
        """Return an agent from plain values, such as those of a configuration file.

        Args:
            prompt: name of a prompt builder, or a table of its name and options, ``{"name": "window", "history": 2}``.
            template: name of a template, a table of its strings, or a `Template`.
            example: whether the system message ends with the template's worked turn.
            parts: options that are others for the tasks of a part of a mixture, by the name of the part.
            options: the other fields of `Agent`.

        Raises:
            AgentError: an unknown name or option, or a value out of range.
        """
        whole = {"prompt": prompt, "template": template, "example": example}
        tables = {} if parts is None else parts
        if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
            raise AgentError(f"parts must be a table of tables of options, got {parts!r:.200}")
        different = {name: _different(whole, table) for name, table in tables.items()}
        return cls(**_fields({**whole, **options}), parts=different)

    def parse(self, text: str, *, sampled: bool = True) -> Parsed:
        """Return the action in an answer, or why there is none.

        A stop string that ended it belongs to no action, and a thought that was not closed is none, whether the answer
        or the prompt opened it. A thought that the prompt has closed counts for parsers that want one.

        Args:
            text: the answer.
            sampled: whether it goes on from the prompt of the chat template, as the tokens of a model do, and not the
                text of an expert or a person.
        """
        form = self.chat_template.form if self.chat_template is not None and sampled else PLAIN_FORM
        shown = form.shown(without_stop(text, self.stop), self._parser.reads_reasoning)
        if shown.lstrip().startswith("<think>") and "</think>" not in shown:
            return Parsed(None, "there was no </think>")
        parsed = self._parser.read(shown)
        if parsed.action is None and form.closed and "</think>" not in shown and self._parser.reasoning is not False:
            after = self._parser.read(f"<think></think>{shown}") if shown.strip() else parsed
            return parsed if after.action is None else after
        return parsed

    def answer_text(self, text: str, reasoning: str, max_chars: int | None = None) -> str:
        """Return an answer as one text: with the reasoning before it, if its parser reads reasoning.

        Args:
            text: text of the answer.
            reasoning: that a server returned apart from it; "" if there is none.
            max_chars: length of the whole; the end of a longer reasoning is left out, and never the text.
        """
        if not reasoning.strip() or "</think>" in text:
            return text
        if max_chars is not None:
            reasoning = reasoning[: max(0, max_chars - len(text) - len("<think></think>"))]
        whole = f"<think>{reasoning}</think>{text}"
        return whole if self._parser.reads_reasoning(text, whole) else text

    @property
    def expected(self) -> str:
        """Description of the form of an answer."""
        return self._parser.expected

    def format(self, action: str) -> str:
        """Return an answer that the agent parses as the action."""
        return self._parser.write(action)

    def correction(self, why: str) -> str:
        """Return the reply to an answer that could not be parsed; it becomes the next observation."""
        return self.prompt.template.correction.format(why=why, expected=self.expected)


_BUILT = ("prompt", "template", "example")
"""Options that the prompt builder is made of."""
_OPTIONS = [
    entry.name
    for entry in Agent.__dataclass_fields__.values()
    if entry.init and entry.name not in ("prompt", "annealing", "parts", "part")
]


def _fields(options: Mapping[str, object]) -> JsonObject:
    """Return the fields of an agent with these options, which include those of its prompt builder.

    Raises:
        AgentError: an unknown name or option, or a value of the wrong type.
    """
    names = [*_BUILT, *_OPTIONS]
    for key in options:
        if key not in names:
            raise AgentError(f"an agent has no option {key!r}{suggest(key, names)}")
    for name, kinds, expected in _KINDS:
        if name in options and not isinstance(options[name], kinds):
            raise AgentError(f"{name} must be {expected}, got {options[name]!r}")
    values = {name: value for name, value in options.items() if name not in _BUILT}
    if not isinstance(stop := values.get("stop", ""), str):  # a string is refused with the other values
        values["stop"] = tuple(cast(Sequence[str], stop))
    if "temperature" in values:
        values["temperature"], values["annealing"] = annealed(values["temperature"])
    prompt, template, example = (cast(Any, options[name]) for name in _BUILT)  # checked above
    if not isinstance(example, bool):
        raise AgentError(f"example must be true or false, got {example!r}")
    style = _template(template)
    return {**values, "prompt": _builder(prompt, style.with_example() if example else style)}


def _different(whole: Mapping[str, object], options: Mapping[str, object]) -> JsonObject:
    """Return the fields that options change; a prompt builder is made of the whole agent's options and them."""
    builds = any(name in options for name in _BUILT)
    return {name: value for name, value in _fields({**whole, **options}).items() if builds or name != "prompt"}


def _template(template: str | Mapping[str, object] | Template) -> Template:
    if isinstance(template, Template):
        return template
    return look_up(TEMPLATES, template, PromptError) if isinstance(template, str) else Template.from_mapping(template)


def _builder(prompt: str | Mapping[str, object], template: Template) -> PromptBuilder:
    options = {"name": prompt} if isinstance(prompt, str) else dict(prompt)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise AgentError(f"the prompt must be a name or a table with a name, got {prompt!r}")
    make = look_up(PROMPTS, name)
    names = [option for option in inspect.signature(make).parameters if option != "template"]
    for option in options:
        if option not in names:
            raise AgentError(f"the prompt {name!r} has no option {option!r}{suggest(option, names)}")
    return make(template=template, **options)
