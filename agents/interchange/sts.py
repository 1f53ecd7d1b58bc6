"""STS, the Session Trace Simple Format that the Hugging Face Hub renders: one file of JSON lines an episode.

    {"type": "session", "harness": "turncredit", "id": ..., "name": ...}
    {"type": "message", "message": {"role": ..., "content": ..., "reasoningContent": ..., "toolCalls": [...]}}

A header may hold further keys, which the Hub ignores; the record of the episode is one of them.

Source: Hugging Face, Hub documentation, "Session Traces Format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.chat_message import ChatMessage, role_of
from turncredit.agents.interchange.chat_objects import read_call, text_of_parts
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, episode_file, files_in, raise_it, records_of
from turncredit.agents.interchange.outcomes import outcome_in
from turncredit.agents.interchange.records import (
    IMAGES,
    KEY,
    TOKENS,
    TOOLS,
    Exported,
    Origin,
    embedded,
    record_in,
    restored,
)
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Fields
from turncredit.tools.visible_text import json_text

__all__ = ["LACKS", "read_sts", "write_sts"]

LACKS: Final = (TOKENS, IMAGES, TOOLS)
"""What a session has no room for."""

HARNESS: Final = "turncredit"


def write_sts(episodes: Iterable[Exported], path: Path, origin: Origin) -> None:
    """Write a folder with one session for each episode."""
    path.mkdir()
    for number, exported in enumerate(episodes):
        trajectory = exported.trajectory
        header = {"type": "session", "harness": HARNESS, "id": trajectory.id, "name": trajectory.task}
        lines = [header if origin.plain else {**header, KEY: embedded(exported, LACKS)}]
        lines += [
            {"type": "message", "message": _message(message, origin.model)} for message in origin.messages(exported)
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


def read_sts(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the sessions of a file, or of all files of a folder.

    Args:
        path: the file or the folder.
        refuse: called with each session that cannot be read.

    Raises:
        StoreError: a file is damaged, or holds something else.
    """
    for file in files_in(path, ".jsonl", ".jsonl.gz"):
        for header, messages in _sessions(file, refuse):
            try:
                yield _episode(header, messages, file.stem)
            except InputError as error:
                refuse(StoreError(f"{file}: {error}"))


def _sessions(file: Path, refuse: Refuse) -> Iterator[tuple[Fields, list[JsonObject]]]:
    """Yield the header and the messages of each session of a file."""
    header: Fields | None = None
    messages: list[JsonObject] = []
    for record in records_of(file, refuse):
        kind = record.fields.get("type")
        if header is None and kind != "session":
            got = f'expected a header with "type": "session", got {str(record.fields)[:80]}'
            refuse(StoreError(f"{file}, line {record.number}: {got}"))
            return
        if kind == "session":
            if header is not None:
                yield header, messages
            header, messages = record.fields, []
        elif kind == "message" and isinstance(record.fields.get("message"), dict):
            messages.append(record.fields["message"])
    if header is not None:
        yield header, messages


def _episode(header: Fields, messages: list[JsonObject], name: str) -> Demonstration:
    left_out = {TOOLS} if header.get("tools") else set[str]()
    talk = [_said(message, left_out) for message in messages]
    record = record_in(header)
    episode = conversation_trajectory(
        talk, str(header.get("id", name)), score=outcome_in(header), empty=record is not None
    )
    episode = replace(episode, left_out=tuple(sorted(left_out)))
    return episode if record is None else restored(record, episode)


def _said(message: JsonObject, left_out: set[str]) -> ChatMessage:
    role, content = role_of(message.get("role")), text_of_parts(message.get("content"), left_out)
    if role != "assistant":
        call = message.get("toolCallId")
        return ChatMessage(role, content, call=call if role == "tool" and isinstance(call, str) else "")
    reasoning, calls = message.get("reasoningContent"), message.get("toolCalls")
    entries = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    written = tuple(map(read_call, entries))
    return ChatMessage("assistant", content, reasoning if isinstance(reasoning, str) else "", written)
