"""A folder of pages on loopback: what a browser needs to open files as a web site.

Files are read-only, nothing outside the folder is given out (links that lead outside included), folders are not
listed. Left out on purpose: anything that is not on the same machine.
"""

from __future__ import annotations

import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["Folder", "folder"]


class _Files(SimpleHTTPRequestHandler):
    """Answers with files of one folder, on connections that stay open."""

    protocol_version = "HTTP/1.1"

    def translate_path(self, path: str) -> str:
        """Return the file behind a path; one that cannot exist where the path leads out of the folder."""
        found = Path(super().translate_path(path)).resolve()
        inside = found.is_relative_to(Path(self.directory).resolve())
        return str(found) if inside and found.is_file() else str(Path(self.directory) / "\0none")

    def send_head(self) -> Any:
        """Open the file; what is none is 404."""
        if self.translate_path(self.path).endswith("\0none"):
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the pages of an episode are no news."""


class _Server(ThreadingHTTPServer):
    """Keeps quiet about tabs that were closed before they had their answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


class Folder:
    """A folder served on a free port of 127.0.0.1 by threads of this process, until `close` or the end of it."""

    def __init__(self, path: str | Path) -> None:
        """Start to serve `path`."""
        self._server = _Server(("127.0.0.1", 0), partial(_Files, directory=str(path)))
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="turnwise-folder", daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


@cache
def folder(path: str) -> Folder:
    """Return the one server of a folder in this process."""
    return Folder(path)
