"""Records of conversations, one a line: which keys hold the messages, and who speaks.

    chat        {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
    ShareGPT    {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}
    AgentGym    the same with {"item_id"}, and {"loss": false} at answers that are not imitated
    TRL         {"prompt", "completion"}: texts, or lists of messages; so do verifiers
    Alpaca      {"instruction", "input", "output"}

A list of messages may also be JSON in a string. A system message stands at the beginning of the first observation.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.files.image_store import HeldImages
from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.agents.interchange.chat_objects import chat_message, read_messages
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, place_of, raise_it, records_of
from turncredit.agents.interchange.outcomes import outcome_in
from turncredit.agents.interchange.records import (
    IMAGES,
    KEY,
    TOKENS,
    TOOLS,
    Exported,
    Origin,
    TurnTokens,
    embedded,
    record_in,
    restored,
)
from turncredit.tools.bounded_input import InputError, parse_json
from turncredit.tools.functions import BadCall
from turncredit.tools.readers import Fields, Record, RecordFormat, RecordFormats
from turncredit.tools.readers.parquet_process import BASE64
from turncredit.tools.visible_text import json_text

__all__ = [
    "COMPLETION_EXAMPLE",
    "DEMONSTRATION_FORMATS",
    "LACKS",
    "SHAREGPT_EXAMPLE",
    "TOKEN_COLUMNS",
    "read_chat",
    "read_completions",
    "read_conversations",
    "read_record",
    "write_chat",
]

LACKS: Final = (TOKENS, IMAGES)
"""What lines of chat messages have no room for."""

TOKEN_COLUMNS: Final = ("prompt_ids", "response_ids", "logprobs")
"""Columns of tables with the token ids of each turn."""

_IDS: Final = ("item_id", "id", "task_id", "instance_id", "example_id", "conversation_id", "idx")
_TASKS: Final = ("task_id", "instance_id", "example_id")

SHAREGPT_EXAMPLE: Final[Fields] = {
    "item_id": "house_1",
    "conversations": [
        {"from": "human", "value": "You see a door."},
        {"from": "gpt", "value": "Hm.", "loss": False},
        {"from": "human", "value": "Nothing happens."},
        {"from": "function_call", "value": '[{"name": "open", "arguments": {"what": "door"}}]'},
        {"from": "observation", "value": "It is open."},
        {"from": "gpt", "value": "Done.", "loss": True},
    ],
}
"""A record of ShareGPT, with the keys of AgentGym."""

COMPLETION_EXAMPLE: Final[Fields] = {
    "example_id": 7,
    "task": "doors",
    "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "You see a door."}],
    "completion": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "open", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "It is open."},
        {"role": "assistant", "content": "Done."},
    ],
    "reward": 0.5,
}
"""A rollout of verifiers."""


def read_chat(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a file with messages as in the OpenAI API."""
    return _episodes(path, "chat", refuse)


def read_conversations(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a file of ShareGPT or AgentGym."""
    return _episodes(path, "ShareGPT and AgentGym", refuse)


def read_completions(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a file with prompts and completions, as TRL and verifiers have them."""
    return _episodes(path, "TRL and verifiers", refuse)


def write_chat(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write one line for each episode, with its messages for chat templates, or as in the OpenAI API."""
    as_text = origin.answers == "api"
    with path.open("wb") as file:
        for exported in episodes:
            messages = [chat_message(message, arguments_as_text=as_text) for message in origin.messages(exported)]
            tools = {"tools": defined} if (defined := origin.tools_of(exported)) else {}
            record = {} if origin.plain else {"id": exported.trajectory.id, KEY: embedded(exported, LACKS)}
            file.write(json_text({"messages": messages, **tools, **record}, compact=True).encode("ascii") + b"\n")


def _episodes(path: Path, name: str, refuse: Refuse) -> Iterator[Demonstration]:
    (only,) = (candidate for candidate in DEMONSTRATION_FORMATS.formats if candidate.name == name)
    formats = RecordFormats("a conversation", only)
    for record in records_of(path, refuse):
        try:
            yield read_record(path, record, formats)
        except StoreError as error:
            refuse(error)


def read_record(path: Path, record: Record, formats: RecordFormats[Demonstration] | None = None) -> Demonstration:
    """Return the episode of a record.

    Args:
        path: the file, for messages.
        record: one of its records.
        formats: those that it may have; None: all.

    Raises:
        StoreError: it is damaged, or has another format.
    """
    try:
        if record.problem:
            raise InputError(record.problem)
        return (formats or DEMONSTRATION_FORMATS).read(record.fields, f"line_{record.number}")
    except (InputError, BadCall) as error:
        raise StoreError(f"{path}, {place_of(record)}: {error}") from error


def _chat(fields: Fields, id: str) -> Demonstration:
    return _demonstration(fields, id, fields["messages"])


def _sharegpt(fields: Fields, id: str) -> Demonstration:
    return _demonstration(fields, id, fields["conversations"])


def _completion(fields: Fields, id: str) -> Demonstration:
    prompt, completion = (
        value if isinstance(value, list) else [{"role": role, "content": value}]
        for role, value in (("user", fields["prompt"]), ("assistant", fields["completion"]))
    )
    return _demonstration(fields, id, [*prompt, *completion])


def _alpaca(fields: Fields, id: str) -> Demonstration:
    asked = "\n\n".join(str(fields[name]) for name in ("instruction", "input") if fields.get(name))
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": fields["output"]}]
    return _demonstration(fields, id, messages)


def _demonstration(fields: Fields, id: str, messages: object) -> Demonstration:
    left_out = {TOOLS} if fields.get("tools") else set[str]()
    talk = list(read_messages(messages, left_out))
    system = fields.get("system")
    if isinstance(system, str) and system.strip() and not any(message.role == "system" for message in talk):
        talk.insert(0, ChatMessage("system", system))
    name = next((str(fields[key]) for key in _IDS if isinstance(fields.get(key), str | int)), id)
    task, kind = _task(fields)
    record = record_in(fields)
    outcome = outcome_in(fields)
    episode = conversation_trajectory(talk, name, task=task, task_type=kind, score=outcome, empty=record is not None)
    episode = replace(episode, left_out=tuple(sorted(left_out)))
    if record is None:
        return episode
    return restored(_record(record), episode, _tokens(fields), _images(fields))


def _task(fields: Fields) -> tuple[str, str | None]:
    """Return the id of the task and its kind.

    The key `task` is the id where a seed stands beside it, as in our own data sets; others call the kind of task so.
    """
    for key in _TASKS:
        if isinstance(value := fields.get(key), str | int):
            return str(value), _kind(fields, "task_type", "task", "category")
    if isinstance(task := fields.get("task"), str) and isinstance(fields.get("seed"), int):
        return task, _kind(fields, "task_type")
    return "", _kind(fields, "task_type", "task", "category")


def _kind(fields: Fields, *names: str) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), None)


def _record(value: object) -> object:
    """Return the record of an episode, which tables hold as JSON."""
    return parse_json(value, f"the column {KEY!r}") if isinstance(value, str) else value


def _tokens(fields: Fields) -> list[TurnTokens]:
    """Return the token ids in the columns of a table; [] if there are none."""
    columns = [fields.get(name) for name in TOKEN_COLUMNS]
    if not all(isinstance(column, list) for column in columns):
        return []
    try:
        return [TurnTokens(*map(tuple, ids)) for ids in zip(*columns, strict=True)]
    except (TypeError, ValueError) as error:
        raise InputError(f"the columns {', '.join(TOKEN_COLUMNS)} must hold one list for each turn") from error


def _images(fields: Fields) -> HeldImages | None:
    """Return the images in the column of a table, as `datasets` stores them; None if there is none."""
    column = fields.get("images")
    if not isinstance(column, list):
        return None
    files = {}
    for entry in column:
        data, name = (entry.get("bytes"), entry.get("path")) if isinstance(entry, dict) else (None, None)
        if isinstance(data, str) and isinstance(name, str) and data.startswith(BASE64):
            try:
                files[name.removesuffix(".png")] = b64decode(data.removeprefix(BASE64))
            except ValueError as error:
                raise InputError(f"the image {name[:80]} is not base64: {error}") from error
    return HeldImages(files)


def _has(*names: str) -> Callable[[Fields], bool]:
    return lambda fields: set(names) <= fields.keys()


DEMONSTRATION_FORMATS: Final[RecordFormats[Demonstration]] = RecordFormats(
    "a demonstration",
    RecordFormat("chat", "messages", _has("messages"), _chat),
    RecordFormat("ShareGPT and AgentGym", "conversations", _has("conversations"), _sharegpt),
    RecordFormat("TRL and verifiers", "prompt, completion", _has("prompt", "completion"), _completion),
    RecordFormat("Alpaca", "instruction, output", _has("instruction", "output"), _alpaca),
)
"""Formats of conversations."""
