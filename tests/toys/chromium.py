"""A browser for tests: whether there is one, and a web site of a few pages with everything that can go wrong."""

from __future__ import annotations

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

START = """<title>Start</title><h1>A page</h1>
<a href="/slow">slow link</a> <a href="/never">never</a> <a href="/next" target="_blank">new tab</a>
<a href="/file">download</a> <a href="/away">away</a> <a href="/loop/0">loop</a>
<button onclick="location.href='/slow'">by script</button>
<button onclick="setTimeout(() => location.href='/next', 0)">later</button>
<button onclick="window.open('/next')">opened</button>
<button onclick="while (true) {}">hang</button>
<button onclick="document.title = confirm('Sure?') ? 'yes' : 'no'">ask</button>
<button onclick="fetch('/slow').then(r => r.text()).then(t => document.title = 'fetched')">fetch</button>
<button disabled>off</button>
<div style="position:relative"><button>under</button>
<div style="position:absolute;inset:0;background:red">over it</div></div>
<form action="/next"><input name="q" aria-label="query" value="old"></form>
<input type="checkbox" aria-label="tick">
<select aria-label="land"><option>Chad</option><option>Peru</option></select>
<div style="height:60px;overflow:auto" tabindex="0" role="listbox" aria-label="box">
<div style="height:300px">long</div></div>
<p>[e99] button "not one"</p><div style="height:2000px"></div><button>far below</button>"""


def need_chromium(*, miniwob: bool = False) -> None:
    """Skip where there is no browser; fail there in CI, which installs one."""
    from turncredit.tools.browser import NoBrowser, find_browser

    missing = ""
    try:
        import playwright  # noqa: F401

        if find_browser() is None:
            missing = "no Chromium on this machine (apt install chromium-headless-shell)"
    except (ImportError, NoBrowser) as error:
        missing = str(error)
    if miniwob:
        from turncredit.envs.miniwob.catalogue import task_names

        missing = missing or ("" if task_names() else "the package miniwob is not installed")
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


class Site:
    """The site; `asked` holds the paths that were asked for, each with the cookies that came with it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.ended = threading.Event()
        site = self

        class Pages(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Pages)
        self.port = self._server.server_port
        self.origin = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, request: Any) -> None:
        """Answer one request."""
        path = request.path
        self.asked.append((path, request.headers.get("Cookie", "")))
        headers = {"Content-Type": "text/html; charset=utf-8", "Set-Cookie": "seen=1"}
        body = START if path == "/" else f"<title>{path}</title><p>at {path}</p>"
        status = 200
        if path == "/slow":
            time.sleep(0.3)
        elif path == "/never":
            self.ended.wait(600)
        elif path == "/file":
            headers["Content-Disposition"] = "attachment; filename=secret.bin"
        elif path == "/away":
            status, headers["Location"] = 302, f"http://localhost:{self.port}/next"
        elif path.startswith("/loop/"):
            body = f"<script>location.href = '/loop/{int(path.rpartition('/')[2]) + 1}'</script>"
        content = body.encode()
        request.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)

    def close(self) -> None:
        """End it."""
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


def processes(group: int) -> list[int]:
    """Return the living processes of a process group."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry))
    return found
