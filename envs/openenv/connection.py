"""One session on an OpenEnv server: a WebSocket with JSON messages, and HTTP for what is known before an episode.

    {"type": "reset", "data": {"seed": 0}}     answered by {"type": "observation", "data": {"observation", ...}}
    {"type": "step", "data": {action}}         the same
    {"type": "state"}                          answered by {"type": "state", "data": {...}}
    {"type": "error", "data": {"message", "code"}}

The server keeps one environment for each connection. The package `openenv` is not needed.

Not included: OpenEnv's tools over its MCP endpoint (its tool actions are steps), containers, and authentication.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin, urlsplit

from turncredit.envs.errors import DeadlineExceeded, EnvError, EnvironmentDied, UnknownOption
from turncredit.installation import needs
from turncredit.tools.bounded_input import InputError, bounded, parse_json

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

__all__ = ["ActionRefused", "OpenEnvConnection", "SessionRefused"]

_MISSING: Final = "a client of OpenEnv needs the package websockets"
_MAX_BYTES: Final = 64 << 20  # of an answer
_REDIRECTS: Final = 3  # of one request
_REFUSED: Final = ("VALIDATION_ERROR", "INVALID_JSON")
_NO_SESSION: Final = ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
_PATIENCE: Final = 1.0
"""Seconds to wait for a place on a full server, which needs a moment to notice that a client has gone."""


class ActionRefused(EnvError):
    """The server did not take a message, because it does not fit the server's schema."""


class SessionRefused(EnvError):
    """The server has no environment for this client: it is full, or cannot make one."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer over HTTP."""

    status: int
    location: str
    text: bytes


class _Ending:
    """Ends a connection at a time, whatever it waits for: limits of single reads do not bound a slow answer."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection, self.reached = connection, False
        seconds = min(max(end - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        self._timer = threading.Timer(seconds, self._reach)
        self._timer.daemon = True
        self._timer.start()

    def _reach(self) -> None:
        self.reached = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def cancel(self) -> None:
        """Leave the connection alone."""
        self._timer.cancel()


def opened_connection(address: str, seconds: float) -> closing[http.client.HTTPConnection]:
    """Return a connection for an address, without the proxies of this machine; it is closed after a block."""
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return closing(kind(parts.hostname or "", parts.port, timeout=seconds))


class OpenEnvConnection:
    """A client of an OpenEnv server; it connects with the first message, and again after an error.

    Args:
        url: address of the server, "http://..." or "ws://...".
        deadline: seconds for a connection and for each answer.

    Raises:
        UnknownOption: the address is invalid.
    """

    def __init__(self, url: str, deadline: float) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise UnknownOption(
                f"url must be the address of an OpenEnv server such as http://127.0.0.1:8000, got {url!r}"
            )
        if parts.username or parts.password:
            raise UnknownOption(f"the url of the server {parts.hostname} must not contain a password")
        path = parts.path.rstrip("/").removesuffix("/ws")
        secure = "s" if parts.scheme in ("https", "wss") else ""
        self.url = f"http{secure}://{parts.netloc}{path}"
        self._address = f"ws{secure}://{parts.netloc}{path}/ws"
        self._deadline = deadline
        self._socket: ClientConnection | None = None
        self._opened = ExitStack()

    def fetch(self, path: str, body: Mapping[str, object] | None = None) -> object | None:
        """Return the JSON that the server answers to a request over HTTP, or None where it has no such page.

        Args:
            path: names from the root of the server, such as "schema".
            body: sent with POST; None: GET.

        Raises:
            EnvironmentDied: the server cannot be reached.
            EnvError: it answers with something else than JSON.
        """
        address = f"{self.url}/{quote(path)}"
        data = None if body is None else json.dumps(body).encode("utf-8", "replace")
        end = time.monotonic() + self._deadline
        for _ in range(_REDIRECTS + 1):
            answer = self._answered(address, data, end)
            if answer.status not in (301, 302, 303, 307, 308):
                break
            address = self._redirected(address, answer.location)
        if answer.status in (404, 405, 501):
            return None
        if answer.status >= 300:
            raise EnvError(f"the OpenEnv server at {self.url} answered /{path} with status {answer.status}")
        return self._parsed(answer.text, address)

    def _answered(self, address: str, data: bytes | None, end: float) -> HttpAnswer:
        """Return the answer to one request, which is whole before a time."""
        late = EnvError(f"the OpenEnv server at {self.url} did not answer {address} within {self._deadline:g} seconds")
        timer = None
        try:
            with opened_connection(address, self._deadline) as connection:
                connection.connect()
                timer = _Ending(connection.sock, end)
                connection.request(
                    "GET" if data is None else "POST",
                    urlsplit(address).path or "/",
                    body=data,
                    headers={"Content-Type": "application/json"},
                )
                response = connection.getresponse()
                text = b"".join(bounded(iter(lambda: response.read1(1 << 16), b""), _MAX_BYTES, address))
                whole = HttpAnswer(response.status, response.headers.get("Location", ""), text)
        except InputError as error:
            raise EnvError(str(error)) from None
        except TimeoutError:
            raise late from None
        except (http.client.HTTPException, OSError) as error:
            if timer is not None and timer.reached:
                raise late from None
            raise EnvironmentDied(f"the OpenEnv server at {self.url} cannot be reached: {error}") from None
        finally:
            if timer is not None:
                timer.cancel()
        if timer.reached:
            raise late
        return whole

    def _redirected(self, address: str, location: str) -> str:
        """Return where a redirect leads: to the same server, or nowhere."""
        target = urljoin(address, location)
        if not location or urlsplit(target)[:2] != urlsplit(address)[:2]:
            raise EnvError(
                f"the OpenEnv server at {self.url} redirects {address} to {target[:200]!r}; only redirects to the same "
                "server are followed"
            )
        return target

    def ask(self, kind: str, data: Mapping[str, object] | None = None) -> Mapping[str, object]:
        """Return the data of the server's answer to a message.

        Args:
            kind: "reset", "step" or "state".
            data: arguments of a reset, or an action.

        Raises:
            ActionRefused: the message does not fit the server's schema; the episode goes on.
            SessionRefused: the server is full, or cannot make an environment.
            EnvError: the environment failed.
            EnvironmentDied: the connection was lost, and the episode with it.
            DeadlineExceeded: there was no answer in time; the episode is lost.
        """
        end = time.monotonic() + min(_PATIENCE, self._deadline)
        while True:
            try:
                return self._asked(kind, data)
            except SessionRefused:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _asked(self, kind: str, data: Mapping[str, object] | None) -> Mapping[str, object]:
        """Return the answer to a message that is sent once."""
        message = {"type": kind} if data is None else {"type": kind, "data": dict(data)}
        answer = self._parsed(self._exchange(kind, json.dumps(message)), f"the answer of {self.url} to {kind}")
        body = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(answer, Mapping) or not isinstance(body, Mapping):
            self.drop()
            raise EnvError(f"{self.url} answered {kind} with {answer!r:.120}; is it an OpenEnv server?")
        if answer.get("type") == "error":
            raise self._failure(kind, body)
        return body

    def drop(self) -> None:
        """Close the connection; the server then closes its environment."""
        self._socket = None
        with suppress(Exception):
            self._opened.close()

    def _exchange(self, kind: str, text: str) -> str | bytes:
        """Send a message and return the answer."""
        from websockets.exceptions import ConnectionClosed

        connection = self._connected()
        end = time.monotonic() + self._deadline
        try:
            with suppress(ConnectionClosed):  # a server that is full has answered and closed before
                connection.send(text)
            answer: str | bytes = connection.recv(timeout=max(0.001, end - time.monotonic()))
            return answer
        except TimeoutError:
            self.drop()
            raise DeadlineExceeded(f"{self.url} did not answer {kind} within {self._deadline:g} seconds") from None
        except (ConnectionClosed, OSError) as error:
            self.drop()
            raise EnvironmentDied(f"the connection to {self.url} was lost in {kind}: {error}") from None
        except BaseException:  # Ctrl-C: the answer that is still to come would be taken for that of the next message
            self.drop()
            raise

    def _connected(self) -> ClientConnection:
        """Return the open connection."""
        try:
            from websockets.exceptions import WebSocketException
            from websockets.sync.client import connect
        except ImportError as missing:
            raise EnvError(needs(_MISSING, "openenv")) from missing
        if self._socket is None:
            opened = partial(connect, open_timeout=self._deadline, close_timeout=2, max_size=_MAX_BYTES, proxy=None)
            try:
                self._socket = self._opened.enter_context(opened(self._address))
            except (OSError, WebSocketException) as error:
                raise EnvironmentDied(f"the OpenEnv server at {self.url} cannot be reached: {error}") from None
        return self._socket

    def _failure(self, kind: str, body: Mapping[str, object]) -> EnvError:
        """Return the error that an answer of the type "error" stands for."""
        code, message = str(body.get("code")), str(body.get("message"))[:600]
        if code in _REFUSED:
            return ActionRefused(_reasons(body.get("errors")) or message)
        if code in _NO_SESSION:
            self.drop()
            advice = (
                "; play fewer episodes at a time (--concurrency), or let the server take more" if "CAPA" in code else ""
            )
            return SessionRefused(f"the OpenEnv server at {self.url} refused a session: {message.rstrip('.')}{advice}")
        return EnvError(f"the OpenEnv server at {self.url} failed in {kind}: {message}")

    def _parsed(self, text: str | bytes, label: str) -> object:
        try:
            value: object = parse_json(text, label, max_bytes=_MAX_BYTES, encodable=True)
        except InputError as error:
            self.drop()
            raise EnvError(f"{error}; is it an OpenEnv server?") from None
        return value


def _reasons(errors: object) -> str:
    """Return what a server says about a message that does not fit, such as "column: Field required"."""
    if not isinstance(errors, list):
        return ""
    lines = []
    for error in errors[:5]:
        if isinstance(error, Mapping):
            location = error.get("loc")
            names = ".".join(map(str, location)) if isinstance(location, list) else ""
            lines.append(": ".join(text for text in (names, str(error.get("msg", ""))) if text))
    return "; ".join(lines)[:600]
