"""Messages of MCP servers, mended where the mcp package would refuse the whole message, and with it the server.

half a surrogate pair in a text         becomes its escape, "\\ud83d"
a schema of a tool without "type"       is that of an object
a part of a result of an unknown kind   becomes a part without text, with its kind
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from turncredit.tools.bounded_input import InputError, parse_json

__all__ = ["LineMender", "mended"]

_PARTS: Final = frozenset(("text", "image", "audio", "resource_link", "resource"))


def mended(data: bytes) -> bytes:
    """Return a message in JSON as the mcp package reads it; a text that is not JSON stays as it is."""
    try:
        message = parse_json(data, "a message", encodable=True)
    except InputError:
        return data
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, dict):
        for tool in _objects(result.get("tools")):
            for name in ("inputSchema", "outputSchema"):
                schema = tool.get(name)
                if isinstance(schema, dict) or (schema is None and name == "inputSchema"):
                    tool[name] = {"type": "object", **(schema or {})}
        if isinstance(result.get("content"), list):
            result["content"] = [_part(part) for part in result["content"]]
    return json.dumps(message).encode("ascii")


def _objects(value: object) -> Iterator[dict[str, object]]:
    yield from (each for each in (value if isinstance(value, list) else []) if isinstance(each, dict))


def _part(part: object) -> object:
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    return part if kind in _PARTS else {"type": "image", "data": "", "mimeType": str(kind)[:80]}


class LineMender:
    """Mends the messages in a stream of events, each of which is a line `data: ...`."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, block: bytes) -> bytes:
        """Return the lines that a block completes, mended."""
        *ends, tail = block.split(b"\n")
        lines = []
        for end in ends:
            lines.append(self._line(b"".join([*self._begun, end])) + b"\n")
            self._begun = []
        self._begun.append(tail)
        return b"".join(lines)

    def rest(self) -> bytes:
        """Return what has no end of a line."""
        return b"".join(self._begun)

    @staticmethod
    def _line(line: bytes) -> bytes:
        return b"data: " + mended(line.removeprefix(b"data:").strip()) if line.startswith(b"data:") else line
