"""The MCP client with a real server over streamable HTTP on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys.ports import reserved_port

from turncredit.tools.functions import Call, McpServer, ServerFailed, Toolbox

pytestmark = pytest.mark.waits

pytest.importorskip("mcp", reason="the extra mcp is not installed")

TOY = str(Path(__file__).resolve().parent.parent / "toys" / "mcp_server.py")
PATIENT = 120.0


@pytest.fixture
def url() -> Iterator[str]:
    with reserved_port() as port:
        server = subprocess.Popen([sys.executable, TOY, "--http", str(port)], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENT
            while not accepts(port):
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()
            server.wait()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_tools_over_http_work_like_those_over_stdio(url: str) -> None:
    with McpServer(url, seconds=PATIENT, start_seconds=PATIENT) as server:
        box = Toolbox(server)
        assert box.names == ["add", "people_find", "fail", "long", "wait", "die", "process"]
        assert box.call(Call("add", {"first": 2, "second": 3})).text == "5"
        assert box.call(Call("add", {"frist": 2})).problem == "arguments"
        failed = box.call(Call("fail", {"reason": "none"}))
        assert (failed.problem, failed.text[:13]) == ("raised", "fail failed: ")
        server.seconds = 0.2
        late = box.call(Call("wait", {"seconds": 30.0}))
        server.seconds = PATIENT
        assert (late.problem, f"within 0.2 s from the MCP server '{url}'" in late.text) == ("late", True)
        assert box.call(Call("add", {"first": 2})).text == "3"


def test_two_clients_share_a_server_and_closing_one_leaves_it_running(url: str) -> None:
    with McpServer(url, seconds=PATIENT, start_seconds=PATIENT) as second:
        with McpServer(url, seconds=PATIENT, start_seconds=PATIENT) as first:
            pid = Toolbox(first).call(Call("process", {})).text
            used = Toolbox(first)
        assert used.call(Call("process", {})).problem == "gone"
        assert Toolbox(second).call(Call("process", {})).text == pid


def test_every_call_reports_a_server_that_is_gone(url: str) -> None:
    with McpServer(url, seconds=PATIENT, start_seconds=PATIENT) as server:
        box = Toolbox(server)
        for name in ("die", "process"):
            given = box.call(Call(name, {}))
            assert given.problem == "gone"
            assert f"the MCP server '{url}' has ended" in given.text


def test_a_server_that_does_not_answer_is_explained(url: str) -> None:
    with pytest.raises(ServerFailed, match=f"the MCP server '{url}x' did not start: .*Not Found"):
        McpServer(f"{url}x", start_seconds=PATIENT)
    with reserved_port() as port:
        nobody = f"http://127.0.0.1:{port}/mcp"
        with pytest.raises(ServerFailed, match=f"the MCP server '{nobody}' did not start: ConnectError"):
            McpServer(nobody, start_seconds=PATIENT)


def test_headers_reach_the_server() -> None:
    """A server that wants a key: it answers 401 to everything, and notes what it was sent."""
    opened = socket.create_server(("127.0.0.1", 0))
    with opened:
        address = f"http://127.0.0.1:{opened.getsockname()[1]}/mcp"
        import threading

        heard: list[bytes] = []

        def answer() -> None:
            connection, _ = opened.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(ServerFailed):
            McpServer(address, headers={"Authorization": "Bearer KEY"}, start_seconds=PATIENT)
        thread.join(PATIENT)
    assert b"authorization: Bearer KEY" in heard[0] or b"Authorization: Bearer KEY" in heard[0]
