"""A local server that answers what the client of the Hugging Face Hub asks when it downloads a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMITS = {"main": "a" * 40, "v1": "b" * 40}
"""Branches and tags of every model, with their commits."""


class Hub(ThreadingHTTPServer):
    """Models by name: a folder each. `gated` and `huge` name models whose terms or whose size stop a download."""

    def __init__(self, models: dict[str, Path], *, gated: str = "", huge: str = "", broken: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.models, self.gated, self.huge, self.broken = models, gated, huge, broken
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        words = path.strip("/").split("/")
        if words[:2] == ["api", "models"]:
            self._describe("/".join(words[2:4]), words[4:])
        else:
            self._file("/".join(words[:2]), words[3], "/".join(words[4:]))

    def _describe(self, repo: str, rest: list[str]) -> None:
        if repo == self.server.broken:
            return self._send(400, b"{}")
        if repo not in self.server.models:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        revision = rest[1] if len(rest) > 1 else "main"
        commit = COMMITS.get(revision, revision if revision in COMMITS.values() else "")
        if not commit:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        files = self._files(repo)
        if rest[0] == "tree":
            tree = [{"type": "file", "path": name, "size": size, "oid": "0" * 40} for name, size in files.items()]
            return self._send(200, json.dumps(tree).encode())
        siblings = [{"rfilename": name, "size": size} for name, size in files.items()]
        return self._send(200, json.dumps({"id": repo, "modelId": repo, "sha": commit, "siblings": siblings}).encode())

    def _files(self, repo: str) -> dict[str, int]:
        folder = self.server.models[repo]
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*.*")}
        return {name: 10**18 if repo == self.server.huge else size for name, size in sizes.items()}

    def _file(self, repo: str, commit: str, name: str) -> None:
        if repo == self.server.gated:
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        data = (self.server.models[repo] / name).read_bytes()
        commit = COMMITS.get(commit, commit)
        return self._send(200, data, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Answer requests in a thread."""
    thread = Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
