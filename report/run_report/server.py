"""A live report on this machine: the page, what is new since a revision, and the turns of an iteration on request.

It listens on 127.0.0.1 only, keeps other web sites away (`turncredit.processes.request_guard`), and reads only the
folder that it was started for: a request holds numbers, never a path.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from turncredit.processes.request_guard import refusal, rules_for
from turncredit.report.run_report import iterations
from turncredit.report.run_report.html import page
from turncredit.report.run_report.screens import Screens

if TYPE_CHECKING:
    from turncredit.report.run_report.report_data import ReportData

HOST = "127.0.0.1"
_CHUNK = re.compile(r"/(\d{1,4}:)?(turns|tokens|screens)/(\d{1,9})(?:/(\d{1,9}))?")
_NEWS = re.compile(r"/news\?since=(\d{1,9})")
_RULES = rules_for(HOST)


class LiveServer:
    """Serves the report of a run; `url` is its address. Close it with `close`.

    Args:
        data: what is reported.
        port: 0: any free port.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, data: ReportData, port: int = 0) -> None:
        self._data, self._refreshing = data, threading.Lock()
        live = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def do_GET(self) -> None:
                live.answer(self)

            def log_message(self, *_: object) -> None:
                """Keep the terminal quiet."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A reader who leaves early is no error."""

        self._server = Server((HOST, port), Handler)
        self.url = f"http://{HOST}:{self._server.server_port}/"

    def serve(self) -> None:
        """Answer requests until `close` is called in another thread, or until Ctrl-C."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        kind, content = "text/plain; charset=utf-8", b"not found\n"
        status = 404
        headers = [(name.lower(), value) for name, value in request.headers.items()]
        if refused := refusal(_RULES, request.command, headers):
            status, content = refused.status, f"{refused.sentence}\n".encode("utf-8", errors="backslashreplace")
        elif request.path == "/":
            status, kind, content = 200, "text/html; charset=utf-8", self._page()
        elif match := _NEWS.fullmatch(request.path):
            status, kind, content = 200, "application/json", self._news(int(match[1]))
        elif match := _CHUNK.fullmatch(request.path):
            only = None if match[4] is None else int(match[4])
            chunk = self._chunk(match[1] or "", match[2], int(match[3]), only)
            if chunk is not None:
                status, kind, content = 200, "application/gzip", chunk
        _send(request, status, kind, content)

    def _page(self) -> bytes:
        text = page({"revision": 0, "from": 0, "parts": {}, "kept": None}, {}, live=True)
        return text.encode("utf-8", errors="backslashreplace")

    def _news(self, since: int) -> bytes:
        with self._refreshing:
            self._data.refresh()
            return json.dumps(self._data.since(since), separators=(",", ":")).encode("ascii")

    def _chunk(self, prefix: str, kind: str, number: int, only: int | None) -> bytes | None:
        """Return turns, tokens or stored images of one file, or of one of its groups; None if there is no such file.

        It waits for no other answer but one that reads the same file.
        """
        source = self._data.sources().get(prefix)
        if source is None or number not in source.files():
            return None
        iteration = self._data.read(number, prefix)
        if kind == "screens":
            screens = Screens()
            screens.add_stored(iteration, float("inf"), only)
            return iterations.packed(screens.content())
        if kind == "tokens":
            return iterations.packed(iterations.tokens(iteration, self._data.pieces(prefix), only))
        return iterations.packed(iterations.turns(iteration, source.settings, only))


def _send(request: BaseHTTPRequestHandler, status: int, kind: str, content: bytes) -> None:
    """Send an answer; what the browser has already is not sent again."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if status == 200 and request.headers.get("If-None-Match") == tag:
        status, content = 304, b""
    request.send_response(status)
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(content)),
        "Cache-Control": "no-cache",
        "ETag": tag,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Frame-Options": "DENY",
    }
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)
