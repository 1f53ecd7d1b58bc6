"""Messages as objects of JSON: those of the OpenAI API and of trainers, of Anthropic's API, and of ShareGPT.

    {"role": "assistant", "content": "...", "tool_calls": [{"id", "type", "function": {"name", "arguments"}}]}
    {"role": "assistant", "content": [{"type": "tool_use", "id", "name", "input"}]}
    {"from": "function_call", "value": "{\"name\": ..., \"arguments\": ...}"}

Chat templates want the arguments of a call as an object, the OpenAI API as text; both are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from turncredit.agents.interchange.chat_message import ChatMessage, Role, role_of
from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import InputError, parse_json
from turncredit.tools.functions import Call
from turncredit.tools.visible_text import json_text

__all__ = ["chat_message", "read_call", "read_messages", "text_of_parts"]

_NO_LOSS: Final = ("loss", "train", "training")
"""Keys that are false at an answer that is not to be imitated."""


def chat_message(message: ChatMessage, *, arguments_as_text: bool = False) -> dict[str, object]:
    """Return a message as an object.

    Args:
        message: the message; its images are left out.
        arguments_as_text: whether the arguments of calls are JSON in a string, as the OpenAI API has them.
    """
    entry: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    if message.calls:
        entry["tool_calls"] = [_call_object(call, as_text=arguments_as_text) for call in message.calls]
    if message.call:
        entry["tool_call_id"] = message.call
    return entry if message.imitated else {**entry, "weight": 0}


def _call_object(call: Call, *, as_text: bool) -> dict[str, object]:
    arguments = json_text(call.arguments) if as_text else dict(call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def read_messages(entries: object, left_out: set[str]) -> Iterator[ChatMessage]:
    """Yield the messages of a list of objects, which may be JSON in a string.

    Args:
        entries: the list.
        left_out: names of what no message can hold are added to it.

    Raises:
        InputError: it is no such list, or one of the objects is no message.
    """
    if isinstance(entries, str) and entries.lstrip().startswith("["):
        entries = parse_json(entries, "the text of the messages")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"the messages must be a list of objects, got {str(entries)[:80]}")
    for entry in entries:
        yield from _read(entry, left_out)


def _read(entry: JsonObject, left_out: set[str]) -> Iterator[ChatMessage]:
    name = entry.get("role", entry.get("from"))
    role = role_of(name)
    parts = _Parts(left_out)
    parts.add(entry.get("content", entry.get("value")), role)
    if role != "assistant":
        call = entry.get("tool_call_id")
        if isinstance(call, str) and call and role == "tool" and not parts.results:
            yield ChatMessage(role, parts.text, call=call)
            return
        yield from parts.results
        if parts.text or not parts.results:
            yield ChatMessage(role, parts.text)
        return
    reasoning = entry.get("reasoning_content") or entry.get("reasoning")
    imitated = not any(entry.get(key) is False for key in _NO_LOSS) and entry.get("weight") != 0
    text, calls = parts.text, parts.calls
    if str(name).lower() == "function_call":
        text, written = "", parse_json(text, "a function call")
        calls = [read_call(call) for call in (written if isinstance(written, list) else [written])]
    calls += map(read_call, _listed(entry))
    thought = reasoning if isinstance(reasoning, str) else "".join(parts.reasoning)
    yield ChatMessage(role, text, thought, tuple(calls), imitated=imitated)


def _listed(entry: JsonObject) -> list[object]:
    """Return the calls that stand beside the content of an answer, also in the form of 2023."""
    calls, older = entry.get("tool_calls"), entry.get("function_call")
    listed = [call for call in calls if call is not None] if isinstance(calls, list) else []
    return listed or ([older] if isinstance(older, Mapping) else [])


def read_call(entry: object) -> Call:
    """Return the call of an object with a name and arguments, which may be JSON in a string; alone or in `function`.

    Raises:
        InputError: it is no call.
    """
    call = entry.get("function", entry) if isinstance(entry, Mapping) else entry
    if not isinstance(entry, Mapping) or not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise InputError(f"a tool call must have a name and arguments, got {str(entry)[:80]}")
    arguments = call.get("arguments")
    if isinstance(arguments, str) and arguments.strip():
        arguments = parse_json(arguments, f"the arguments of {call['name']}")
    arguments = arguments or {}
    if not isinstance(arguments, dict):
        raise InputError(f"the arguments of {call['name']} must be an object, got {json.dumps(arguments)[:80]}")
    own = entry.get("id")
    return Call(call["name"], arguments, own if isinstance(own, str) else "")


@dataclass(slots=True)
class _Parts:
    """The content of a message, taken apart.

    Attributes:
        left_out: names of what no message can hold.
        text: its text.
        reasoning: texts of thinking.
        calls: tool calls.
        results: results of earlier calls.
    """

    left_out: set[str]
    text: str = ""
    reasoning: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[ChatMessage] = field(default_factory=list)

    def add(self, content: object, role: Role) -> None:
        """Take the content of a message apart.

        Raises:
            InputError: it is neither text nor a list of parts.
        """
        if isinstance(content, str) or content is None:
            self.text += content or ""
            return
        if not isinstance(content, list):
            raise InputError(f"the content of a message must be text, got {type(content).__name__}")
        for part in content:
            if isinstance(part, str):
                self.text += part
            elif isinstance(part, Mapping):
                self._add_part(part, role)
            else:
                raise InputError(f"a part of a message must be text or an object, got {type(part).__name__}")

    def _add_part(self, part: JsonObject, role: Role) -> None:
        kind = part.get("type")
        if kind in ("thinking", "reasoning"):
            thought = part.get("thinking", part.get("reasoning", part.get("text")))
            self.reasoning += [thought] if isinstance(thought, str) else []
        elif kind == "tool_use":
            own = {"name": part.get("name"), "arguments": part.get("input")}
            self.calls.append(replace(read_call(own), id=str(part.get("id") or "")))
        elif kind == "tool_result":
            result = _Parts(self.left_out)
            result.add(part.get("content"), role)
            self.results.append(ChatMessage("tool", result.text, call=str(part.get("tool_use_id") or "")))
        elif isinstance(part.get("text"), str):
            self.text += part["text"]
        else:
            image = "image" in str(kind) or "image" in part or "image_url" in part
            self.left_out.add("images" if image else f"parts of messages of the kind {kind}")


def text_of_parts(content: object, left_out: set[str]) -> str:
    """Return the text of a message's content: a text, or a list of parts.

    Args:
        content: content of the file, as read.
        left_out: list to which the names of all else than text are added.

    Raises:
        InputError: it is something else.
    """
    parts = _Parts(left_out)
    parts.add(content, "user")
    return parts.text
