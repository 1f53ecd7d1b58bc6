"""The agent: how prompts are built, how answers are read, and the limits of one episode. It holds no weights.

What is left out on purpose: the model (a sampler), the environment, and the loop that joins them (`rollout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from turnwise.agents.chat import Tokenizer, codec_of
from turnwise.agents.errors import AgentError, choices
from turnwise.agents.parse import Parser, parser
from turnwise.agents.prompt import PLAIN, Conversation, Piece, Template, Window, template

Build = Window | Conversation


@dataclass(frozen=True)
class Agent:
    """Everything between a model and an environment that is not learned."""

    prompt: Build = field(default_factory=Conversation)
    parser: str = "bare"
    max_turns: int = 50
    """Most turns of an episode, counting those that could not be parsed."""
    max_tokens: int = 32
    """Most tokens of one response."""
    temperature: float = 1.0
    """0: the most likely token."""
    top_p: float = 1.0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values with which no episode could be played."""
        parser(self.parser)
        _positive("max_turns", self.max_turns)
        _positive("max_tokens", self.max_tokens)
        if not self.temperature >= 0:
            raise AgentError(f"temperature is {self.temperature}: 0 (greedy) or more was wanted")
        if not 0 < self.top_p <= 1:
            raise AgentError(f"top_p is {self.top_p}: more than 0 and at most 1 was wanted")

    @classmethod
    def from_options(
        cls,
        *,
        prompt: str = "conversation",
        history: int = 3,
        template: str | Mapping[str, object] | Template = PLAIN,
        chat: Tokenizer | None = None,
        **limits: object,
    ) -> Agent:
        """Return an agent from plain values, as a configuration has them.

        Args:
            prompt: ``window`` (the last ``history`` turns) or ``conversation`` (all of them).
            history: K of the window.
            template: name of a template, a table of its strings, or a `Template`.
            chat: a tokenizer whose chat template is used, if it has one.
            limits: the other fields of `Agent`: parser, max_turns, max_tokens, temperature, top_p, stop.

        Raises:
            AgentError: an unknown name, with the near one; a value out of its range.

        """
        style = _template(template)
        if prompt not in ("window", "conversation"):
            raise AgentError(choices("prompt", prompt, ("window", "conversation")))
        for key in limits:
            if key not in cls.__dataclass_fields__ or key == "prompt":
                raise AgentError(choices("option of the agent", key, cls.__dataclass_fields__))
        build: Build = Window(style, history, chat) if prompt == "window" else Conversation(style, chat)
        values = cast(dict[str, Any], limits)
        return cls(prompt=build, **{**values, "stop": tuple(values.get("stop", ()))})

    @property
    def reads(self) -> Parser:
        """The parser of the answers."""
        return parser(self.parser)

    def encode(self, piece: Piece, previous: Sequence[int], tokenizer: Tokenizer) -> tuple[int, ...]:
        """Return the ids of the whole prompt, int [L].

        Args:
            piece: what the prompt builder made.
            previous: ids [L'] of prompt and response of the turn before, as given and sampled; empty at the first.
            tokenizer: the sampler's.

        Returns:
            ``previous`` followed by the ids of the piece where it extends, else the ids of the piece. An end token
            that both end ``previous`` and start the piece (chat templates write it) is there once.

        """
        codec = codec_of(tokenizer)
        new = codec.encode(piece.text, piece.untrusted)
        if not piece.extends:
            # a chat template writes its own beginning
            return new if self.prompt.chats else codec.start + new
        if previous and new and previous[-1] == new[0] and new[0] in codec.ends:
            new = new[1:]
        return (*previous, *new)

    def correction(self, why: str) -> str:
        """Return what is said to a model whose answer could not be parsed: it becomes the next observation."""
        return self.prompt.template.correction.format(why=why, expected=self.reads.expected)


def _template(given: str | Mapping[str, object] | Template) -> Template:
    if isinstance(given, Template):
        return given
    return template(given) if isinstance(given, str) else Template.from_mapping(given)


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise AgentError(f"{name} is {value}: 1 or more was wanted")
