"""Results of OpenHands, output.jsonl: one line an episode, whose history is a list of events.

    {"instance_id": ..., "history": [...], "test_result": {...}, "metadata": {...}, "error": null}

Actions of the agent carry the answer of the model, with all calls of which they are one, and observations the id of
their call. Events of the version of 2024 (`action`, `observation`) and of the agent SDK (`kind`) are read. What the
model did not see, such as changes of state, is passed over.

Source: the documentation of OpenHands, and files that it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from turncredit.agents.errors import StoreError
from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.agents.interchange.chat_objects import read_call, read_messages, text_of_parts
from turncredit.agents.interchange.conversations import Demonstration, conversation_trajectory
from turncredit.agents.interchange.folders import Refuse, files_in, place_of, raise_it, records_of
from turncredit.agents.interchange.outcomes import outcome_in
from turncredit.agents.interchange.records import TOOLS
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import BadCall, Call
from turncredit.tools.readers import Fields

__all__ = ["EXAMPLE", "SDK_EXAMPLE", "read_openhands"]

_SILENT: Final = ("recall", "change_agent_state", "condensation", "condensation_request", "null", "pause", "resume")
"""Actions that the model neither chose nor saw."""
_UNSEEN: Final = ("agent_state_changed", "recall", "null", "condense")
"""Observations that the model did not see."""
_ABOUT: Final = ("thought", "security_risk", "blocking", "hidden", "confirmation_state", "is_input", "is_static")
"""Arguments of an action that are none of its call."""

_META: Final = {"function_name": "execute_bash", "tool_call_id": "c1", "total_calls_in_response": 1}
_CALL: Final = {"id": "c1", "type": "function", "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'}}
EXAMPLE: Final[JsonObject] = {
    "instance_id": "astropy__astropy-12907",
    "history": [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "You fix issues.", "tools": [{}]}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it."}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "Fix it."}},
        {
            "id": 3,
            "source": "agent",
            "action": "run",
            "args": {"command": "ls", "thought": "I look."},
            "tool_call_metadata": {
                **_META,
                "model_response": {
                    "id": "r1",
                    "choices": [{"message": {"role": "assistant", "content": "I look.", "tool_calls": [_CALL]}}],
                },
            },
        },
        {
            "id": 4,
            "source": "agent",
            "observation": "run",
            "content": "setup.py",
            "cause": 3,
            "tool_call_metadata": _META,
        },
        {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": "Done.", "thought": ""}},
    ],
    "test_result": {"git_patch": "diff", "report": {"resolved": False}},
    "error": None,
}
"""A line of OpenHands."""

SDK_EXAMPLE: Final[JsonObject] = {
    "instance_id": "django__django-11039",
    "history": [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "You fix issues."}},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": [{"text": "Fix it."}]}},
        {
            "kind": "ActionEvent",
            "source": "agent",
            "thought": [{"type": "text", "text": "I look."}],
            "tool_name": "terminal",
            "tool_call_id": "c1",
            "tool_call": {"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}'},
            "llm_response_id": "r1",
        },
        {
            "kind": "ObservationEvent",
            "source": "environment",
            "tool_call_id": "c1",
            "observation": {"content": [{"type": "text", "text": "setup.py"}]},
        },
        {
            "kind": "MessageEvent",
            "source": "agent",
            "llm_message": {"role": "assistant", "content": [{"text": "Done."}]},
        },
    ],
    "test_result": {"git_patch": "diff"},
}
"""A line of the benchmarks of the agent SDK."""


def read_openhands(path: Path, refuse: Refuse = raise_it) -> Iterator[Demonstration]:
    """Yield the episodes of an output.jsonl, or of all of them in a folder.

    Args:
        path: the file or the folder.
        refuse: called with each episode that cannot be read.

    Raises:
        StoreError: a file is damaged, or there is none.
    """
    for file in files_in(path, "output.jsonl"):
        for record in records_of(file, refuse):
            try:
                yield _episode(record.fields, f"line_{record.number}")
            except (InputError, BadCall) as error:
                refuse(StoreError(f"{file}, {place_of(record)}: {error}"))


def _episode(fields: Fields, id: str) -> Demonstration:
    history = fields.get("history")
    if not isinstance(history, list):
        raise InputError(f"expected an episode with a history, got the keys {', '.join(map(str, fields))[:80]}")
    pairs = (entry if isinstance(entry, list) else [entry] for entry in history)  # the oldest files pair events
    events = [event for pair in pairs for event in pair]
    if not all(isinstance(event, Mapping) for event in events):
        raise InputError("the history must be a list of events")
    left_out: set[str] = set()
    reader = _sdk_messages if any("kind" in event for event in events) else _messages
    error = fields.get("error")
    episode = conversation_trajectory(
        list(reader(events, left_out)),
        str(fields.get("instance_id", id)),
        score=outcome_in(fields),
        error=error if isinstance(error, str) and error else None,
    )
    return replace(episode, left_out=tuple(sorted(left_out)))


def _messages(events: Sequence[JsonObject], left_out: set[str]) -> Iterator[ChatMessage]:
    """Yield the messages of events of 2024."""
    responses: set[object] = set()
    calls: dict[object, str] = {}
    for event in events:
        metadata, args = _mapping(event.get("tool_call_metadata")), _mapping(event.get("args"))
        action, own = event.get("action"), event.get("id")
        if action is None:
            if event.get("observation") in _UNSEEN:
                continue
            call = metadata.get("tool_call_id") or calls.get(event.get("cause"), "")
            yield ChatMessage("tool" if call else "user", text_of_parts(event.get("content"), left_out), call=str(call))
        elif action == "system":
            left_out |= {TOOLS} if args.get("tools") else set()
            yield ChatMessage("system", str(args.get("content") or ""))
        elif action in _SILENT:
            continue
        elif event.get("source") != "agent":
            yield ChatMessage("user", str(args.get("content") or event.get("message") or ""))
        elif response := _mapping(metadata.get("model_response")):
            if response.get("id") not in responses:
                responses.add(response.get("id"))
                yield from read_messages([_answer_in(response)], left_out)
        elif action == "message":
            yield ChatMessage("assistant", str(args.get("content") or ""))
        else:
            thought = str(args.get("thought") or "")
            arguments = {name: value for name, value in args.items() if name not in _ABOUT}
            calls[own] = f"event_{own}"
            yield ChatMessage("assistant", thought, calls=(Call(str(action), arguments, f"event_{own}"),))


def _answer_in(response: JsonObject) -> JsonObject:
    """Return the message in an answer of a model."""
    choices = response.get("choices")
    message = _mapping(choices[0]).get("message") if isinstance(choices, list) and choices else None
    if not isinstance(message, Mapping):
        raise InputError(f"an answer of the model must have a message, got {str(response)[:80]}")
    return {**message, "role": "assistant"}


def _sdk_messages(events: Sequence[JsonObject], left_out: set[str]) -> Iterator[ChatMessage]:
    """Yield the messages of events of the agent SDK; actions of one answer of the model are its calls."""
    answers: dict[object, list[JsonObject]] = {}
    for number, event in enumerate(events):
        if event.get("kind") == "ActionEvent":
            answers.setdefault(event.get("llm_response_id", number), []).append(event)
    for event in events:
        kind = event.get("kind")
        if kind == "SystemPromptEvent":
            left_out |= {TOOLS} if event.get("tools") else set()
            yield ChatMessage("system", text_of_parts([event.get("system_prompt")], left_out))
        elif kind == "MessageEvent":
            message = _mapping(event.get("llm_message"))
            role = "assistant" if event.get("source") == "agent" else "user"
            yield from read_messages([{**message, "role": role}], left_out)
        elif kind == "ActionEvent":
            actions = next(group for group in answers.values() if any(entry is event for entry in group))
            if actions[0] is event:
                yield _sdk_answer(actions, left_out)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            result = _mapping(event.get("observation"))
            content = result.get("content", result.get("output", event.get("error", event.get("rejection_reason"))))
            text = text_of_parts(content, left_out)
            yield ChatMessage("tool", text, call=str(event.get("tool_call_id") or ""))


def _sdk_answer(actions: Sequence[JsonObject], left_out: set[str]) -> ChatMessage:
    """Return the answer of which some actions are the calls."""
    reasoning = next((text for action in actions if isinstance(text := action.get("reasoning_content"), str)), "")
    thought = next((text for action in actions if (text := text_of_parts(action.get("thought"), left_out))), "")
    return ChatMessage("assistant", thought, reasoning, tuple(map(_sdk_call, actions)))


def _sdk_call(action: JsonObject) -> Call:
    """Return the call of an action: as the model wrote it, else the tool and its arguments."""
    written = _mapping(action.get("tool_call"))
    arguments = {name: value for name, value in _mapping(action.get("action")).items() if name != "kind"}
    call = read_call(written) if written else Call(str(action.get("tool_name")), arguments)
    return replace(call, id=str(action.get("tool_call_id") or call.id))


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
