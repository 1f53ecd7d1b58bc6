"""STS, the Session Trace Simple Format that the Hugging Face Hub renders: one file of JSON lines an episode.

    {"type": "session", "harness": "turncredit", "id": ..., "name": ...}
    {"type": "message", "message": {"role": ..., "content": ..., "reasoningContent": ..., "toolCalls": [...]}}

A header may hold further keys, which the Hub ignores; the record of the episode is one of them.

Source: Hugging Face, Hub documentation, "Session Traces Format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.chat_records import read_call
from turncredit.agents.interchange.conversations import (
    ChatMessage,
    Demonstration,
    conversation_trajectory,
    messages_of,
    role_of,
)
from turncredit.agents.interchange.folders import episode_file, files_in
from turncredit.agents.interchange.records import KEY, Exported, Origin, embedded, record_in, restored
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Fields, read_records
from turncredit.tools.visible_text import json_text

__all__ = ["read_sts", "write_sts"]

HARNESS: Final = "turncredit"


def write_sts(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write a folder with one session for each episode."""
    path.mkdir()
    for number, exported in enumerate(episodes):
        trajectory = exported.trajectory
        header = {"type": "session", "harness": HARNESS, "id": trajectory.id, "name": trajectory.task}
        lines = [header if origin.plain else {**header, KEY: embedded(exported)}]
        lines += [
            {"type": "message", "message": _message(message, origin.model)} for message in messages_of(trajectory)
        ]
        file = episode_file(path, number, trajectory.id, ".jsonl")
        file.write_bytes(b"".join(json_text(line, compact=True).encode("ascii") + b"\n" for line in lines))


def _message(message: ChatMessage, model: str) -> dict[str, object]:
    entry: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning:
        entry["reasoningContent"] = message.reasoning
    if message.calls:
        entry["toolCalls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": json_text(call.arguments)}}
            for call in message.calls
        ]
    if message.call:
        entry["toolCallId"] = message.call
    return {**entry, "model": model} if model and message.role == "assistant" else entry


def read_sts(path: Path) -> Iterator[Demonstration]:
    """Yield the sessions of a file, or of all files of a folder.

    Raises:
        StoreError: a file is damaged, or holds something else.
    """
    for file in files_in(path, ".jsonl", ".jsonl.gz"):
        header: Fields | None = None
        messages: list[JsonObject] = []
        for record in read_records(file, max_bytes=None):
            kind = record.fields.get("type")
            if record.problem or (header is None and kind != "session"):
                got = record.problem or f'expected a header with "type": "session", got {str(record.fields)[:80]}'
                raise StoreError(f"{file}, line {record.number}: {got}")
            if kind == "session":
                if header is not None:
                    yield _episode(file, header, messages)
                header, messages = record.fields, []
            elif kind == "message" and isinstance(record.fields.get("message"), dict):
                messages.append(record.fields["message"])
        if header is not None:
            yield _episode(file, header, messages)


def _episode(file: Path, header: Fields, messages: list[JsonObject]) -> Demonstration:
    try:
        talk = map(_said, messages)
        record = record_in(header)
        episode = conversation_trajectory(talk, str(header.get("id", file.stem)), empty=record is not None)
        return episode if record is None else restored(record, episode)
    except InputError as error:
        raise StoreError(f"{file}: {error}") from error


def _said(message: JsonObject) -> ChatMessage:
    role, content = role_of(message.get("role")), message.get("content") or ""
    if not isinstance(content, str):
        raise InputError(f"the content of a message must be text, got {type(content).__name__}")
    if role != "assistant":
        return ChatMessage(role, content)
    reasoning, calls = message.get("reasoningContent"), message.get("toolCalls")
    entries = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    written = tuple(read_call(call.get("function")) for call in entries)
    return ChatMessage(role, content, reasoning if isinstance(reasoning, str) else "", written)
