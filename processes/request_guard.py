"""A guard of servers on this machine: requests that web pages of other sites could have caused are refused.

A browser on this machine sends requests to a loopback address for any page that asks it to. Such a page can act without
reading the answer (a form, an image), and read it if the name of its own site is made to mean 127.0.0.1. Therefore a
request is refused unless

- its Host is a name of this machine: of loopback only, if the server listens there; else also any numeric address, the
  name of the machine, and names that the user added;
- it comes from no page, or from a page of this server (Origin, Sec-Fetch-Site);
- its body, if there is one, has a type that pages cannot send to other sites unasked (JSON), or that the server's own
  forms have;
- its body is not larger than allowed.

Every server of turncredit is behind it: `turncredit.processes.serving` wraps applications, and servers of the standard
library call `refusal`.

Not included: authentication. Programs that can reach the server can use it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

__all__ = ["JSON", "MAX_BODY", "LocalRequestGuard", "Refusal", "RequestGuard", "RequestRules", "refusal", "rules_for"]

JSON: Final = "application/json"
MAX_BODY: Final = 4 << 20
"""Bytes of a request, unless the application says otherwise."""

_DRAINED: Final = 32 << 20
"""Bytes of a refused body that are read and dropped, since a client that still sends would not see the answer."""
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FROM_HERE: Final = frozenset({"same-origin", "none"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RequestRules:
    """What a server answers.

    Attributes:
        names: its names beside those of loopback, in lower case.
        numeric: whether any numeric address may be the Host, as for a server that other machines reach.
        content_types: of bodies.
        max_body: bytes of a body.
    """

    names: frozenset[str] = frozenset()
    numeric: bool = False
    content_types: tuple[str, ...] = (JSON,)
    max_body: int = MAX_BODY


class Refusal(NamedTuple):
    """Why a request is not answered: an HTTP status and a sentence."""

    status: int
    sentence: str


def rules_for(
    address: str, names: Iterable[str] = (), *, content_types: tuple[str, ...] = (JSON,), max_body: int = MAX_BODY
) -> RequestRules:
    """Return the rules of a server that listens on a numeric address.

    Args:
        address: "127.0.0.1", "0.0.0.0", ...
        names: further names under which clients reach it.
        content_types: of bodies.
        max_body: bytes of a body.
    """
    local = ip_address(address.partition("%")[0]).is_loopback
    own = [] if local else [socket.gethostname()]
    return RequestRules(frozenset(name.lower() for name in (*own, *names)), not local, content_types, max_body)


def refusal(rules: RequestRules, method: str, headers: Iterable[tuple[str, str]]) -> Refusal | None:
    """Return why a request is refused by its headers, or None.

    Args:
        rules: of the server.
        method: GET, POST, ...
        headers: names in lower case, and values.
    """
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value.strip().lower())
    hosts, origins, sites = (values.get(name, []) for name in ("host", "origin", "sec-fetch-site"))
    if len(hosts) != 1 or not _is_here(rules, hosts[0]):
        allowed = ", ".join(["127.0.0.1", "localhost", *sorted(rules.names)])
        return Refusal(403, f"this server answers requests to {allowed} only, by the header Host")
    own = [f"http://{hosts[0]}", f"https://{hosts[0]}"]
    own += ["null"] if sites == ["same-origin"] else []  # a form of a page that hides its address (Referrer-Policy)
    if any(origin not in own for origin in origins):
        return Refusal(403, "this server answers its own pages only, and no page of another site (Origin)")
    if any(site not in _FROM_HERE for site in sites):
        return Refusal(403, "this server answers its own pages only: type or copy its address (Sec-Fetch-Site)")
    sizes = values.get("content-length", [])
    if any(size.isdecimal() and int(size[:20]) > rules.max_body for size in sizes):
        return _too_large(rules)
    has_body = "transfer-encoding" in values or any(size != "0" for size in sizes)
    kinds = [kind.partition(";")[0].strip() for kind in values.get("content-type", [""])]
    if method not in _WITHOUT_BODY and has_body and any(kind not in rules.content_types for kind in kinds):
        return Refusal(415, f"the header Content-Type must be {' or '.join(rules.content_types)}")
    return None


def _is_here(rules: RequestRules, host: str) -> bool:
    """Return whether a Host, in lower case, means this machine."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]")
    if name == "localhost" or name in rules.names:
        return True
    try:
        return ip_address(name).is_loopback or rules.numeric
    except ValueError:
        return False


def _too_large(rules: RequestRules) -> Refusal:
    return Refusal(413, f"a request may have at most {rules.max_body:,} bytes")


class RequestGuard:
    """An application (ASGI) in front of another, which gets only requests that keep the rules, with their whole body.

    Args:
        app: the application.
        rules: what it answers.
    """

    def __init__(self, app: App, rules: RequestRules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        refused = refusal(self.rules, scope.get("method", "GET"), headers)
        if scope["type"] == "websocket":
            if refused is None:
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008, "reason": refused.sentence})
            return
        pieces: list[bytes] = []
        size, more = 0, True
        while more and size <= max(self.rules.max_body, _DRAINED):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            piece = message.get("body", b"")
            size, more = size + len(piece), message.get("more_body", False)
            if size > self.rules.max_body:
                refused = refused or _too_large(self.rules)
            if refused is None:
                pieces.append(piece)
        if refused is None:
            await self.app(scope, _after(b"".join(pieces), receive), send)
        else:
            await _answer(send, refused)


class LocalRequestGuard(RequestGuard):
    """The guard of a server that is not ours and listens on loopback, such as vLLM's, which takes prompts of any size.

    Args:
        app: the application.
    """

    def __init__(self, app: App) -> None:
        super().__init__(app, RequestRules(max_body=1 << 40))


def _after(body: bytes, receive: Receive) -> Receive:
    """Return a function that yields a body that was read, then what follows it."""
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answer(send: Send, refused: Refusal) -> None:
    content = json.dumps({"detail": refused.sentence}).encode()
    headers = [
        (b"content-type", JSON.encode()),
        (b"content-length", str(len(content)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
