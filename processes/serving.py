"""Web applications on a port of this machine, in the foreground or in a thread.

    ServingError
    ├── PortInUse      the port is taken, reserved or invalid, or the host is not this machine
    └── NotServing     the server did not start in time

Every application is behind `turncredit.processes.request_guard`. It may set `app.state.content_types` and
`app.state.max_body`, of the bodies that it takes.

Not included: authentication, encryption, several processes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, cast

from turncredit.installation import MissingPackage, needs
from turncredit.processes.request_guard import JSON, MAX_BODY, App, RequestGuard, rules_for

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

__all__ = [
    "NotServing",
    "PortInUse",
    "ServingError",
    "listen",
    "require_packages",
    "serve_forever",
    "serve_in_thread",
    "url_of",
]

_MISSING: Final = "serving needs fastapi, jinja2 and uvicorn"

_START: Final = 60.0  # seconds for a thread to start
_STOP: Final = 10.0  # and to stop
_KEEP_ALIVE: Final = 120  # seconds for an idle connection; clients give up earlier, so that they are never cut off


class ServingError(Exception):
    """Base class of errors that prevent serving; the message is one sentence for the user."""


class PortInUse(ServingError):
    """The port is taken, reserved or invalid, or the host is not this machine."""


class NotServing(ServingError):
    """The server did not start in time."""


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a listening socket.

    Args:
        host: address of this machine.
        port: 0: any free port.

    Raises:
        PortInUse: the port is taken, reserved or invalid, or the host is not this machine.
    """
    if not 0 <= port <= 65535:
        raise PortInUse(f"port must be from 0 (any free port) to 65535, got {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PortInUse(f"host must be an address of this machine, got {host!r} ({error.strerror})") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(512)
    except OSError as error:
        opened.close()
        reason = f"{error.strerror}; choose another port, or 0 for any free one"
        raise PortInUse(f"cannot listen on {host} port {port}: {reason}") from error
    return opened


def require_packages() -> None:
    """Check that the packages for serving are installed.

    Raises:
        ImportError: a package is missing.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "serve")) from missing


def serve_forever(app: FastAPI, opened: socket.socket, *, websockets: bool = False, names: Sequence[str] = ()) -> None:
    """Serve until Ctrl-C.

    Args:
        app: the application.
        opened: a socket from `listen`; closed in the end.
        names: further names of this machine, under which clients may reach it.
        websockets: whether the application has websockets and functions to call at its start and end.

    Raises:
        ImportError: uvicorn is not installed.
    """
    try:
        _server(app, opened, websockets, names).run(sockets=[opened])
    except KeyboardInterrupt:  # uvicorn shuts down, then raises the signal again
        pass
    finally:
        opened.close()


@contextmanager
def serve_in_thread(app: FastAPI, host: str = "127.0.0.1", port: int = 0, *, websockets: bool = False) -> Iterator[str]:
    """Serve in a thread during a `with` block; yields the URL without a trailing slash.

    Args:
        app: the application.
        host: address of this machine.
        port: 0: any free port.
        websockets: see `serve_forever`.

    Raises:
        ImportError: uvicorn is not installed.
        PortInUse: see `listen`.
        NotServing: the server did not start in time.
    """
    opened = listen(host, port)
    try:
        server = _server(app, opened, websockets, ())
        thread = Thread(target=server.run, kwargs={"sockets": [opened]}, name="server", daemon=True)
        thread.start()
        _wait_for_start(server, thread)
        try:
            yield url_of(opened)
        finally:
            server.should_exit = True
            thread.join(_STOP)
    finally:
        opened.close()


def url_of(opened: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _wait_for_start(server: Server, thread: Thread) -> None:
    deadline = time.monotonic() + _START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            server.should_exit = True
            raise NotServing(f"the server did not start within {_START:.0f} s")
        time.sleep(0.005)


def _server(app: FastAPI, opened: socket.socket, websockets: bool, names: Sequence[str]) -> Server:
    try:
        import uvicorn
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "serve")) from missing
    state = getattr(app, "state", None)
    rules = rules_for(
        opened.getsockname()[0],
        names,
        content_types=getattr(state, "content_types", (JSON,)),
        max_body=getattr(state, "max_body", MAX_BODY),
    )
    guarded: Any = RequestGuard(cast(App, app), rules)
    server = uvicorn.Server(
        uvicorn.Config(
            guarded,
            log_level="error",
            access_log=False,
            lifespan="on" if websockets else "off",
            server_header=False,
            ws="auto" if websockets else "none",
            ws_max_size=MAX_BODY,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=2,
        )
    )
    if state is not None:  # an application of starlette
        app.state.closing = lambda: server.should_exit  # for answers without an end, which must stop then
    return server
