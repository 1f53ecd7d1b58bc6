"""Messages in the form of the OpenAI API: images as data URLs, and native tool calls.

An agent reads and writes tool calls as text, in one of the formats of `turnwise.tools.functions`. With native tool
calls the server writes them as data instead. Then the text of earlier calls and results becomes ``tool_calls`` and
messages of the role "tool", and the calls of an answer become the text that the environment reads.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.agents.dialogue import Message
from turnwise.agents.errors import SamplerError
from turnwise.agents.samplers.base import Request
from turnwise.tools.functions import Call, call_format

__all__ = ["data_url", "described_tools", "native_messages", "text_with_calls", "with_data_urls"]

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def with_data_urls(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose images are PNG data URLs, in the parts of the OpenAI API."""
    return [
        {**message, "content": [*map(_part, message["content"])]} if isinstance(message["content"], list) else message
        for message in messages
    ]


def _part(part: Message) -> Message:
    if part["type"] != "image":
        return part
    return {"type": "image_url", "image_url": {"url": data_url(part["image"])}}


def data_url(image: NDArray[np.uint8]) -> str:
    """Return an image as a PNG data URL.

    Args:
        image: uint8 [height, width, 3] in RGB.
    """
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row starts with the number of its filter, 0
    rows[:, 1:] = image.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def described_tools(request: Request) -> list[dict[str, Any]]:
    """Return the function schemas of an environment: those beside its first observation, or those described in it.

    Raises:
        SamplerError: there are no tools.
    """
    if request.view.tools:
        return [dict(schema) for schema in request.view.tools]
    for message in request.messages:
        found = _TOOLS.search(message["content"]) if isinstance(message["content"], str) else None
        try:
            schemas = [json.loads(line) for line in found[1].splitlines()] if found else []
        except ValueError:
            continue
        if schemas:
            return schemas
    raise SamplerError(
        "native tool calls need an environment with tools, such as a ToolEnv with native=True or the format hermes "
        "or openai; or set the option tools to their schemas"
    )


def native_messages(messages: Sequence[Message], format: str) -> list[Message]:
    """Return the conversation with native tool calls in place of the calls and results in its text.

    An answer without valid calls stays as it is, and so does the message that follows it.

    Args:
        messages: the conversation as text.
        format: of the calls, "hermes" or "openai".
    """
    native: list[Message] = []
    asked: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            calls = call_format(format).parse(message["content"], []).calls
            asked = [f"call_{number}_{index}" for index in range(len(calls))]
            native.append(_assistant(message["content"], calls, asked) if calls else message)
        elif asked and isinstance(message["content"], str):
            native += [
                {"role": "tool", "tool_call_id": id, "content": text}
                for id, text in zip(asked, _results(message["content"], len(asked), format), strict=True)
            ]
            asked = []
        else:
            native.append(message)
    return native


def _assistant(text: str, calls: Sequence[Call], ids: Sequence[str]) -> Message:
    said = text.partition("<tool_call>")[0].strip() if "<tool_call>" in text else ""
    entries = [
        {"id": id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))}}
        for call, id in zip(calls, ids, strict=True)
    ]
    return {"role": "assistant", "content": said or None, "tool_calls": entries}


def _results(text: str, count: int, format: str) -> list[str]:
    """Return one text for each call; if the observation has no such parts, the first call gets all of it."""
    found: list[str] = []
    if format == "hermes":
        found = _RESPONSE.findall(text)
    else:
        try:
            entries, _ = json.JSONDecoder().raw_decode(text.lstrip())
            found = [str(entry["content"]) for entry in entries]
        except (ValueError, TypeError, KeyError):
            found = []
    if len(found) != count:
        found = text.splitlines()  # results as plain text
    return found if len(found) == count else [text, *[""] * (count - 1)]


def text_with_calls(said: str, calls: Sequence[Any], format: str) -> str:
    """Return an answer as text: what was said, then its calls in a format that the environment reads.

    Calls are written as they came: invalid arguments are for the environment to report.

    Args:
        said: the text of the answer, "" if there is none.
        calls: the entries of ``tool_calls``.
        format: "hermes" or "openai".
    """
    functions = [_function(entry) for entry in calls]
    if format == "openai":
        entries = [{"id": f"call_{n}", "type": "function", "function": one} for n, one in enumerate(functions, start=1)]
        return json.dumps({"tool_calls": entries}, ensure_ascii=False)
    blocks = [
        f'<tool_call>\n{{"name": {json.dumps(one["name"])}, "arguments": {one["arguments"]}}}\n</tool_call>'
        for one in functions
    ]
    return "\n".join([said.strip(), *blocks]).strip()


def _function(entry: Any) -> dict[str, str]:
    function = entry.get("function") if isinstance(entry, Mapping) else None
    function = function if isinstance(function, Mapping) else {}
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"name": str(function.get("name", "")), "arguments": written.strip() or "{}"}
