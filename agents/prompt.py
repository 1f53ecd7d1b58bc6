"""From what was seen and done to the next prompt: the `Window` of the last K turns, and the whole `Conversation`.

A prompt is a `Piece` of text: either a whole prompt, or (``extends``) what is appended to the prompt and response of
the turn before, so that what was sampled is never tokenised again. How it reads is data: a `Template`.

Left out on purpose: summaries and other learned memories, images, cutting a prompt that is too long (an episode that
outgrows its model ends and says so; cutting silently would train on prompts that nobody chose).
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from turnwise.agents.chat import ChatFormat, Tokenizer
from turnwise.agents.errors import PromptError, choices
from turnwise.agents.spans import PromptText, Span

SHOWN = 120
"""Most characters of an answer that could not be parsed which a window shows in the place of its action."""


@dataclass(frozen=True, slots=True)
class View:
    """What the agent sees at one turn."""

    start: str
    """The first observation of the episode: it holds the task."""
    observation: str
    """The observation now; at turn 0 the same as ``start``."""
    admissible: tuple[str, ...] | None
    """The actions that are possible now, where the environment can tell."""
    turn: int
    """0 at the first call of the model."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn that is over: what was seen, said and understood."""

    observation: str
    text: str
    action: str | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of a prompt; ``extends``: it is appended to the prompt and response of the turn before."""

    text: str
    extends: bool
    untrusted: tuple[Span, ...] = field(default=(), compare=False)
    """Spans of the text that the template did not write: in them, names of special tokens are words like others."""


@dataclass(frozen=True, slots=True)
class Template:
    """How a prompt reads: format strings, put together as opening, (observation, action)..., observation, question.

    ===========  ===============================================  ============================
    string       what it writes                                    fields
    ===========  ===============================================  ============================
    system       what comes before everything                      none
    opening      the first observation                             start
    saw          a later observation                               observation
    did          an action of an earlier turn (windows only)       action
    gap          that earlier turns are left out (windows only)    skipped
    ask          the question at the end                           admissible, turn
    listing      the admissible actions; "" leaves them out        actions
    separator    what stands between two admissible actions        none
    correction   the answer to what could not be parsed            why, expected
    ===========  ===============================================  ============================
    """

    system: str = ""
    opening: str = "{start}"
    saw: str = "\n{observation}"
    did: str = "\n> {action}"
    gap: str = ""
    ask: str = "\n> "
    listing: str = ""
    separator: str = ", "
    correction: str = "Nothing was done: {why}. Expected: {expected}."

    def __post_init__(self) -> None:
        """Check every field of every string now, not in the middle of an episode."""
        for name, allowed in _FIELDS.items():
            _check(name, getattr(self, name), allowed)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Template:
        """Return a template from a table of strings (TOML); ``base`` names the template that it starts from.

        Raises:
            PromptError: an unknown key, a value that is no string, or an unknown field in a string.

        """
        values = dict(mapping)
        start = template(str(values.pop("base", "plain")))
        known = {entry.name for entry in fields(cls)}
        for key, value in values.items():
            if key not in known:
                raise PromptError(choices("key of a template", key, {*known, "base"}))
            if not isinstance(value, str):
                raise PromptError(f"template.{key} is {value!r}: a string was wanted")
        return cls(**{name: str(values.get(name, getattr(start, name))) for name in known})

    @property
    def lists(self) -> bool:
        """Whether prompts name the admissible actions."""
        return "admissible" in _named(self.ask) and "actions" in _named(self.listing)

    def question(self, view: View) -> PromptText:
        """Return the end of a prompt: the admissible actions, where listed, and the call for an action."""
        listing = PromptText("")
        if self.listing and view.admissible is not None:
            actions = PromptText.joined(map(PromptText.of, view.admissible), self.separator)
            listing = PromptText.filled(self.listing, actions=actions)
        return PromptText.filled(self.ask, admissible=listing, turn=view.turn)


_FIELDS: dict[str, set[str]] = {
    "opening": {"start"},
    "saw": {"observation"},
    "did": {"action"},
    "gap": {"skipped"},
    "ask": {"admissible", "turn"},
    "listing": {"actions"},
    "correction": {"why", "expected"},
}
_NUMBERS = {"skipped", "turn"}


def _check(name: str, text: str, allowed: set[str]) -> None:
    try:
        used = _named(text)
        for entry in sorted(used - allowed):
            raise PromptError(f"template.{name}: {choices('field', entry, allowed)}")
        text.format(**{entry: 0 if entry in _NUMBERS else "" for entry in allowed})
    except (ValueError, LookupError) as error:  # the latter: fields inside the format of a field
        raise PromptError(f"template.{name} is no format string: {error}; write {{{{ for a brace") from error


def _named(form: str) -> set[str]:
    """The fields of a format string."""
    return {part[1] for part in string.Formatter().parse(form) if part[1] is not None}


PLAIN = Template()
"""Nothing but the environment's text and a prompt sign: for small models trained from scratch."""

REACT = Template(
    system="You act in a text environment to reach a goal. You get one observation at a time and answer with one "
    "action at a time.\n\n",
    saw="\n\nObservation: {observation}",
    did="\n\nAction: {action}",
    gap="\n\n({skipped} earlier turns are not shown.)",
    ask="\n\n{admissible}Reason about the next step between <think> and </think>, then give exactly one action between "
    "<action> and </action>.\n",
    listing="Possible actions: {actions}\n",
)
"""Reasoning and one tagged action, with the admissible actions listed: for instruction-tuned models."""

TEMPLATES: dict[str, Template] = {
    "plain": PLAIN,
    "react": REACT,
}


def template(name: str) -> Template:
    """Return a template by name.

    Raises:
        PromptError: there is none of that name; the message has the near name.

    """
    if name not in TEMPLATES:
        raise PromptError(choices("template", name, TEMPLATES))
    return TEMPLATES[name]


@dataclass(frozen=True, slots=True)
class Window:
    """Every prompt is written anew: the first observation, the last ``history`` turns, the present observation."""

    template: Template = PLAIN
    history: int = 3
    """K: how many earlier turns are shown; 0: none."""
    chat: Tokenizer | None = None
    """A tokenizer whose chat template is used, if it has one: the whole prompt is one user message."""
    _format: ChatFormat | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        """Read the chat template once."""
        if self.history < 0:
            raise PromptError(f"history is {self.history}: 0 (none) or more was wanted")
        object.__setattr__(self, "_format", _chat_format(self.chat, self.template, extending=False))

    @property
    def chats(self) -> bool:
        """Whether a chat template writes the prompt."""
        return self._format is not None

    def build(self, memory: Sequence[Exchange], view: View) -> Piece:
        """Return the whole prompt of this turn; ``memory`` holds all earlier turns, oldest first."""
        style = self.template
        skipped = max(0, len(memory) - self.history)
        parts = [PromptText.filled(style.opening, start=view.start)]
        if skipped:
            parts.append(PromptText.filled(style.gap, skipped=skipped))
        for number in range(skipped, len(memory)):
            seen = memory[number]
            if number:  # the first observation stands in the opening already
                parts.append(PromptText.filled(style.saw, observation=seen.observation))
            parts.append(PromptText.filled(style.did, action=_shown(seen)))
        if memory:
            parts.append(PromptText.filled(style.saw, observation=view.observation))
        parts.append(style.question(view))
        return _piece(_opened(self._format, style.system, PromptText.joined(parts)), extends=False)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Every prompt extends the one before and its response: all of the episode is there, word by word."""

    template: Template = PLAIN
    chat: Tokenizer | None = None
    """A tokenizer whose chat template is used, if it has one."""
    _format: ChatFormat | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        """Read the chat template once, and check that it appends only."""
        object.__setattr__(self, "_format", _chat_format(self.chat, self.template, extending=True))

    @property
    def chats(self) -> bool:
        """Whether a chat template writes the prompts."""
        return self._format is not None

    def build(self, memory: Sequence[Exchange], view: View) -> Piece:
        """Return the opening prompt, or what comes after the last response; ``memory`` holds all earlier turns."""
        style = self.template
        question = style.question(view)
        if not memory:
            text = PromptText.filled(style.opening, start=view.start) + question
            return _piece(_opened(self._format, style.system, text), extends=False)
        text = PromptText.filled(style.saw, observation=view.observation) + question
        return _piece(text if self._format is None else self._format.between(text), extends=True)


def _chat_format(tokenizer: Tokenizer | None, style: Template, extending: bool) -> ChatFormat | None:
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        return None
    return ChatFormat(tokenizer, bool(style.system), extending)


def _opened(form: ChatFormat | None, system: str, text: PromptText) -> PromptText:
    return PromptText(system) + text if form is None else form.first(system, text)


def _piece(text: PromptText, extends: bool) -> Piece:
    return Piece(text.text, extends, text.untrusted)


def _shown(seen: Exchange) -> str:
    if seen.action is not None:
        return seen.action
    line = " ".join(seen.text[: 4 * SHOWN].split())
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."
