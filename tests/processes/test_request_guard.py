"""No web page of another site can use a server on this machine, and no large request keeps the others waiting."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from toys.report_runs import write_run

from turncredit.cli.main import app as turncredit
from turncredit.envs.shop.sources import GeneratedProducts
from turncredit.processes.request_guard import RequestRules, refusal, rules_for
from turncredit.processes.serving import serve_in_thread
from turncredit.report.run_report.report_data import open_report
from turncredit.report.run_report.server import LiveServer
from turncredit.tools.browser.static_site import StaticSite
from turncredit.tools.retrieval.library import Library
from turncredit.tools.retrieval.passages import Passage, Passages
from turncredit.tools.retrieval.server import create_app as search_app

for package in ("fastapi", "jinja2", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

LOCAL = rules_for("127.0.0.1")
OPEN = rules_for("0.0.0.0", ["Search.Example"])
ROWS = [("0", '"Tea"\nTea is a hot drink.'), ("1", '"Rye"\nRye is a grass.')]


@pytest.mark.parametrize(
    ("rules", "host", "status"),
    [
        (LOCAL, "127.0.0.1:8000", None),
        (LOCAL, "127.8.9.1", None),
        (LOCAL, "LocalHost:1", None),
        (LOCAL, "[::1]:8000", None),
        (LOCAL, "evil.example:8000", 403),
        (LOCAL, "127.0.0.1.evil.example", 403),
        (LOCAL, "localhost.evil.example", 403),
        (LOCAL, "192.168.0.7:8000", 403),
        (LOCAL, "localhost@evil.example", 403),
        (LOCAL, "localhost:80:80", 403),
        (LOCAL, "", 403),
        (OPEN, "192.168.0.7:8000", None),
        (OPEN, "[fe80::1]:8000", None),
        (OPEN, "search.example:8000", None),
        (OPEN, "localhost", None),
        (OPEN, "evil.example", 403),
    ],
)
def test_a_request_is_addressed_to_this_machine(rules: RequestRules, host: str, status: int | None) -> None:
    refused = refusal(rules, "GET", [("host", host)])
    assert (refused and refused.status) == status


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, None),
        ("GET", {"origin": "http://localhost:1"}, None),
        ("GET", {"origin": "https://LOCALHOST:1"}, None),
        ("GET", {"origin": "http://localhost:2"}, 403),
        ("GET", {"origin": "http://evil.example"}, 403),
        ("GET", {"origin": "null"}, 403),
        ("POST", {"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ("POST", {"origin": "null", "sec-fetch-site": "same-origin"}, None),
        ("GET", {"sec-fetch-site": "cross-site"}, 403),
        ("GET", {"sec-fetch-site": "same-site"}, 403),
        ("GET", {"sec-fetch-site": "none"}, None),
        ("OPTIONS", {"origin": "http://evil.example", "access-control-request-method": "POST"}, 403),
        ("POST", {"content-length": "0"}, None),
        ("POST", {"content-length": "5", "content-type": "application/json; charset=utf-8"}, None),
        ("POST", {"content-length": "5", "content-type": "text/plain"}, 415),
        ("POST", {"content-length": "5"}, 415),
        ("POST", {"transfer-encoding": "chunked", "content-type": "text/plain;application/json"}, 415),
        ("PUT", {"content-length": "5", "content-type": "multipart/form-data"}, 415),
        ("POST", {"content-length": str(1 << 40), "content-type": "application/json"}, 413),
        ("POST", {"content-length": "9" * 4000, "content-type": "application/json"}, 413),
    ],
)
def test_pages_of_other_sites_are_refused(method: str, headers: dict[str, str], status: int | None) -> None:
    refused = refusal(LOCAL, method, [("host", "localhost:1"), *headers.items()])
    assert (refused and refused.status) == status
    assert refused is None or refused.sentence


def test_two_hosts_are_none() -> None:
    assert refusal(LOCAL, "GET", [("host", "localhost"), ("host", "evil.example")]) is not None
    assert refusal(LOCAL, "GET", []) is not None


# every server


@contextmanager
def search(folder: Path) -> Iterator[str]:
    with serve_in_thread(search_app(Library(Passages.of(ROWS)))) as url:
        yield url


@contextmanager
def shop(folder: Path) -> Iterator[str]:
    from turncredit.envs.shop.env import WebShopEnv
    from turncredit.envs.shop.site.app import create_app

    env = WebShopEnv(GeneratedProducts(level="tiny"))
    with serve_in_thread(create_app(env.shop, env.source)) as url:
        yield url


@contextmanager
def androidworld(folder: Path) -> Iterator[str]:
    from turncredit.envs.android.androidworld_server import create_app

    with serve_in_thread(create_app()) as url:
        yield url


@contextmanager
def phone(folder: Path) -> Iterator[str]:
    from turncredit.envs.android.site.app import create_app
    from turncredit.envs.android.site.player import Choice, PhonePlayer

    player = PhonePlayer(Choice(free=True, seed=0))
    try:
        with serve_in_thread(create_app(player)) as url:
            yield url
    finally:
        player.close()


@contextmanager
def environment(folder: Path) -> Iterator[str]:
    """An application with a websocket, as OpenEnv's."""
    from fastapi import FastAPI

    app = FastAPI()

    async def echo(socket: Any) -> None:
        await socket.accept()
        await socket.send_text(await socket.receive_text())

    app.router.add_websocket_route("/ws", echo)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    with serve_in_thread(app, websockets=True) as url:
        yield url


@contextmanager
def report(folder: Path) -> Iterator[str]:
    server = LiveServer(open_report(write_run(folder / "run", iterations=1)))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server.url.rstrip("/")
    finally:
        server.close()
        thread.join()


@contextmanager
def files(folder: Path) -> Iterator[str]:
    (folder / "page.html").write_text("<p>private", encoding="utf-8")
    site = StaticSite(folder)
    try:
        yield site.origin
    finally:
        site.close()


SERVERS = [
    (search, "/health", "/retrieve", "application/json"),
    (shop, "/me", "/me", "application/x-www-form-urlencoded"),
    (androidworld, "/health", "/reset?go_home=true", "application/json"),
    (phone, "/state", "/say", "application/json"),
    (environment, "/health", "/reset", "application/json"),
    (report, "/", "", ""),
    (files, "/page.html", "", ""),
]


def ask(url: str, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, bytes]:
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(("serve", "get", "post", "kind"), SERVERS, ids=[entry[0].__name__ for entry in SERVERS])
def test_every_server_is_behind_the_guard(
    serve: Callable[[Path], Any], get: str, post: str, kind: str, tmp_path: Path
) -> None:
    with serve(tmp_path) as url:
        own = url.rpartition(":")[2]
        assert ask(url, "GET", get, {})[0] == 200
        assert ask(url, "GET", get, {"Sec-Fetch-Site": "same-origin"})[0] == 200
        for headers in (
            {"Host": f"evil.example:{own}"},
            {"Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        ):
            status, body = ask(url, "GET", get, headers)
            assert status == 403, headers
            assert b"private" not in body
        if not post:
            return
        assert ask(url, "POST", post, {"Origin": "http://evil.example", "Content-Type": kind}, b"{}")[0] == 403
        assert ask(url, "POST", post, {"Content-Type": "text/plain"}, b"{}")[0] == 415
        assert ask(url, "POST", post, {"Content-Type": kind}, b" " * (17 << 20))[0] == 413
        assert ask(url, "GET", get, {})[0] == 200


def test_a_body_in_pieces_has_the_same_limit(tmp_path: Path) -> None:
    with phone(tmp_path) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("POST", "/say", iter([b" " * 40_000] * 2), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 413


def test_pages_of_other_sites_open_no_websocket(tmp_path: Path) -> None:
    client = pytest.importorskip("websockets.sync.client")
    exceptions = pytest.importorskip("websockets.exceptions")
    with environment(tmp_path) as url:
        address = url.replace("http", "ws") + "/ws"
        with client.connect(address) as socket:
            socket.send("hello")
            assert socket.recv() == "hello"
        with pytest.raises(exceptions.InvalidStatus, match="403"):
            client.connect(address, origin="http://evil.example")


def test_a_page_of_another_site_buys_nothing(tmp_path: Path) -> None:
    """An image whose address is a purchase would else add a demonstration to a training file."""
    from turncredit.cli.serving.commands import _environment, _saver
    from turncredit.envs.shop.session import Page
    from turncredit.envs.shop.site.addresses import href
    from turncredit.envs.shop.site.app import create_app

    options = {"level": "tiny", "split": "train", "goals": None}
    env = _environment([], options, reward="original", seed=0, observation="text")
    file = tmp_path / "mine.jsonl"
    name = env.task_ids()[0].replace("/", "-")
    asin = env.shop.catalogue[0].asin
    address = href(name, Page("done", asin=asin))
    with serve_in_thread(create_app(env.shop, env.source, on_purchase=_saver(env, file))) as url:
        assert ask(url, "GET", address, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"})[0] == 403
        assert not file.exists()


def test_names_are_added_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert not turncredit(["serve", "search", "--help"], standalone_mode=False)
    assert "--name" in capsys.readouterr().out


class Slow:
    """A library whose time grows with the queries, as BM25's does."""

    def find(self, query: str, k: int = 3) -> list[Passage]:
        return self.find_batch([query], k)[0]

    def find_batch(self, queries: Sequence[str], k: int = 3) -> list[list[Passage]]:
        time.sleep(sum(map(len, queries)) * 3e-7)
        return [[] for _ in queries]


def test_a_large_request_leaves_the_others_their_turn() -> None:
    large = json.dumps({"queries": ["x" * 1_900] * 7_900}).encode()
    assert 14_000_000 < len(large) < 16 << 20
    small = json.dumps({"queries": ["tea"]}).encode()
    kind = {"Content-Type": "application/json"}
    with serve_in_thread(search_app(Slow())) as url:
        whole: list[float] = []

        def send() -> None:
            begun = time.monotonic()
            assert ask(url, "POST", "/retrieve", kind, large)[0] == 200
            whole.append(time.monotonic() - begun)

        thread = threading.Thread(target=send)
        thread.start()
        waits: list[float] = []
        while thread.is_alive():
            begun = time.monotonic()
            assert ask(url, "POST", "/retrieve", kind, small)[0] == 200
            waits.append(time.monotonic() - begun)
        thread.join()
    assert whole[0] > 3
    assert len(waits) > 20
    assert statistics.median(waits) < 0.5
    assert max(waits) < whole[0] / 4


def test_a_page_speaks_no_adb_and_no_console(tmp_path: Path) -> None:
    """The body of a request to their ports would else be read as commands."""
    from turncredit.phone import Phone
    from turncredit.phone.adb.server import AdbServer

    phone = Phone(seed=0)
    with AdbServer(phone, console_port=0) as server:
        for port in (server.port, server.console_port):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as page:
                body = b"rotate\nrotate\n"
                head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
                page.sendall(head.encode() + body)
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    while piece := page.recv(4096):
                        answer += piece
            assert b"unknown command" not in answer
    assert phone.rotation == 0
