"""Messages of MCP servers that the mcp package would refuse, and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turncredit.tools.functions.mcp_messages import LineMender, mended


def result(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": fields}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            result(tools=[{"name": "a", "inputSchema": {}}]),
            result(tools=[{"name": "a", "inputSchema": {"type": "object"}}]),
        ),
        (result(tools=[{"name": "a"}]), result(tools=[{"name": "a", "inputSchema": {"type": "object"}}])),
        (
            result(
                tools=[{"name": "a", "inputSchema": {"type": "object", "properties": {}}, "outputSchema": {"a": 1}}]
            ),
            result(
                tools=[
                    {
                        "name": "a",
                        "inputSchema": {"type": "object", "properties": {}},
                        "outputSchema": {"type": "object", "a": 1},
                    }
                ]
            ),
        ),
        (
            result(content=[{"type": "text", "text": "a"}, {"type": "video", "url": "b"}, "c"]),
            result(
                content=[
                    {"type": "text", "text": "a"},
                    {"type": "image", "data": "", "mimeType": "video"},
                    {"type": "image", "data": "", "mimeType": "str"},
                ]
            ),
        ),
        (result(tools={"name": "a"}, content=None), result(tools={"name": "a"}, content=None)),
        ({"jsonrpc": "2.0", "method": "ping"}, {"jsonrpc": "2.0", "method": "ping"}),
        ([1, 2], [1, 2]),
    ],
)
def test_a_message_is_mended_where_it_would_be_refused(message: object, expected: object) -> None:
    assert json.loads(mended(json.dumps(message).encode())) == expected


def test_half_a_surrogate_pair_is_shown_as_its_escape() -> None:
    text = json.loads(mended(rb'{"result": {"content": [{"type": "text", "text": "a \ud83d b"}]}}'))
    assert text["result"]["content"][0]["text"] == "a \\ud83d b"


def test_what_is_no_message_stays() -> None:
    for data in (b"", b"{", b"hello", b"\xff"):
        assert mended(data) == data


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_stream_of_events_is_mended_however_it_arrives(size: int) -> None:
    data = b'event: message\r\ndata: {"result": {"tools": [{"name": "a"}]}}\r\n\r\n: ping\ndata: {"id"'
    mender = LineMender()
    blocks = [mender.feed(data[at : at + size]) for at in range(0, len(data), size)]
    lines = (b"".join(blocks) + mender.rest()).split(b"\n")
    assert lines[0] == b"event: message\r"
    assert json.loads(lines[1].removeprefix(b"data:"))["result"]["tools"][0]["inputSchema"] == {"type": "object"}
    assert lines[2:] == [b"\r", b": ping", b'data: {"id"']
