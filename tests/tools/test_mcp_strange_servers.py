"""The MCP client with servers that are unusual, broken or hostile: schemas, names, statuses, floods, keys."""

from __future__ import annotations

import gzip
import json
import logging
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from turncredit.tools.functions import Call, McpServer, ServerFailed, Toolbox, mcp_client

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from turncredit.tools.functions.mcp_transports import MAX_BYTES

pytestmark = pytest.mark.waits

TOY = str(Path(__file__).resolve().parent.parent / "toys" / "scripted_mcp_server.py")
PATIENT = 120.0
KEY = "sk-mcp-secret-0815"


def tool(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", **schema}}


def program(*tools: dict[str, Any], **options: Any) -> McpServer:
    command = [sys.executable, TOY, json.dumps(tools)]
    return McpServer(command, seconds=PATIENT, start_seconds=PATIENT, **options)


# schemas


def test_a_list_of_tools_may_be_full_but_not_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [tool(f"t{number}") for number in range(3)]
    monkeypatch.setattr(mcp_client, "_MOST_TOOLS", 3)
    monkeypatch.setattr(
        "mcp.ClientSession.list_tools",
        lambda session, params=None: next_page(tools, 2, int(params.cursor) if params else 0),
    )
    with program(*tools) as server:
        assert len(Toolbox(server)) == 3
    monkeypatch.setattr(mcp_client, "_MOST_TOOLS", 2)
    with pytest.raises(ServerFailed, match="it lists more than 2 tools"), program(*tools) as server:
        Toolbox(server)


async def next_page(tools: list[dict[str, Any]], size: int, start: int) -> Any:
    """Return one page of a server's list of tools."""
    import mcp.types

    rest = str(start + size) if start + size < len(tools) else None
    listed = [mcp.types.Tool(**entry) for entry in tools[start : start + size]]
    return mcp.types.ListToolsResult(tools=listed, next_cursor=rest)


def test_null_means_absent() -> None:
    tools = (
        tool("free", required=None, properties=None),
        tool("find", properties={"a": {"type": "string", "enum": None}}),
    )
    with program(*tools) as server:
        box = Toolbox(server)
        assert box.call(Call("free", {})).text == "{}"
        assert box["free"].main_argument is None
        assert "properties" not in box["free"].parameters
        assert box["find"].parameters["properties"] == {"a": {"type": "string"}}
        assert box.describe("tags")


SCHEMAS = {
    "oneOf": tool("t", oneOf=[{"properties": {"id": {}}}, {"properties": {"name": {}}}], additionalProperties=False),
    "allOf": tool("t", properties={"a": {}}, allOf=[{"properties": {"id": {}}}], additionalProperties=False),
    "$ref": tool(
        "t", **{"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"id": {}}}}, "additionalProperties": False}
    ),
    "pattern": tool("t", patternProperties={"^i": {}}, additionalProperties=False),
    "open": tool("t", properties={"a": {}}),
    "true": tool("t", properties={"a": {}}, additionalProperties=True),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_arguments_that_the_schema_allows_reach_the_server(kind: str) -> None:
    with program(SCHEMAS[kind]) as server:
        assert Toolbox(server).call(Call("t", {"id": 1})).text == '{"id": 1}'


def test_arguments_that_the_schema_forbids_are_refused() -> None:
    with program(tool("t", properties={"name": {}}, additionalProperties=False)) as server:
        assert "unknown argument 'nmae'; did you mean 'name'?" in Toolbox(server).call(Call("t", {"nmae": 1})).text


def test_data_without_text_is_shown_as_json() -> None:
    with program(tool("data")) as server:
        assert Toolbox(server).call(Call("data", {})).text == '{"free": [1, 2], "town": "Zürich"}'


def test_links_unknown_parts_and_half_surrogate_pairs_are_read() -> None:
    with program({"name": "parts", "inputSchema": {}}) as server:
        outcome = Toolbox(server).call(Call("parts", {}))
        assert (outcome.problem, outcome.text.splitlines()) == (
            "",
            ["notes: file:///notes.md (of today)", "[video, not text]", "a \\ud83d b"],
        )


def test_names_that_collide_or_cannot_be_written_become_different_names() -> None:
    with program(tool("a.b"), tool("a_b"), tool("a/b"), tool("9x"), tool("n" * 80), tool("n" * 81)) as server:
        box = Toolbox(server)
        assert box.names == ["a_b_2", "a_b", "a_b_3", "_9x", "n" * 60, "n" * 60 + "_2"]
        assert box.call(Call("a_b_2", {"x": 1})).text == '{"x": 1}'


# entries of mcpServers files


def test_an_entry_of_a_desktop_client_starts_its_program() -> None:
    entry = {"command": sys.executable, "args": [TOY, json.dumps([tool("echo")])], "env": {"TOY_API_KEY": "none"}}
    for given in (entry, {"mcpServers": {"toy": entry}}):
        with McpServer(given, seconds=PATIENT, start_seconds=PATIENT) as server:
            assert Toolbox(server).call(Call("echo", {})).text == "KEY is none"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"mcpServers": {"a": {"command": "x"}, "b": {}}}, r"has 2 servers \(a, b\); pass one entry"),
        ({"comand": "python"}, r"has neither; did you mean 'command'\?"),
        ({"command": "python", "args": "server.py"}, "args of an mcpServers entry must be a list of words, got str"),
        ({"url": "ftp://host"}, "command must be a non-empty list"),
        ({"command": "python", "env": ["A=1"]}, "env of an mcpServers entry must be a table"),
    ],
)
def test_entries_that_are_refused(entry: Any, why: str) -> None:
    with pytest.raises(ServerFailed, match=why):
        McpServer(entry)


# floods


def test_a_line_without_an_end_ends_the_connection() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with program(tool("flood"), tool("t")) as server:
        box = Toolbox(server)
        for name in ("flood", "t"):
            given = box.call(Call(name, {}))
            assert given.problem == "gone"
            assert f"a line of more than {MAX_BYTES:,} bytes" in given.text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10 * MAX_BYTES >> 10


def test_only_the_end_of_a_programs_errors_is_kept() -> None:
    with program(tool("noise")) as server:
        assert Toolbox(server).call(Call("noise", {})).text == "{}"
        assert server._errors is not None
        assert len(server._errors._tail) <= 8 << 10


class Answer:
    """What the HTTP server below answers to a call of a tool; an endless body has no length."""

    def __init__(self, body: bytes = b"", status: int = 200, endless: bool = False, **headers: str) -> None:
        self.body, self.status, self.endless = body, status, endless
        self.headers = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}


@contextmanager
def http_server(call: Answer, start: Answer | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.say(Answer(status=405))

        do_DELETE = do_GET

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in request:
                return self.say(Answer(status=202))
            if start is not None:
                return self.say(start)
            if request["method"] == "tools/call":
                body = call.body.replace(b"ID", str(request["id"]).encode())
                body = body.replace(b"HEADERS", json.dumps(str(dict(self.headers)))[1:-1].encode())
                return self.say(Answer(body, call.status, call.endless, **call.headers))
            result: Any = {"tools": [tool("t")]}
            if request["method"] == "initialize":
                result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {},
                          "serverInfo": {"name": "s", "version": "1"}}  # fmt: skip
            self.say(Answer(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()))

        def say(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.endless:
                self.send_header("connection", "close")
                self.end_headers()
                try:
                    while True:
                        self.wfile.write(b" " * (1 << 16))
                except OSError:
                    self.close_connection = True
                return
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()


TEXT = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "%s"}]}}'


def test_a_compressed_answer_is_read() -> None:
    """The id of the call is the third: those of initialize and of the list come before."""
    plain = TEXT % b"hello"
    for number in range(1, 6):
        body = gzip.compress(plain.replace(b"ID", str(number).encode()))
        with (
            http_server(Answer(body, content_encoding="gzip")) as url,
            McpServer(url, seconds=2.0, start_seconds=PATIENT) as server,
        ):
            given = Toolbox(server).call(Call("t", {}))
        if not given.problem:
            break
    assert given.text == "hello"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(gzip.compress(bytes(2 * MAX_BYTES)), content_encoding="gzip"), "more than"),
        (Answer(endless=True), "more than"),
        (Answer(endless=True, content_type="text/event-stream"), ""),
        (Answer(b"xx", content_encoding="zstd"), "content encoding 'zstd'"),
        (Answer(b"[" * 100_000), ""),
    ],
)
def test_an_answer_that_is_too_large_fails_its_call(answer: Answer, why: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with http_server(answer) as url, McpServer(url, seconds=PATIENT, start_seconds=PATIENT) as server:
        given = Toolbox(server).call(Call("t", {}))
        assert given.problem in ("raised", "gone")
        assert why in given.text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 12 * MAX_BYTES >> 10


@pytest.mark.parametrize("status", [401, 403, 404, 405, 429, 500, 503])
def test_a_status_is_named(status: int) -> None:
    with (
        http_server(Answer(), Answer(b"<html>no</html>", status)) as url,
        pytest.raises(ServerFailed, match=f"did not start: .*HTTP {status}: "),
    ):
        McpServer(url, start_seconds=PATIENT)
    with http_server(Answer(b"busy", status)) as url, McpServer(url, seconds=PATIENT, start_seconds=PATIENT) as server:
        assert f"HTTP {status}: " in Toolbox(server).call(Call("t", {})).text


# keys


def test_a_key_of_a_program_is_shown_nowhere() -> None:
    with program(tool("echo"), env={"TOY_API_KEY": KEY, "REGION": "europe"}) as server:
        assert Toolbox(server).call(Call("echo", {})).text == "KEY is ***"
        assert KEY not in repr(vars(server))
    with pytest.raises(ServerFailed) as caught:
        McpServer([sys.executable, "-c", "raise SystemExit('wrong: ' + __import__('sys').argv[2])", "--api-key", KEY])
    assert KEY not in str(caught.value)
    assert "wrong: ***" in str(caught.value)


def test_a_key_in_a_header_or_url_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = Answer(TEXT % b"HEADERS", x_echo=f"Bearer {KEY}")
    with (
        http_server(echo) as url,
        McpServer(f"{url}?api_key={KEY}", headers={"Authorization": f"Bearer {KEY}"}, start_seconds=PATIENT) as server,
    ):
        text = Toolbox(server).call(Call("t", {})).text
        assert "***" in text
        refused = Answer(f"no such key: {KEY}".encode(), 401)
        with http_server(echo, refused) as other, pytest.raises(ServerFailed) as caught:
            McpServer(f"{other}?api_key={KEY}", headers={"X-Api-Key": KEY}, start_seconds=PATIENT)
        assert "HTTP 401: the server wants a key, or refuses this one" in str(caught.value)
        for shown in (text, str(caught.value), repr(vars(server)), server._name, caplog.text):
            assert KEY not in shown
