"""What a conversation cannot say of an episode, as a record beside it: all but texts and token ids.

Formats that allow keys of their own hold it under `turncredit`. Reading fills in the texts from the conversation, and
the token ids where the format has them, so that an episode comes back as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.files.image_store import ImageSource, images_of
from turncredit.agents.files.trajectory_files import from_record, to_record
from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.agents.interchange.conversations import Answers, Demonstration, messages_of
from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Trajectory
from turncredit.former_name import FORMER
from turncredit.task_ids import part_of
from turncredit.tools.bounded_input import InputError

__all__ = [
    "IMAGES",
    "KEY",
    "TOKENS",
    "TOOLS",
    "Advantages",
    "Exported",
    "Origin",
    "TurnTokens",
    "embedded",
    "record_in",
    "restored",
]

KEY: Final = "turncredit"
"""Key of the record in other formats."""

TOKENS: Final = "token ids and log-probabilities"
IMAGES: Final = "images"
TOOLS: Final = "tool definitions"
"""What a format may have no room for."""

_TEXTS: Final = ("observation", "text")
_OF_TOKENS: Final = ("switches", "experts")
_OF_IMAGES: Final = ("images", "shown")
_IDS: Final = ("prompt", "adds", "response", "logprobs")

Advantages = Mapping[str, Sequence[float | None]]
"""By the name of a credit rule: the advantage of each turn, None where the rule gives none."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An episode on its way out.

    Attributes:
        trajectory: the episode.
        iteration: of its run.
        advantages: of its turns.
    """

    trajectory: Trajectory
    iteration: int = 1
    advantages: Advantages = field(default_factory=dict)

    def at(self, turn: int) -> dict[str, float | None]:
        """Return the advantages of a turn by rule."""
        return {rule: values[turn] for rule, values in self.advantages.items()}

    def holds(self, subject: str, origin: Origin) -> bool:
        """Return whether the episode has something for which a format may have no room, such as `IMAGES`."""
        if subject == TOOLS:
            return bool(origin.tools_of(self))
        if subject == IMAGES:
            return next(images_of(self.trajectory), None) is not None
        return any(turn.prompt or turn.response for turn in self.trajectory.turns)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where exported episodes come from.

    Attributes:
        run: name of the run or file.
        environment: id of the environment; empty: unknown.
        model: that played; empty: unknown.
        version: of this program.
        plain: whether keys of our own are left out, for services that refuse them.
        tools: definitions of the tools that the chat template described to the model, by part of a mixture; "" is
            the whole.
        answers: how answers are written.
    """

    run: str
    environment: str = ""
    model: str = ""
    version: str = ""
    plain: bool = False
    tools: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)
    answers: Answers = "parts"

    def tools_of(self, exported: Exported) -> list[JsonObject]:
        """Return the definitions of the tools that the model of an episode had."""
        part = part_of(exported.trajectory.task, self.tools) if self.tools else ""
        return list(self.tools.get(part, self.tools.get("", ())))

    def messages(self, exported: Exported) -> Iterator[ChatMessage]:
        """Yield the messages of an episode, with its answers as they are to be written."""
        return messages_of(exported.trajectory, self.answers)


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """Token ids of a turn, and the log-probabilities of the response."""

    prompt: tuple[int, ...] = ()
    response: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


def embedded(exported: Exported, lacks: Collection[str] = ()) -> dict[str, object]:
    """Return the record of an episode without its texts and token ids, with its advantages and its iteration.

    Args:
        exported: the episode.
        lacks: what the format has no room for: what refers to that is left out.
    """
    record = to_record(exported.trajectory)
    dropped = [*_TEXTS, *_IDS]
    if TOKENS in lacks:
        record.pop("fork_tokens", None)
        dropped += _OF_TOKENS
    if IMAGES in lacks:
        dropped += _OF_IMAGES
    if exported.trajectory.turns:  # else no message holds it
        del record["final_observation"]
    entries = record["turns"]
    assert isinstance(entries, list)
    turns: list[dict[str, object]] = [
        {name: value for name, value in turn.items() if name not in dropped} for turn in entries
    ]
    if exported.advantages:
        turns = [{**turn, "advantages": exported.at(number)} for number, turn in enumerate(turns)]
    return {**record, "iteration": exported.iteration, "turns": turns}


def record_in(fields: Mapping[str, object]) -> object:
    """Return the record that an object of another format holds, also under the project's former name, or None."""
    return fields.get(KEY, fields.get(FORMER))


def restored(
    record: object,
    conversation: Demonstration,
    tokens: Sequence[TurnTokens] = (),
    images: ImageSource | None = None,
) -> Demonstration:
    """Return the episode of a conversation as its record says that it was.

    Args:
        record: from `embedded`, as it was read.
        conversation: its texts.
        tokens: of each turn; (): the format has none.
        images: images to which the record refers; None: they do not come with it, and are left out.

    Raises:
        InputError: the record is damaged, or of another conversation.
    """
    spoken = conversation.trajectory
    if not isinstance(record, dict) or not isinstance(entries := record.get("turns"), list):
        raise InputError(f"the key {KEY!r} must hold the record of an episode, got {str(record)[:80]}")
    if len(entries) != len(spoken.turns) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"the record of {len(entries)} turns is not that of a conversation of {len(spoken.turns)}")
    ids = list(tokens) or [TurnTokens()] * len(entries)
    texts = ((turn.observation, turn.text) for turn in spoken.turns)
    turns = [_filled(entry, pair, own) for entry, pair, own in zip(entries, texts, ids, strict=True)]
    left_out = set(conversation.left_out)
    if images is None and any(name in turn for turn in turns for name in _OF_IMAGES):
        left_out.add(IMAGES)
        turns = [{name: value for name, value in turn.items() if name not in _OF_IMAGES} for turn in turns]
    whole = {"final_observation": spoken.final_observation, **record, "turns": turns}
    if not tokens:
        whole.pop("fork_tokens", None)
    try:
        trajectory = from_record(whole) if images is None else from_record(whole, images)
    except (StoreError, TypeError) as error:
        raise InputError(f"the record under {KEY!r}: {error}") from error
    iteration = record.get("iteration")
    number = iteration if isinstance(iteration, int) and 0 <= iteration < 10**9 else 1
    return replace(
        conversation,
        trajectory=trajectory,
        scored=True,
        stored=True,
        iteration=number,
        left_out=tuple(sorted(left_out)),
    )


def _filled(entry: JsonObject, texts: tuple[str, str], tokens: TurnTokens) -> dict[str, object]:
    """Return the record of a turn with its texts and token ids."""
    dropped = ("advantages",) if tokens.response else ("advantages", *_OF_TOKENS)
    filled = {name: value for name, value in entry.items() if name not in dropped}
    ids = {"prompt": list(tokens.prompt), "response": list(tokens.response), "logprobs": list(tokens.logprobs)}
    return {**filled, **dict(zip(_TEXTS, texts, strict=True)), **ids}
