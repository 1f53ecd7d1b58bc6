"""Trajectories of SWE-agent, NAME.traj, and of mini-SWE-agent, NAME.traj.json: a JSON document an episode.

    {"trajectory": [...], "history": [{"role", "content", "message_type", ...}], "info": {"exit_status", ...}}
    {"messages": [...], "info": {"exit_status", "submission"}, "trajectory_format": "mini-swe-agent-1.1"}

`history` and `messages` are what the model saw and said. Demonstrations that were put before the task are not imitated.
Neither program knows whether a patch resolves its issue: an episode that ended without a submission counts as lost, the
others as not stated, unless `info` holds an outcome.

Source: the documentation of both programs, and files that they wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.chat_objects import read_messages
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, files_in, raise_it
from turncredit.agents.interchange.outcomes import StatedOutcome, outcome_in
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import MAX_LINE, InputError, read_json

__all__ = ["EXAMPLE", "MINI_EXAMPLE", "read_mini_swe_agent", "read_swe_agent"]

_BASH: Final = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}

EXAMPLE: Final[JsonObject] = {
    "environment": "swe_main",
    "trajectory": [{"action": "ls", "observation": "setup.py", "response": "I look.", "thought": "I look."}],
    "history": [
        {"role": "system", "content": "You fix issues.", "agent": "main", "message_type": "system_prompt"},
        {"role": "assistant", "content": "ls -a", "agent": "main", "is_demo": True, "message_type": "action"},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "message_type": "observation"},
        {
            "role": "assistant",
            "content": "I look.",
            "thought": "I look.",
            "action": "ls",
            "tool_calls": [_BASH],
            "message_type": "action",
        },
        {"role": "tool", "content": "setup.py", "tool_call_ids": ["c1"], "message_type": "observation"},
        {"role": "assistant", "content": "submit", "message_type": "action"},
    ],
    "info": {"exit_status": "submitted", "submission": "diff"},
}
"""A document of SWE-agent."""

MINI_EXAMPLE: Final[JsonObject] = {
    "info": {"exit_status": "LimitsExceeded", "submission": "", "mini_version": "2.2.7"},
    "messages": [
        {"role": "system", "content": "You fix issues."},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "I look.", "tool_calls": [_BASH], "extra": {"actions": [{"command": "ls"}]}},
        {"role": "tool", "tool_call_id": "c1", "content": "<output>\nsetup.py\n</output>"},
        {"role": "exit", "content": "LimitsExceeded", "extra": {"exit_status": "LimitsExceeded"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}
"""A document of mini-SWE-agent."""


def read_swe_agent(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a file of SWE-agent, or of all such files of a folder."""
    return _documents(path, ".traj", "history", refuse)


def read_mini_swe_agent(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a file of mini-SWE-agent, or of all such files of a folder."""
    return _documents(path, ".traj.json", "messages", refuse)


def _documents(path: Path, suffix: str, key: str, refuse: Refuse) -> Iterator[Demonstration]:
    for file in files_in(path, suffix):
        try:
            document = read_json(file, max_bytes=MAX_LINE)
            if not isinstance(document, Mapping) or not isinstance(document.get(key), list):
                raise InputError(f"expected an object with a list {key!r}, got {str(document)[:80]}")
            yield _episode(document, document[key], file.name.removesuffix(suffix))
        except InputError as error:
            refuse(StoreError(f"{file}: {str(error).removeprefix(f'{file} ')}"))


def _episode(document: JsonObject, entries: list[object], name: str) -> Demonstration:
    info = document.get("info")
    status = info.get("exit_status") if isinstance(info, Mapping) else None
    submitted = str(status or "submitted").lower().startswith("submitted")
    outcome = outcome_in({"info": info})
    if not submitted and not outcome.stated:
        outcome = StatedOutcome(reward=0.0)
    left_out: set[str] = set()
    messages = read_messages([_adapted(entry) for entry in entries], left_out)
    episode = conversation_trajectory(messages, name, score=outcome)
    if not submitted:
        episode = replace(episode, trajectory=replace(episode.trajectory, stop="truncated"))
    return replace(episode, left_out=tuple(sorted(left_out)))


def _adapted(entry: object) -> object:
    """Return a message with the keys of the OpenAI API."""
    if not isinstance(entry, Mapping):
        return entry
    if "role" not in entry:
        raise InputError(f"a message must have a role, got one with the keys {', '.join(map(str, entry))[:80]}")
    adapted = {**entry}
    if entry["role"] == "exit":
        adapted["role"] = "user"
    ids = entry.get("tool_call_ids")
    if entry["role"] == "tool" and isinstance(ids, list) and ids:
        adapted["tool_call_id"] = ids[0]
    if entry.get("is_demo"):
        adapted["loss"] = False
    blocks = entry.get("thinking_blocks")
    if isinstance(blocks, list) and "reasoning_content" not in entry:
        thoughts = [block.get("thinking") for block in blocks if isinstance(block, Mapping)]
        adapted["reasoning_content"] = "".join(thought for thought in thoughts if isinstance(thought, str))
    return adapted
