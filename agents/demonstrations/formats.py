"""Formats of conversations that can be imitated: which keys of a record hold the messages, and who speaks.

    chat        {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
    ShareGPT    {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}
    AgentGym    the same with {"item_id"}, and {"loss": false} at answers that are not imitated
    TRL         {"prompt", "completion"}: texts, or lists of messages
    Alpaca      {"instruction", "input", "output"}

Each answer becomes a turn; what was said before it, since the last answer, is its observation. A system message stands
at the beginning of the first observation. Tool calls are written as Hermes and Qwen write them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from turnwise.agents.prompts.dialogue import Message
from turnwise.agents.trajectory import Trajectory, Turn
from turnwise.tools.bounded_input import InputError, parse_json
from turnwise.tools.functions import Call
from turnwise.tools.functions.json_formats import write_hermes
from turnwise.tools.readers import Fields, RecordFormat, RecordFormats

__all__ = ["DEMONSTRATION_FORMATS", "Demonstration"]

_SEEN: Final = frozenset(
    ["system", "developer", "user", "human", "tool", "function", "observation", "environment", "ipython"]
)
_SAID: Final = frozenset(["assistant", "gpt", "model", "chatgpt", "bot", "function_call"])
_IDS: Final = ("item_id", "id", "task_id", "conversation_id", "idx")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """An episode to imitate.

    Attributes:
        trajectory: the episode; one of another program has no actions yet.
        mistakes: numbers of the turns that are not imitated.
    """

    trajectory: Trajectory
    mistakes: frozenset[int] = field(default_factory=frozenset)


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
    turns, mistakes, final = _turns(messages)
    if not turns:
        raise InputError("it has no answer of an assistant")
    score = _score(fields)
    trajectory = Trajectory(
        id=name,
        task=name,
        task_type=None,
        seed=0,
        turns=tuple(turns),
        stop="terminated",
        won=score >= 1.0,
        score=score,
        final_state="",
        final_observation=final,
        error=None,
        seconds=0.0,
    )
    return Demonstration(trajectory, frozenset(mistakes))


def _turns(messages: Sequence[Message]) -> tuple[list[Turn], list[int], str]:
    """Return the turns, the numbers of those that are not imitated, and what was seen after the last one."""
    turns: list[Turn] = []
    mistakes: list[int] = []
    seen: list[str] = []
    for message in messages:
        role = str(message.get("role", message.get("from"))).lower()
        if role in _SEEN:
            seen.append(_content(message))
            continue
        if role not in _SAID:
            raise InputError(f"unknown role {role!r}; expected one of {', '.join(sorted(_SEEN | _SAID))}")
        if message.get("loss") is False or message.get("weight") == 0:
            mistakes.append(len(turns))
        turns.append(_turn("\n".join(seen), _answer(message, role)))
        seen = []
    return turns, mistakes, "\n".join(seen)


def _turn(observation: str, text: str) -> Turn:
    return Turn(
        prompt=(),
        response=(),
        logprobs=(),
        version=0,
        observation=observation,
        text=text,
        action=None,
        state="",
        reward=0.0,
        valid=False,
    )


def _content(message: Message) -> str:
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


def _answer(message: Message, role: str) -> str:
    """Return the text of an answer: its reasoning, its content and its tool calls."""
    content, reasoning = _content(message), message.get("reasoning_content")
    if role == "function_call":
        return write_hermes([_call(parse_json(content, "a function call"))])
    parts = [f"<think>\n{reasoning}\n</think>\n\n{content}" if isinstance(reasoning, str) and reasoning else content]
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        parts.append(write_hermes([_call(call.get("function", call)) for call in calls if isinstance(call, dict)]))
    return "\n".join(part for part in parts if part)


def _call(call: object) -> Call:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise InputError(f"a tool call must have a name and arguments, got {str(call)[:80]}")
    arguments = call.get("arguments")
    arguments = parse_json(arguments, "the arguments of a call") if isinstance(arguments, str) else arguments or {}
    if not isinstance(arguments, dict):
        raise InputError(f"the arguments of {call['name']} must be an object, got {json.dumps(arguments)[:80]}")
    return Call(call["name"], arguments)


def _score(fields: Fields) -> float:
    """Return the score that a record states; 1 if it states none, since a demonstration is there to be imitated."""
    for name in ("won", "success", "score", "reward"):
        value = fields.get(name)
        if isinstance(value, bool | int | float):
            return min(1.0, max(0.0, float(value)))
    return 1.0


DEMONSTRATION_FORMATS: Final[RecordFormats[Demonstration]] = RecordFormats(
    "a demonstration",
    RecordFormat("chat", "messages", lambda fields: "messages" in fields, _chat),
    RecordFormat("ShareGPT and AgentGym", "conversations", lambda fields: "conversations" in fields, _sharegpt),
    RecordFormat("TRL", "prompt, completion", lambda fields: {"prompt", "completion"} <= fields.keys(), _completion),
    RecordFormat("Alpaca", "instruction, output", lambda fields: {"instruction", "output"} <= fields.keys(), _alpaca),
)
"""Formats of conversations."""
