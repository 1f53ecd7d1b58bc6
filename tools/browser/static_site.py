"""Serve a directory of pages on 127.0.0.1, so that a browser can open the files as a web site.

Files are read-only, files outside of the directory are not served (not even through links), and directories are not
listed.
"""

from __future__ import annotations

import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from turncredit.processes.request_guard import refusal, rules_for

__all__ = ["StaticSite", "static_site"]

_RULES = rules_for("127.0.0.1")


class _FileHandler(SimpleHTTPRequestHandler):
    """Serves the files of one directory over persistent connections."""

    protocol_version = "HTTP/1.1"

    def translate_path(self, path: str) -> str:
        """Return the file for a URL path; an impossible path if it is not a file in the directory."""
        file = Path(super().translate_path(path)).resolve()
        inside = file.is_relative_to(Path(self.directory).resolve())
        return str(file) if inside and file.is_file() else str(Path(self.directory) / "\0none")

    def send_head(self) -> Any:
        """Open the file, or send an error status."""
        if refused := refusal(_RULES, self.command, [(name.lower(), value) for name, value in self.headers.items()]):
            self.send_error(refused.status, explain=refused.sentence)
            return None
        if self.translate_path(self.path).endswith("\0none"):
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


class _QuietServer(ThreadingHTTPServer):
    """A server that ignores tabs that were closed before they received the response."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error."""


class StaticSite:
    """A directory served on a free port of 127.0.0.1, by threads of this process, until `close`.

    Attributes:
        origin: "http://127.0.0.1:PORT".
    """

    def __init__(self, path: str | Path) -> None:
        self._server = _QuietServer(("127.0.0.1", 0), partial(_FileHandler, directory=str(path)))
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="turncredit-static-site", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


@cache
def static_site(path: str) -> StaticSite:
    """Return the site of a directory, started once per process."""
    return StaticSite(path)
