"""Which MCP server is meant: a command, a URL, or an entry of a desktop client's `mcpServers` file; and its keys.

Keys are the values of headers, environment variables, options of the command and parameters of the URL whose names say
so. They are kept as secrets, and removed from everything that a server says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from turncredit.registry import suggest
from turncredit.tools.functions.errors import ServerFailed
from turncredit.tools.functions.render import truncate
from turncredit.tools.visible_text import Secret

__all__ = ["ServerEntry"]

_FORM: Final = (
    "a non-empty list such as ['python', 'server.py'], or a URL such as 'http://127.0.0.1:8000/mcp', or an entry of an "
    "mcpServers file such as {'command': 'python', 'args': ['server.py']}"
)
_KEYS: Final = ("command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers")
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|cookie|credential|session", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server that is started by a command, or one at a URL."""

    command: tuple[str, ...] = field(repr=False)
    """The program and its arguments; () with a URL."""
    url: str = field(repr=False)
    env: Mapping[str, Secret]
    cwd: str | None
    headers: Mapping[str, Secret]

    @classmethod
    def of(
        cls,
        command: Sequence[str] | str | Mapping[str, object],
        env: Mapping[str, str] | None,
        cwd: str | None,
        headers: Mapping[str, str] | None,
    ) -> ServerEntry:
        """Return the server that is meant.

        Args:
            command: program and arguments, URL, entry of an mcpServers file, or such a file with a single server.
            env: environment variables, besides those of the entry.
            cwd: working directory, in place of that of the entry.
            headers: HTTP headers, besides those of the entry.

        Raises:
            ServerFailed: it is none of these.
        """
        entry = _entry(command)
        words, url = (entry.get("command"), *(entry.get("args") or ())), _url(entry)
        if not url and not (words[0] and all(isinstance(word, str) for word in words)):
            raise ServerFailed(f"command must be {_FORM}, got {_shown(command)}")
        return cls(
            () if url else tuple(map(str, words)),
            url,
            _secrets({**(entry.get("env") or {}), **(env or {})}),
            cwd if cwd is not None else entry.get("cwd"),
            _secrets({**(entry.get("headers") or {}), **(headers or {})}),
        )

    @property
    def name(self) -> str:
        """The server in a sentence; without directories and parameters, since agents read it on every machine."""
        if self.url:
            parts = urlsplit(self.url)
            return truncate(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", 200)
        return truncate(" ".join(PurePath(word).name for word in self.command), 200)

    def secrets(self) -> list[Secret]:
        """Return the keys that the server is given."""
        return [Secret(value) for value in self._values() if value]

    def _values(self) -> Iterator[str]:
        for name, secret in (*self.env.items(), *self.headers.items()):
            if _SECRET_NAME.search(name):
                yield from (secret.reveal(), secret.reveal().rpartition(" ")[2])  # "Bearer KEY"
        for word, following in pairwise((*self.command, "")):
            option, equals, value = word.partition("=")
            if option.startswith("-") and _SECRET_NAME.search(option):
                yield value if equals else following
        parts = urlsplit(self.url)
        yield parts.password or ""
        yield from (value for name, value in parse_qsl(parts.query) if _SECRET_NAME.search(name))


def _entry(command: object) -> dict[str, Any]:
    """Return the entry that a command or URL stands for."""
    if isinstance(command, str):
        return {"url": command}
    if not isinstance(command, Mapping):
        words = list(command) if isinstance(command, Sequence) else []
        return {"command": words[0], "args": words[1:]} if words else {}
    servers = command.get("mcpServers", command.get("servers"))
    if isinstance(servers, Mapping):
        if len(servers) != 1:
            which = f"{len(servers)} servers ({', '.join(servers)})"
            raise ServerFailed(f"this mcpServers file has {which}; pass one entry, or all to McpServers")
        command = next(iter(servers.values()))
    if not isinstance(command, Mapping):
        raise ServerFailed(f"command must be {_FORM}, got {_shown(command)}")
    if not any(command.get(name) for name in ("command", "url", "serverUrl", "httpUrl")):
        near = next((hint for name in command if (hint := suggest(str(name), _KEYS))), "")
        raise ServerFailed(f"an entry of an mcpServers file has a command or a url, this one has neither{near}")
    for name, kind in (("args", list), ("env", Mapping), ("headers", Mapping)):
        if command.get(name) is not None and not isinstance(command[name], kind):
            expected = "a list of words" if name == "args" else "a table of names and values"
            raise ServerFailed(f"{name} of an mcpServers entry must be {expected}, got {type(command[name]).__name__}")
    return dict(command)


def _url(entry: Mapping[str, object]) -> str:
    url = next((entry[name] for name in ("url", "serverUrl", "httpUrl") if entry.get(name)), "")
    return url if isinstance(url, str) and url.startswith(("http://", "https://")) else ""


def _secrets(values: Mapping[str, object]) -> dict[str, Secret]:
    return {str(name): Secret(str(value)) for name, value in values.items()}


def _shown(command: object) -> str:
    return truncate(repr(command), 200) if isinstance(command, str | list | tuple) else type(command).__name__
