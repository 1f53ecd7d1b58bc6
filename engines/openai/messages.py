"""Messages in the form of the OpenAI API: images as data URLs, and native tool calls.

An agent reads and writes tool calls as text, in one of the formats of `turncredit.tools.functions`. With native tool
calls the server writes them as data instead. Then the calls of an answer become the text that the environment reads,
and its result for each call goes back in a message of the role "tool". Results are never taken from a text, since they
may contain any text that would separate them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.png import encode_png
from turncredit.agents.prompts.dialogue import Message
from turncredit.agents.prompts.prompt import Exchange, View
from turncredit.engines.base import Request
from turncredit.engines.openai.answers import REASONING_FIELDS
from turncredit.tools.functions import Call, call_format
from turncredit.tools.functions.calls import without_fence

__all__ = ["data_url", "described_tools", "native_messages", "plain_messages", "text_with_calls", "with_data_urls"]

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_MARKS = re.compile(r"<(?=/?(?:think|tool_call)>)")
_ESCAPE = r"\\u003c"


def with_data_urls(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose images are PNG data URLs, in the parts of the OpenAI API."""
    return [
        {**message, "content": [*map(_part, message["content"])]} if isinstance(message["content"], list) else message
        for message in messages
    ]


def _part(part: Message) -> Message:
    if not isinstance(part, Mapping) or part.get("type") != "image":
        return part  # of a server's answer, it may be a string
    return {"type": "image_url", "image_url": {"url": data_url(part["image"])}}


def data_url(image: NDArray[np.uint8]) -> str:
    """Return an image as a PNG data URL.

    Args:
        image: uint8 [height, width, 3] in RGB.
    """
    return "data:image/png;base64," + base64.b64encode(encode_png(image)).decode("ascii")


def described_tools(request: Request) -> list[dict[str, Any]]:
    """Return the function schemas of an environment: those beside its first observation, or those described in it.

    Raises:
        SamplerError: there are no tools.
    """
    if request.view.tools:
        return [dict(schema) for schema in request.view.tools]
    for message in request.messages:
        block = _TOOLS.search(message["content"]) if isinstance(message["content"], str) else None
        try:
            schemas = [json.loads(line) for line in block[1].splitlines()] if block else []
        except ValueError:
            continue
        if schemas:
            return schemas
    raise SamplerError(
        "native tool calls need an environment with tools, such as a ToolEnv with native=True or the format hermes "
        "or openai; or set the option tools to their schemas"
    )


def plain_messages(request: Request) -> list[Message]:
    """Return the conversation as text; what a server answered is sent back as it came, without its reasoning.

    Models do not expect the reasoning of earlier answers, and some servers refuse it.
    """
    messages = list(request.messages)
    answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    for number, past in zip(answers, request.past, strict=False):
        if past.message is not None and past.message.get("content") and not _entries(past.message):
            fields = {name: value for name, value in past.message.items() if name not in REASONING_FIELDS}
            messages[number] = _sent_back(fields)
    return messages


def native_messages(request: Request, format: str) -> list[Message]:
    """Return the conversation with native tool calls, and the result of each call in a message of its own.

    What a server answered is sent back as it came. The calls in the text of other answers become native ones. An answer
    without valid calls stays text, and so does the message that follows it.

    Args:
        request: its messages, the turns of the past, and the view.
        format: format of the calls in texts, "hermes" or "openai".
    """
    native: list[Message] = []
    seen: list[Exchange | View] = [*request.past[1:], request.view] if request.past else []
    asked: list[Message] = []
    answers = 0
    for message in request.messages:
        if message["role"] == "assistant":
            past = request.past[answers].message if answers < len(request.past) else None
            reply, asked = _reply(message, past, format, answers)
            answers += 1
            native.append(reply)
        elif asked:
            after = seen[answers - 1] if answers <= len(seen) else None
            native += _results(message, asked, after)
            asked = []
        else:
            native.append(message)
    return native


def _reply(message: Message, past: JsonObject | None, format: str, turn: int) -> tuple[Message, list[Message]]:
    """Return the message of an answer, and the beginnings of the messages with the results of its calls."""
    entries = _entries(past or {})
    if past is not None and entries and all(map(_has_object, entries)):
        if not past.get("tool_calls"):
            return _sent_back(past), [{"role": "function", "name": _function(entries[0])["name"]}]
        calls = _with_ids(entries, turn)
        return _sent_back({**past, "tool_calls": calls}), [_result_of(call) for call in calls]
    written = () if entries else call_format(format).parse(message["content"], []).calls
    if not written:
        return (_sent_back(past) if past is not None and not entries else message), []
    calls = _with_ids([_written(call) for call in written], turn)
    prose = message["content"].partition("<tool_call>")[0].strip() if "<tool_call>" in message["content"] else ""
    return {**(past or {}), "role": "assistant", "content": prose, "tool_calls": calls}, list(map(_result_of, calls))


def _results(message: Message, asked: Sequence[Message], after: Exchange | View | None) -> list[Message]:
    """Return the messages with the results of calls, then the images of the user's message.

    Without a result for each call, every call gets what the agent saw.
    """
    parts = message["content"] if isinstance(message["content"], list) else []
    prose = message["content"] if not parts else "".join(part["text"] for part in parts if part["type"] == "text")
    texts = [prose if after is None else after.observation] * len(asked)
    if after is not None and len(after.results) == len(asked):
        texts = list(after.results)
    images = [part for part in parts if part["type"] == "image"]
    results = [{**beginning, "content": text} for beginning, text in zip(asked, texts, strict=True)]
    return [*results, {"role": "user", "content": images}] if images else results


def _sent_back(message: JsonObject) -> Message:
    """Return a server's message for its next prompt: as it came, without nulls and empty lists.

    Servers write these for fields that are absent, and some refuse them.
    """
    fields = {name: value for name, value in message.items() if value is not None and value != []}
    return {"role": "assistant", "content": "", **fields}


def _entries(message: JsonObject) -> list[Any]:
    """Return the calls of a server's message."""
    calls, function = message.get("tool_calls"), message.get("function_call")
    if isinstance(calls, list) and calls:
        return calls
    return [{"function": function}] if isinstance(function, Mapping) else []


def _has_object(entry: object) -> bool:
    """Return whether a call is one whose arguments are a JSON object; servers refuse others in earlier messages."""
    try:
        return isinstance(entry, Mapping) and isinstance(json.loads(_function(entry)["arguments"]), dict)
    except (ValueError, RecursionError):
        return False


def _with_ids(entries: Sequence[JsonObject], turn: int) -> list[Message]:
    """Return calls with different ids; our own are nine letters and digits, which some servers ask for."""
    calls: list[Message] = []
    for number, entry in enumerate(entries):
        id = entry.get("id")
        if not isinstance(id, str) or not id or any(call["id"] == id for call in calls):
            id = f"t{turn % 10_000:04}c{number % 1000:03}"
        call = {"type": "function", **entry, "id": id}
        function = call.get("function")
        if isinstance(function, Mapping) and not function.get("arguments"):
            # servers that answer without arguments do not all read a call without them
            call["function"] = {**function, "arguments": "{}"}
        calls.append(call)
    return calls


def _result_of(call: Message) -> Message:
    return {"role": "tool", "tool_call_id": call["id"]}


def _written(call: Call) -> Message:
    return {"function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))}}


def text_with_calls(text: str, calls: Sequence[object], format: str) -> str:
    """Return an answer as text: what was said, then its calls in a format that the environment reads.

    Calls are written as they came: invalid arguments are for the environment to report. The calls are what the server
    says they are, so marks of calls and reasoning in what was said, and in arguments, are escaped.

    Args:
        text: the text of the answer, "" if there is none; reasoning at its beginning stays.
        calls: the entries of ``tool_calls``.
        format: "hermes" or "openai".
    """
    functions = [_function(entry) for entry in calls]
    if format == "openai":
        entries = [
            {"id": f"call_{n}", "type": "function", "function": function}
            for n, function in enumerate(functions, start=1)
        ]
        return _MARKS.sub(_ESCAPE, json.dumps({"tool_calls": entries}, ensure_ascii=False))
    blocks = [
        f'<tool_call>\n{{"name": {_MARKS.sub(_ESCAPE, json.dumps(function["name"]))}, '
        f'"arguments": {_MARKS.sub(_ESCAPE, function["arguments"])}}}\n</tool_call>'
        for function in functions
    ]
    thoughts, closed, prose = text.rpartition("</think>")
    return "\n".join([f"{thoughts}{closed}{_MARKS.sub('&lt;', prose)}".strip(), *blocks]).strip()


def _function(entry: object) -> dict[str, str]:
    function = entry.get("function") if isinstance(entry, Mapping) else None
    function = function if isinstance(function, Mapping) else {}
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"name": str(function.get("name", "")), "arguments": without_fence(written).strip() or "{}"}
