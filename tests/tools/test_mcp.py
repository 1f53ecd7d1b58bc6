"""The MCP client with a real server over stdio."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys.waiting import gone

from turncredit.installation import installation_command
from turncredit.tools.functions import Call, McpServer, ServerFailed, Toolbox

pytestmark = pytest.mark.waits

pytest.importorskip("mcp", reason="the extra mcp is not installed")

TOY = str(Path(__file__).resolve().parent.parent / "toys" / "mcp_server.py")
PATIENT = 120.0  # the server's first failure imports what it logs with, which takes seconds on a busy machine


@pytest.fixture(scope="module")
def server() -> Iterator[McpServer]:
    with McpServer([sys.executable, TOY], seconds=PATIENT, start_seconds=PATIENT) as started:
        yield started


def test_tools_of_a_server_are_listed(server: McpServer) -> None:
    box = Toolbox(server)
    assert box.names == ["add", "people_find", "fail", "long", "wait", "die", "process"]
    parameters = box["add"].parameters
    assert box["add"].description == "Add two numbers."
    assert parameters["required"] == ["first"]
    assert parameters["properties"]["first"]["type"] == "integer"
    assert "<add>...</add>  Add two numbers." in box.describe()


def test_a_call_returns_the_result(server: McpServer) -> None:
    box = Toolbox(server)
    given = box.call(Call("add", {"first": 2, "second": 3}, "7"))
    assert (given.problem, given.text, given.id) == ("", "5", "7")
    assert '"phone": "555-0101"' in box.call(Call("people_find", {"name": "Ada"})).text


def test_names_are_checked_by_the_client_and_values_by_the_server(server: McpServer) -> None:
    box = Toolbox(server)
    given = box.call(Call("add", {"frist": 2}))
    assert given.problem == "arguments"
    assert given.text == "add was not called: 'first' is missing; unknown argument 'frist'; did you mean 'first'?"
    given = box.call(Call("add", {"first": "two"}))
    assert given.problem == "raised"
    assert "valid integer" in given.text


def test_the_server_survives_a_tool_that_fails(server: McpServer) -> None:
    box = Toolbox(server)
    given = box.call(Call("fail", {"reason": "none"}))
    assert given.problem == "raised"
    assert given.text.startswith("fail failed: ")
    assert box.call(Call("add", {"first": 2})).text == "3"


def test_long_results_are_truncated(server: McpServer) -> None:
    text = Toolbox(server).call(Call("long", {"count": 10_000})).text
    assert len(text) <= 4000
    assert "characters left out" in text


def test_the_server_survives_a_call_that_times_out(server: McpServer) -> None:
    box = Toolbox(server)
    server.seconds = 0.2
    try:
        given = box.call(Call("wait", {"seconds": 30.0}))
    finally:
        server.seconds = PATIENT
    assert given.problem == "late"
    assert "got no response within 0.2 s from the MCP server" in given.text
    assert box.call(Call("add", {"first": 2})).text == "3"


def test_every_call_reports_a_server_that_died() -> None:
    with McpServer([sys.executable, TOY], seconds=PATIENT, start_seconds=PATIENT) as started:
        box = Toolbox(started)
        for _ in range(2):
            given = box.call(Call("die", {}))
            assert given.problem == "gone"
            assert "mcp_server.py' has ended (this is the end)" in given.text


def test_closing_ends_the_process() -> None:
    started = McpServer([sys.executable, TOY], seconds=PATIENT, start_seconds=PATIENT)
    box = Toolbox(started)
    pid = int(box.call(Call("process", {})).text)
    box.close()
    assert gone(pid)
    assert box.call(Call("process", {})).problem == "gone"
    box.close()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ([sys.executable, TOY, "--silent"], "did not list its tools within 2 s"),
        ([sys.executable, TOY, "--broken"], "did not start: no database at this address"),
        (["no-such-program-anywhere"], "did not start: .*No such file"),
        ("python server.py", "command must be a non-empty list .* or a URL"),
        ([], "command must be a non-empty list"),
    ],
)
def test_a_server_that_does_not_start_is_explained(command: list[str], why: str) -> None:
    seconds = 2.0 if "--silent" in command else PATIENT
    with pytest.raises(ServerFailed, match=why):
        McpServer(command, start_seconds=seconds)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ServerFailed, match=re.escape(installation_command("mcp"))):
        McpServer(["python"])
