"""All MCP servers of a desktop client's `mcpServers` file, as one collection of tools.

The file is taken as it is: entries that are marked as disabled are left out, and ${NAME}, ${NAME:-default} and
${env:NAME} become variables of this process. Tools of two servers with the same name get the name of their server in
front.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from turncredit.registry import suggest
from turncredit.tools.bounded_input import InputError, read_json
from turncredit.tools.functions.errors import ServerFailed
from turncredit.tools.functions.mcp_client import McpServer
from turncredit.tools.functions.tool import BUDGET, Tool

__all__ = ["McpServers"]

_TABLES: Final = ("mcpServers", "servers")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ASKED: Final = re.compile(r"\$\{input:([^}]*)\}")
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]+")


class McpServers:
    """Running MCP servers; iterate over them to get all tools, and close them (or use them in a `with` statement).

    Args:
        config: path of a JSON file with the table `mcpServers` (or `servers`), or what it contains.
        only: names of the servers to start; None: all.
        seconds: time limit of a call.
        start_seconds: time limit for starting each server and listing its tools.
        budget: maximum number of characters of a result.

    Raises:
        ServerFailed: the file cannot be read, an entry is invalid, or a server does not start; names it.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, object],
        *,
        only: list[str] | None = None,
        seconds: float = 30.0,
        start_seconds: float = 30.0,
        budget: int = BUDGET,
    ) -> None:
        entries = _chosen(_entries(config), only)
        self.servers: dict[str, McpServer] = {}
        try:
            for name, entry in entries.items():
                self.servers[name] = _started(name, entry, seconds, start_seconds, budget)
        except ServerFailed:
            self.close()
            raise
        self.tools: tuple[Tool, ...] = tuple(self._named())

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools: `Toolbox(servers)`, or `ToolEnv(..., tools=servers, ...)`."""
        return iter(self.tools)

    def close(self) -> None:
        """Stop the servers; closing them twice has no effect."""
        for server in self.servers.values():
            server.close()

    def __enter__(self) -> Self:
        """Return the servers."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop the servers."""
        self.close()

    def _named(self) -> Iterator[Tool]:
        """Yield the tools, those whose names collide with the name of their server in front."""
        counts = Counter(tool.name for server in self.servers.values() for tool in server)
        taken = {name for name, count in counts.items() if count == 1}
        for name, server in self.servers.items():
            for tool in server:
                if counts[tool.name] == 1:
                    yield tool
                    continue
                new = _free(f"{_UNUSUAL.sub('_', name)}_{tool.name}", taken)
                taken.add(new)
                yield replace(tool, name=new)


def _free(name: str, taken: set[str]) -> str:
    """Return a valid name that no other tool has."""
    base = (name if re.match(r"[A-Za-z_]", name) else f"_{name}")[:60]
    number = 1
    while (candidate := base if number == 1 else f"{base}_{number}") in taken:
        number += 1
    return candidate


def _entries(config: str | os.PathLike[str] | Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    if isinstance(config, Mapping):
        content, where = config, "this mcpServers table"
    else:
        where = str(Path(config))
        try:
            content = read_json(Path(config))
        except (InputError, OSError) as error:
            raise ServerFailed(f"the file of MCP servers cannot be read: {error}") from error
    table = next((content[name] for name in _TABLES if name in content), None) if isinstance(content, Mapping) else None
    if not isinstance(table, Mapping) or not table:
        raise ServerFailed(f"{where} has no table mcpServers with servers, as files of desktop clients have it")
    if wrong := next((name for name, entry in table.items() if not isinstance(entry, Mapping)), None):
        raise ServerFailed(f"the server {wrong!r} in {where} must be a table with a command or a url")
    return {str(name): entry for name, entry in table.items()}


def _chosen(entries: dict[str, Mapping[str, object]], only: list[str] | None) -> dict[str, Mapping[str, object]]:
    if only is not None:
        if unknown := next((name for name in only if name not in entries), None):
            raise ServerFailed(f"unknown server {unknown!r}{suggest(unknown, entries)}")
        return {name: entries[name] for name in only}
    enabled = {name: entry for name, entry in entries.items() if entry.get("disabled") is not True}
    if not enabled:
        raise ServerFailed("all servers in the mcpServers table are disabled")
    return enabled


def _started(name: str, entry: Mapping[str, object], seconds: float, start_seconds: float, budget: int) -> McpServer:
    try:
        filled = {key: _filled(value) for key, value in entry.items()}
        return McpServer(filled, seconds=seconds, start_seconds=start_seconds, budget=budget)
    except ServerFailed as error:
        raise ServerFailed(f"the server {name!r}: {error}") from None


def _filled(value: object) -> object:
    """Return a value of an entry with the variables of this process in place of their names."""
    if isinstance(value, Mapping):
        return {key: _filled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part) for part in value]
    if not isinstance(value, str):
        return value
    if asked := _ASKED.search(value):
        raise ServerFailed(f"its client asks people for {asked[1]!r} (${{input:...}}); write the value, or ${{NAME}}")
    return _VARIABLE.sub(_variable, value)


def _variable(match: re.Match[str]) -> str:
    value = os.environ.get(match[1]) or match[2]
    if value is None:
        raise ServerFailed(f"the variable {match[1]}, which its entry names, is not set")
    return value
