"""Prompt builders: which earlier turns the next prompt shows.

    conversation   each turn adds one user message; the prompt holds the whole episode
    window         one user message with the last turns, rebuilt at each turn

`PROMPTS` finds a builder by name, by entry point (group ``turncredit.prompts``), or as "module:attribute". A builder is
made with the keyword argument ``template`` and its own options.

Not included: summaries and other learned memories, and shortened prompts. An episode whose prompt no longer fits its
model ends as ``tokens``, since a prompt that was cut silently would be trained on as if it were whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, cast

from turncredit.agents.content import Content, ImagePart, TextPart
from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.trusted_text import PromptText
from turncredit.agents.prompts.templates import PLAIN, Template
from turncredit.registry import Registry
from turncredit.tools.visible_text import shortened

__all__ = ["PROMPTS", "Conversation", "Exchange", "PromptBuilder", "View", "Window"]

MAX_SHOWN_CHARS = 120
"""Longest excerpt of an answer without an action that a window shows."""
MAX_ANSWER_CHARS = 2000
"""Longest beginning of an answer that a window of answers shows."""


@dataclass(frozen=True, slots=True)
class View:
    """What the agent sees at one turn."""

    start: str
    """The first observation of the episode, which states the task."""
    observation: str
    """The current observation; at turn 0 the same as ``start``."""
    admissible: tuple[str, ...] | None
    """The actions that are possible now, if the environment lists them."""
    turn: int
    """Index of the turn, from 0."""
    free: tuple[str, ...] = ()
    """Forms of further actions that cannot be listed, such as "search[...]" (see `turncredit.envs.info.fits`)."""
    valid: bool | None = None
    """Whether the environment accepted the previous action; None if it did not say."""
    images: tuple[ImagePart, ...] = ()
    tools: tuple[JsonObject, ...] = field(default=(), hash=False)
    """Schemas of the environment's functions, if it leaves their description to the model's server."""
    results: tuple[str, ...] = ()
    """The results of the calls in the previous action, one for each, as they are; () if the environment has none."""

    @property
    def content(self) -> Content:
        """The current observation as parts."""
        return (TextPart(self.observation), *self.images)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn of the past: the observation, the answer, and the action in it (None if there was none)."""

    observation: str
    text: str
    action: str | None
    message: JsonObject | None = field(default=None, hash=False)
    """The answer as a server's message; None if it came in another way."""
    results: tuple[str, ...] = ()
    """The results in the observation; see `View.results`."""


class PromptBuilder(Protocol):
    """Writes the user messages of an episode.

    Attributes:
        template: the format strings that it fills in.
        appends: whether each message follows the earlier ones and their answers; if not, it replaces them.
    """

    @property
    def template(self) -> Template:
        """The format strings."""

    @property
    def appends(self) -> bool:
        """Whether messages accumulate."""

    def message(self, memory: Sequence[Exchange], view: View) -> PromptText:
        """Return the next user message; `memory` holds all earlier turns, oldest first."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One user message for each turn: every prompt extends the one before and its response."""

    template: Template = PLAIN
    appends: ClassVar[bool] = True

    def message(self, memory: Sequence[Exchange], view: View) -> PromptText:
        """Return the opening, or the observation that followed the last answer."""
        style = self.template
        if memory:
            text = PromptText.filled(style.saw, observation=view.observation)
        else:
            text = PromptText.filled(style.opening, start=view.start)
        return text + style.question(view.admissible, view.turn, view.free)


@dataclass(frozen=True, slots=True)
class Window:
    """One user message, rebuilt at each turn: the first observation, the last turns, the current observation."""

    template: Template = PLAIN
    history: int = 3
    """K: how many earlier turns are shown, from 0."""
    answers: bool = False
    """Whether an earlier turn is shown as the model's whole answer, and not as the action in it."""
    appends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the number of turns."""
        if self.history < 0:
            raise PromptError(f"history must be >= 0, got {self.history}")
        if not isinstance(self.answers, bool):
            raise PromptError(f"answers must be true or false, got {self.answers!r}")

    def message(self, memory: Sequence[Exchange], view: View) -> PromptText:
        """Return the message of this turn."""
        style = self.template
        skipped = max(0, len(memory) - self.history)
        parts = [PromptText.filled(style.opening, start=view.start)]
        if skipped:
            parts.append(PromptText.filled(style.gap, skipped=skipped))
        for number in range(skipped, len(memory)):
            past = memory[number]
            if number:  # the opening already shows the first observation
                parts.append(PromptText.filled(style.saw, observation=past.observation))
            did = past.text.strip()[:MAX_ANSWER_CHARS] if self.answers else _shown(past)
            parts.append(PromptText.filled(style.did, action=did))
        if memory:
            parts.append(PromptText.filled(style.saw, observation=view.observation))
        return PromptText.joined([*parts, style.question(view.admissible, view.turn, view.free)])


def _shown(past: Exchange) -> str:
    if past.action is not None:
        return past.action
    line = " ".join(past.text[: 4 * MAX_SHOWN_CHARS].split())
    return shortened(line, MAX_SHOWN_CHARS)


MakePrompt = Callable[..., PromptBuilder]


def _adapt(name: str, loaded: object) -> MakePrompt:
    if not callable(loaded):
        raise TypeError(f"the prompt {name!r} must be a class or a function, got {type(loaded).__name__}")
    return cast(MakePrompt, loaded)


PROMPTS: Registry[MakePrompt] = Registry("prompt", group="turncredit.prompts", adapt=_adapt)
PROMPTS.register("conversation", Conversation)
PROMPTS.register("window", Window)
