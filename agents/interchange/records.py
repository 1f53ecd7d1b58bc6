"""What a conversation cannot say of an episode, as a record beside it: all but texts and token ids.

Formats that allow keys of their own hold it under `turncredit`. Reading fills in the texts from the conversation, and
the token ids where the format has them, so that an episode comes back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import from_record, to_record
from turncredit.agents.interchange.conversations import Demonstration
from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Trajectory
from turncredit.former_name import FORMER
from turncredit.tools.bounded_input import InputError

__all__ = ["KEY", "Advantages", "Exported", "Origin", "TurnTokens", "embedded", "record_in", "restored"]

KEY: Final = "turncredit"
"""Key of the record in other formats."""

_TEXTS: Final = ("observation", "text")
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where exported episodes come from.

    Attributes:
        run: name of the run or file.
        environment: id of the environment; empty: unknown.
        model: that played; empty: unknown.
        version: of this program.
        plain: whether keys of our own are left out, for services that refuse them.
    """

    run: str
    environment: str = ""
    model: str = ""
    version: str = ""
    plain: bool = False


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """Token ids of a turn, and the log-probabilities of the response."""

    prompt: tuple[int, ...] = ()
    response: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


def embedded(exported: Exported) -> dict[str, object]:
    """Return the record of an episode without its texts and token ids, with its advantages and its iteration."""
    record = to_record(exported.trajectory)
    if exported.trajectory.turns:  # else no message holds it
        del record["final_observation"]
    entries = record["turns"]
    assert isinstance(entries, list)
    turns: list[dict[str, object]] = [
        {name: value for name, value in turn.items() if name not in (*_TEXTS, *_IDS)} for turn in entries
    ]
    if exported.advantages:
        turns = [{**turn, "advantages": exported.at(number)} for number, turn in enumerate(turns)]
    return {**record, "iteration": exported.iteration, "turns": turns}


def record_in(fields: Mapping[str, object]) -> object:
    """Return the record that an object of another format holds, also under the project's former name, or None."""
    return fields.get(KEY, fields.get(FORMER))


def restored(record: object, conversation: Demonstration, tokens: Sequence[TurnTokens] = ()) -> Demonstration:
    """Return the episode of a conversation as its record says that it was.

    Args:
        record: from `embedded`, as it was read.
        conversation: its texts.
        tokens: of each turn; (): the format has none.

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
    try:
        trajectory = from_record({"final_observation": spoken.final_observation, **record, "turns": turns})
    except (StoreError, TypeError) as error:
        raise InputError(f"the record under {KEY!r}: {error}") from error
    iteration = record.get("iteration")
    number = iteration if isinstance(iteration, int) and 0 <= iteration < 10**9 else 1
    return replace(conversation, trajectory=trajectory, scored=True, stored=True, iteration=number)


def _filled(entry: JsonObject, texts: tuple[str, str], tokens: TurnTokens) -> dict[str, object]:
    """Return the record of a turn with its texts and token ids."""
    filled = {name: value for name, value in entry.items() if name != "advantages"}
    if not tokens.response:
        filled.pop("switches", None)
    ids = {"prompt": list(tokens.prompt), "response": list(tokens.response), "logprobs": list(tokens.logprobs)}
    return {**filled, **dict(zip(_TEXTS, texts, strict=True)), **ids}
