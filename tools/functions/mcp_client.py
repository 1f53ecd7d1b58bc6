"""Tools of an MCP server: one that is started by a command and uses standard input and output, or one over HTTP.

The connection lives in a thread with its own event loop, so that tools can be called like functions. If the server dies
or does not respond in time, the result of the call says so.

The mark `isError` of a result says that the tool failed. Servers that do not set it, as some old ones, return the
failure as an ordinary result; then only the text tells.

Not included: HTTP with server-sent events (the transport before streamable HTTP), authorization beyond fixed headers,
resources, prompts, and requests from the server to the client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from turncredit.installation import needs
from turncredit.tools.functions.errors import BadTool, ServerFailed
from turncredit.tools.functions.mcp_entry import ServerEntry
from turncredit.tools.functions.mcp_transports import ErrorOutput, http_streams, program_streams
from turncredit.tools.functions.render import describe_error, truncate
from turncredit.tools.functions.runners import CallOutcome
from turncredit.tools.functions.signature import check_names, without_nulls
from turncredit.tools.functions.tool import BUDGET, NAME, Tool
from turncredit.tools.visible_text import HidesSecrets, hide_secrets, map_strings

__all__ = ["McpServer"]

_CLOSED: Final = -32000  # JSON-RPC code of the mcp package for a closed connection
_MOST_TOOLS: Final = 4096
_CLOSING: Final = 15.0  # seconds for the server to end; it is killed earlier
_LOGGERS: Final = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
    *(f"mcp.{part}" for part in ("client.streamable_http", "client.session", "shared.jsonrpc_dispatcher")),
)
"""Loggers that may show headers, requests and answers."""


class McpServer:
    """A running MCP server; iterate over it to get its tools, and close it (or use it in a `with` statement).

    Keys in headers, environment variables, options of the command and the URL are removed from everything that comes
    from the server; messages name the server without them.

    Args:
        command: the program and its arguments; the URL of a server over streamable HTTP, such as
            "http://127.0.0.1:8000/mcp"; or an entry of a desktop client's `mcpServers` file, such as
            {"command": "python", "args": ["server.py"], "env": {...}} or {"url": ..., "headers": {...}}.
        env: environment variables of the program besides those that every server inherits (PATH, HOME and the like).
        cwd: working directory of the program.
        headers: HTTP headers, such as {"Authorization": "Bearer ..."}.
        seconds: time limit of a call.
        start_seconds: time limit for starting and listing the tools.
        budget: maximum number of characters of a result.

    Raises:
        ServerFailed: the mcp package is missing; the program does not start, or the server does not answer or does not
            list its tools in time.
    """

    def __init__(
        self,
        command: Sequence[str] | str | Mapping[str, object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 30.0,
        start_seconds: float = 30.0,
        budget: int = BUDGET,
    ) -> None:
        self._entry = ServerEntry.of(command, env, cwd, headers)
        try:
            import mcp  # noqa: F401
        except ImportError as error:
            raise ServerFailed(needs("MCP servers need the mcp package", "mcp")) from error
        self.seconds, self.budget = seconds, budget
        self._secrets = self._entry.secrets()
        self._log_filter = HidesSecrets(self._secrets)
        for name in _LOGGERS if self._secrets else ():
            logging.getLogger(name).addFilter(self._log_filter)
        self._gone = ""
        self._session: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()
        self._errors = None if self._entry.url else ErrorOutput()
        self._thread = threading.Thread(target=self._run, name="turncredit-mcp", daemon=True)
        self._thread.start()
        try:
            listed = self._started.result(start_seconds)
            names = _names([tool.name for tool in listed])
            self.tools: tuple[Tool, ...] = tuple(map(self._tool, listed, names))
        except TimeoutError as error:
            self.close()
            raise ServerFailed(f"{self._name} did not list its tools within {start_seconds:g} s") from error
        except BadTool:
            self.close()
            raise
        except Exception as error:
            last = self._gone.removeprefix("has ended") or self._last_error()
            self.close()
            why = last or describe_error(_first(error))
            # The exception of a library may show keys.
            raise ServerFailed(f"{self._name} did not start: {self._hide(why)}") from None

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools: `Toolbox(server)`, or `Toolbox([*server, function])`."""
        return iter(self.tools)

    def close(self) -> None:
        """Stop the server; closing it twice has no effect."""
        self._gone = self._gone or "was closed"
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has already ended
                loop.call_soon_threadsafe(stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSING)
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._log_filter)

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop the server."""
        self.close()

    @property
    def _name(self) -> str:
        return f"the MCP server {self._hide(self._entry.name)!r}"

    def _hide(self, text: str) -> str:
        """Return a text of the server without the keys."""
        return hide_secrets(text, self._secrets)

    def _run(self) -> None:
        """Keep the connection open until `close`; runs in the thread."""
        try:
            asyncio.run(self._connect())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
        finally:
            self._gone = self._gone or "has ended"
            if not self._started.done():
                self._started.set_exception(EOFError("it ended before it listed its tools"))

    async def _connect(self) -> None:
        import mcp

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._gone:
            return
        opened = (
            program_streams(self._entry, self._errors, self._give_up) if self._errors else http_streams(self._entry)
        )
        async with opened as (reading, writing), mcp.ClientSession(reading, writing) as session:
            # The constructor may time out: then the session must end although the tools were not listed.
            listing = asyncio.ensure_future(_list_tools(session))
            # If the connection fails, that is the error to report, and nobody asks for this one.
            listing.add_done_callback(lambda task: task.cancelled() or task.exception())
            stopping = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait({listing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not listing.done():
                listing.cancel()
                return
            tools = listing.result()
            self._session = session
            self._started.set_result(tools)
            await stopping

    def _give_up(self, why: str) -> None:
        """Note why the connection ends."""
        self._gone = self._gone or why

    def _tool(self, listed: Any, name: str) -> Tool:
        parameters = map_strings(without_nulls(listed.input_schema or {}), self._hide)
        return Tool(
            name=name,
            description=self._hide(listed.description or ""),
            parameters=parameters,
            validate=partial(_with_checked_names, parameters=parameters),
            run=partial(self._call, listed.name),
            close=self.close,
        )

    def _call(self, name: str, arguments: Mapping[str, object]) -> CallOutcome:
        """Call a tool of the server and return the outcome."""
        if self._gone or self._loop is None:
            return "gone", f"cannot be called: {self._name} {self._gone}"
        calling = self._session.call_tool(name, dict(arguments))
        try:
            future = asyncio.run_coroutine_threadsafe(calling, self._loop)
        except RuntimeError:  # the loop has just ended
            calling.close()
            return "gone", f"cannot be called: {self._name} has ended"
        try:
            result = future.result(self.seconds)
        except TimeoutError:
            if not future.done():
                future.cancel()
                return "late", f"got no response within {self.seconds:g} s from {self._name}"
            return "raised", "TimeoutError"
        except concurrent.futures.CancelledError:
            return "gone", f"got no response: {self._name} was closed"
        except Exception as error:
            return self._failed(error)
        text = truncate(self._hide(_text(result)), self.budget)
        return ("raised", text) if result.is_error else ("", text)

    def _failed(self, error: Exception) -> CallOutcome:
        error = _first(error)
        broken = type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream")
        if broken or getattr(getattr(error, "error", error), "code", None) == _CLOSED:
            last = self._last_error()
            self._gone = self._gone or "has ended" + (f" ({last})" if last else "")
            return "gone", f"got no response: {self._name} {self._gone}"
        return "raised", self._hide(describe_error(error))

    def _last_error(self) -> str:
        """Return the last line of the server's standard error."""
        return truncate(self._hide(self._errors.last_line()), 300) if self._errors else ""


async def _list_tools(session: Any) -> list[object]:
    """Return the tools on all pages of the server's list."""
    import mcp.types

    await session.initialize()
    page = await session.list_tools()
    tools = list(page.tools)
    while page.next_cursor:
        page = await session.list_tools(params=mcp.types.PaginatedRequestParams(cursor=page.next_cursor))
        tools += page.tools
        if len(tools) > _MOST_TOOLS:
            raise ValueError(f"it lists more than {_MOST_TOOLS:,} tools")
    return tools


def _names(listed: Sequence[str]) -> list[str]:
    """Return different names that every format can write: servers may use dots and slashes, and longer names.

    >>> _names(["a.b", "a_b", "a/b", "2nd"])
    ['a_b_2', 'a_b', 'a_b_3', '_2nd']
    """
    names = [
        "" if NAME.fullmatch(name) is None or name in listed[:number] else name for number, name in enumerate(listed)
    ]
    for number, name in enumerate(listed):
        if names[number]:
            continue
        cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
        cleaned = cleaned if NAME.fullmatch(cleaned) else f"_{cleaned}"
        tries = (cleaned if count == 1 else f"{cleaned}_{count}" for count in itertools.count(1))
        names[number] = next(name for name in tries if name not in names)
    return names


def _with_checked_names(arguments: Mapping[str, object], parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments after checking their names; the server checks the values."""
    check_names(arguments, parameters)
    return arguments


def _first(error: BaseException) -> Exception:
    """Return the first exception of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(describe_error(error))


def _described(part: object) -> str:
    """Return a line for a part that is no text: a link with its name, address and description, else its kind."""
    if getattr(part, "type", "") == "resource_link":
        title, name, uri, description = (getattr(part, key, None) for key in ("title", "name", "uri", "description"))
        return f"{title or name}: {uri}" + (f" ({description})" if description else "")
    kind = getattr(part, "mime_type", None) or getattr(part, "type", type(part).__name__)
    return f"[{kind}, not text]"


def _text(result: Any) -> str:
    """Return the text parts of a result, a line for each other part, and its data as JSON if it has no text."""
    parts = []
    has_text = False
    for part in result.content or ():
        text = getattr(part, "text", None)
        text = text if isinstance(text, str) else getattr(getattr(part, "resource", None), "text", None)
        if isinstance(text, str):
            parts += [text] if text else []
            has_text = has_text or bool(text.strip())
        else:
            parts.append(_described(part))
    if result.structured_content is not None and not has_text:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return "\n".join(parts) or "done"
