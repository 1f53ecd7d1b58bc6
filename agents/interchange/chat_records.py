"""Records of conversations, one a line: which keys hold the messages, and who speaks.

    chat        {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
    ShareGPT    {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}
    AgentGym    the same with {"item_id"}, and {"loss": false} at answers that are not imitated
    TRL         {"prompt", "completion"}: texts, or lists of messages
    Alpaca      {"instruction", "input", "output"}

A system message stands at the beginning of the first observation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.conversations import (
    ChatMessage,
    Demonstration,
    conversation_trajectory,
    messages_of,
    role_of,
)
from turncredit.agents.interchange.records import KEY, Exported, Origin, TurnTokens, embedded, record_in, restored
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError, parse_json
from turncredit.tools.functions import BadCall, Call
from turncredit.tools.readers import Fields, Record, RecordFormat, RecordFormats, read_records
from turncredit.tools.visible_text import json_text

__all__ = [
    "DEMONSTRATION_FORMATS",
    "TOKEN_COLUMNS",
    "chat_message",
    "read_call",
    "read_chat",
    "read_conversations",
    "read_record",
    "write_chat",
]

TOKEN_COLUMNS: Final = ("prompt_ids", "response_ids", "logprobs")
"""Columns of tables with the token ids of each turn."""

_IDS: Final = ("item_id", "id", "task_id", "conversation_id", "idx")


def read_chat(path: Path) -> Iterator[Demonstration]:
    """Yield the episodes of a file with messages as in the OpenAI API."""
    return _episodes(path, "chat")


def read_conversations(path: Path) -> Iterator[Demonstration]:
    """Yield the episodes of a file of ShareGPT or AgentGym."""
    return _episodes(path, "ShareGPT and AgentGym")


def write_chat(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write one line for each episode, with its messages as in the OpenAI API."""
    with path.open("wb") as file:
        for exported in episodes:
            messages = [chat_message(message) for message in messages_of(exported.trajectory)]
            record = {} if origin.plain else {"id": exported.trajectory.id, KEY: embedded(exported)}
            file.write(json_text({"messages": messages, **record}, compact=True).encode("ascii") + b"\n")


def chat_message(message: ChatMessage) -> dict[str, object]:
    """Return a message as in the OpenAI API."""
    entry: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    if message.calls:
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json_text(call.arguments)}}
            for call in message.calls
        ]
    return {**entry, "tool_call_id": message.call} if message.call else entry


def _episodes(path: Path, name: str) -> Iterator[Demonstration]:
    (only,) = (candidate for candidate in DEMONSTRATION_FORMATS.formats if candidate.name == name)
    formats = RecordFormats("a conversation", only)
    for record in read_records(path, max_bytes=None):
        yield read_record(path, record, formats)


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
        raise StoreError(f"{path}, {record.prefix or f'line {record.number}: '}{error}") from error


def _chat(fields: Fields, id: str) -> Demonstration:
    return _demonstration(fields, id, fields["messages"])


def _sharegpt(fields: Fields, id: str) -> Demonstration:
    messages = fields["conversations"]
    system = fields.get("system")
    if isinstance(system, str) and system.strip() and isinstance(messages, list):
        messages = [{"from": "system", "value": system}, *messages]
    return _demonstration(fields, id, messages)


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
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InputError(f"the messages must be a list of objects, got {str(messages)[:80]}")
    name = next((str(fields[key]) for key in _IDS if isinstance(fields.get(key), str | int)), id)
    task = fields.get("task")
    talk = (_said(message) for message in messages)
    named, record = task if isinstance(task, str) else "", record_in(fields)
    episode = conversation_trajectory(talk, name, task=named, score=_score(fields), empty=record is not None)
    return episode if record is None else restored(_record(record), episode, _tokens(fields))


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


def _said(message: JsonObject) -> ChatMessage:
    name = message.get("role", message.get("from"))
    role, content = role_of(name), _content(message)
    if role != "assistant":
        return ChatMessage(role, content)
    reasoning = message.get("reasoning_content")
    imitated = message.get("loss") is not False and message.get("weight") != 0
    if str(name).lower() == "function_call":
        return ChatMessage(role, "", calls=(read_call(parse_json(content, "a function call")),), imitated=imitated)
    calls = message.get("tool_calls")
    entries = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    written = tuple(read_call(call.get("function", call)) for call in entries)
    return ChatMessage(role, content, reasoning if isinstance(reasoning, str) else "", written, imitated=imitated)


def _content(message: JsonObject) -> str:
    content = message.get("content", message.get("value"))
    if content is None:
        return ""
    if isinstance(content, list):
        others = [part for part in content if not (isinstance(part, dict) and isinstance(part.get("text"), str))]
        if others:
            raise InputError(f"a message has a part that is no text: {str(others[0])[:80]}")
        return "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise InputError(f"the content of a message must be text, got {type(content).__name__}")
    return content


def read_call(call: object) -> Call:
    """Return the call of an object with a name and arguments, which may be JSON in a string.

    Raises:
        InputError: it is no call.
    """
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise InputError(f"a tool call must have a name and arguments, got {str(call)[:80]}")
    arguments = call.get("arguments")
    arguments = parse_json(arguments, "the arguments of a call") if isinstance(arguments, str) else arguments or {}
    if not isinstance(arguments, dict):
        raise InputError(f"the arguments of {call['name']} must be an object, got {json.dumps(arguments)[:80]}")
    return Call(call["name"], arguments)


def _score(fields: Fields) -> float | None:
    """Return the score that a record states; None if it states none."""
    for name in ("won", "success", "score", "reward"):
        value = fields.get(name)
        if isinstance(value, bool | int | float):
            return float(value)
    return None


def _has(*names: str) -> Callable[[Fields], bool]:
    return lambda fields: set(names) <= fields.keys()


DEMONSTRATION_FORMATS: Final[RecordFormats[Demonstration]] = RecordFormats(
    "a demonstration",
    RecordFormat("chat", "messages", _has("messages"), _chat),
    RecordFormat("ShareGPT and AgentGym", "conversations", _has("conversations"), _sharegpt),
    RecordFormat("TRL", "prompt, completion", _has("prompt", "completion"), _completion),
    RecordFormat("Alpaca", "instruction, output", _has("instruction", "output"), _alpaca),
)
"""Formats of conversations."""
