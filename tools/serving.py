"""Applications on a port of this machine: in the foreground for people, in a thread for whoever needs one at hand.

    ServingError
    ├── PortInUse      the port is taken, reserved, or none; or the host is not this machine
    └── NotServing     the server did not begin to answer

Left out on purpose: passwords, encryption and several processes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

__all__ = ["NotServing", "PortInUse", "ServingError", "address", "listen", "need", "run", "running"]

_MISSING: Final = "serving needs fastapi, jinja2 and uvicorn: pip install turnwise[serve]"

_BEGIN: Final = 60.0  # seconds for a thread to begin
_END: Final = 10.0  # and to end

_PATIENT: Final = (
    120  # seconds that an idle connection is kept: longer than clients do, which are else cut off at times
)


class ServingError(Exception):
    """Root of what can keep an application from being served; its text is one sentence for the user."""


class PortInUse(ServingError):
    """Another program listens there, this one may not, or there is no such place."""


class NotServing(ServingError):
    """The server did not begin to answer in time."""


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: address of this machine.
        port: 0 for any free one.

    Raises:
        PortInUse: the port is taken or reserved, there is none of that number, or the host is not this machine.
    """
    if not 0 <= port <= 65535:
        raise PortInUse(f"a port is a number from 0 (any free one) to 65535; got {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as wrong:
        raise PortInUse(f"{host!r} is no address of this machine ({wrong.strerror})") from wrong
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(512)
    except OSError as wrong:
        opened.close()
        raise PortInUse(
            f"cannot listen on {host} port {port}: {wrong.strerror}; choose another port, or 0 for any"
        ) from wrong
    return opened


def need() -> None:
    """See that what serves is installed, before anything that takes time.

    Raises:
        ImportError: it is not.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise ImportError(_MISSING) from missing


def run(app: FastAPI, opened: socket.socket) -> None:
    """Serve until Ctrl-C, then end in order.

    Args:
        app: what to serve.
        opened: from `listen`; closed at the end.

    Raises:
        ImportError: uvicorn is not installed.
    """
    try:
        _server(app).run(sockets=[opened])
    except KeyboardInterrupt:  # uvicorn ends first, then hands the signal on
        pass
    finally:
        opened.close()


@contextmanager
def running(app: FastAPI, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve in a thread while the block runs; gives the address, without a slash at its end.

    Args:
        app: what to serve.
        host: address of this machine.
        port: 0 for any free one.

    Raises:
        ImportError: uvicorn is not installed.
        PortInUse: the port is taken.
        NotServing: it did not begin to answer.
    """
    opened = listen(host, port)
    try:
        server = _server(app)
        thread = Thread(target=server.run, kwargs={"sockets": [opened]}, name="server", daemon=True)
        thread.start()
        _await(server, thread)
        try:
            yield address(opened)
        finally:
            server.should_exit = True
            thread.join(_END)
    finally:
        opened.close()


def address(opened: socket.socket) -> str:
    """Return the address under which a listening socket is reached."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _await(server: Server, thread: Thread) -> None:
    limit = time.monotonic() + _BEGIN
    while not server.started:
        if not thread.is_alive() or time.monotonic() > limit:
            server.should_exit = True
            raise NotServing(f"the server did not begin to answer within {_BEGIN:.0f} s")
        time.sleep(0.005)


def _server(app: FastAPI) -> Server:
    try:
        import uvicorn
    except ImportError as missing:
        raise ImportError(_MISSING) from missing
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            server_header=False,
            ws="none",
            timeout_keep_alive=_PATIENT,
            timeout_graceful_shutdown=2,
        )
    )
