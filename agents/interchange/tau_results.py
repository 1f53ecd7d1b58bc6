"""Results of tau-bench and tau2: the conversations of an agent with a simulated user.

    [{"task_id": 0, "reward": 1.0, "info": {...}, "traj": [{"role", "content", "tool_calls", ...}], "trial": 0}]
    {"info": {...}, "tasks": [...], "simulations": [{"task_id", "trial", "reward_info": {...}, "messages": [...]}]}

The trials of a task are a group. In tau2, the agent's first words are a fixed greeting, which is not imitated, and the
simulated user may call tools, which the agent does not see: those calls and their results are left out.

Source: the documentation of both benchmarks, and files that they wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.agents.interchange.chat_objects import read_messages
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, files_in, place_of, raise_it, records_of
from turncredit.agents.interchange.outcomes import StatedOutcome, outcome_in
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import BadCall

__all__ = ["EXAMPLE", "TAU2_EXAMPLE", "read_tau"]

_ENDED: Final = ("user_stop", "agent_stop", None)
"""Reasons for which a simulation of tau2 ends by itself."""

EXAMPLE: Final[JsonObject] = {
    "task_id": 3,
    "reward": 0.0,
    "info": {"task": {"user_id": "mia_li_3668"}, "user_cost": 0.01},
    "traj": [
        {"role": "system", "content": "The policy."},
        {"role": "user", "content": "Cancel my order."},
        {
            "role": "assistant",
            "content": None,
            "function_call": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "cancel", "arguments": '{"order": "7"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": "cancelled"},
        {"role": "assistant", "content": "Done.", "tool_calls": None},
        {"role": "user", "content": "###STOP###"},
    ],
    "trial": 1,
}
"""A record of tau-bench."""

TAU2_EXAMPLE: Final[JsonObject] = {
    "info": {"environment_info": {"domain_name": "telecom", "policy": "The policy."}},
    "tasks": [],
    "simulations": [
        {
            "id": "s",
            "task_id": "roaming",
            "trial": 0,
            "termination_reason": "user_stop",
            "reward_info": {"reward": 1.0},
            "messages": [
                {"role": "assistant", "content": "Hi! How can I help you today?", "tool_calls": None},
                {"role": "user", "content": "No signal.", "tool_calls": None},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "a", "name": "find", "arguments": {"id": 1}, "requestor": "assistant"},
                        {"id": "b", "name": "find", "arguments": {"id": 2}, "requestor": "assistant"},
                    ],
                },
                {"role": "tool", "id": "b", "content": "two", "requestor": "assistant"},
                {"role": "tool", "id": "a", "content": "one", "requestor": "assistant"},
                {"role": "assistant", "content": "Restart it, please.", "tool_calls": None},
                {
                    "role": "user",
                    "content": None,
                    "tool_calls": [{"id": "u", "name": "restart", "arguments": {}, "requestor": "user"}],
                },
                {"role": "tool", "id": "u", "content": "restarted", "requestor": "user"},
                {"role": "user", "content": "Thank you. ###STOP###", "tool_calls": None},
            ],
        }
    ],
}
"""Results of tau2."""


def read_tau(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of a file of results, or of all such files of a folder.

    Args:
        path: the file or the folder.
        refuse: called with each episode that cannot be read.

    Raises:
        StoreError: a file is damaged, or there is none.
    """
    for file in files_in(path, ".json", ".jsonl"):
        for record in records_of(file, refuse):
            fields = record.fields
            simulations = fields.get("simulations")
            for number, entry in enumerate(simulations if isinstance(simulations, list) else [fields], 1):
                location = f", simulation {number}" if isinstance(simulations, list) else f", {place_of(record)}"
                try:
                    yield _episode(entry, fields)
                except (InputError, BadCall) as error:
                    refuse(StoreError(f"{file}{location}: {error}"))


def _episode(entry: object, results: JsonObject) -> Demonstration:
    if not isinstance(entry, Mapping) or "task_id" not in entry or not {"traj", "messages"} & entry.keys():
        raise InputError(f"expected a result with task_id, and traj or messages, got {str(entry)[:80]}")
    left_out: set[str] = set()
    name = f"{entry['task_id']}#{entry.get('trial') or 0}"
    task = str(entry["task_id"])
    if "traj" in entry:
        messages, error, kind = read_messages(entry["traj"], left_out), _failure(entry), None
        outcome = outcome_in(entry)
    else:
        left_out.add("the system prompt, which tau2 does not store")
        messages, error, kind = _conversation(entry["messages"], left_out), None, _domain(results)
        outcome = outcome_in(entry)
    reason = entry.get("termination_reason")
    if reason not in _ENDED and not outcome.stated:
        outcome = StatedOutcome(reward=0.0)
    episode = conversation_trajectory(
        messages, name, task=task, task_type=kind, score=outcome, error=error, empty=error is not None
    )
    if reason not in _ENDED:
        episode = replace(episode, trajectory=replace(episode.trajectory, stop="truncated"))
    return replace(episode, left_out=tuple(sorted(left_out)))


def _failure(entry: JsonObject) -> str | None:
    """Return why an episode of tau-bench failed; None if it did not."""
    info = entry.get("info")
    error = info.get("error") if isinstance(info, Mapping) else None
    return error if isinstance(error, str) else None


def _domain(results: JsonObject) -> str | None:
    info = results.get("info")
    environment = info.get("environment_info") if isinstance(info, Mapping) else None
    domain = environment.get("domain_name") if isinstance(environment, Mapping) else None
    return domain if isinstance(domain, str) else None


def _conversation(entries: object, left_out: set[str]) -> Iterator[ChatMessage]:
    """Yield the messages of tau2 that the agent saw or said."""
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InputError(f"the messages must be a list of objects, got {str(entries)[:80]}")
    after_greeting = False
    for entry in (inner for outer in entries for inner in outer.get("tool_messages") or [outer]):
        role = entry.get("role")
        of_user = entry.get("requestor") == "user" if role == "tool" else role == "user" and entry.get("tool_calls")
        if of_user:
            left_out.add("tool calls of the simulated user")
            continue
        after_greeting = after_greeting or role == "user"
        adapted = {**entry, "tool_call_id": entry.get("id")} if role == "tool" else {**entry, "loss": after_greeting}
        yield from read_messages([adapted], left_out)
