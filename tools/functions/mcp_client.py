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
import re
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Final, Self

from turnwise.tools.functions.errors import BadTool, ServerFailed
from turnwise.tools.functions.render import describe_error, truncate
from turnwise.tools.functions.runners import CallOutcome
from turnwise.tools.functions.signature import check_names
from turnwise.tools.functions.tool import BUDGET, Tool

__all__ = ["McpServer"]

_CLOSED: Final = -32000  # JSON-RPC code of the mcp package for a closed connection
_CONNECTING: Final = 30.0  # seconds for a connection over HTTP; how long a call may take is decided by its caller
_CLOSING: Final = 15.0  # seconds for the server to end; the package kills it earlier


class McpServer:
    """A running MCP server; iterate over it to get its tools, and close it (or use it in a `with` statement).

    Args:
        command: the program and its arguments; or the URL of a server over streamable HTTP, such as
            "http://127.0.0.1:8000/mcp".
        env: environment variables of the program besides those that every server inherits (PATH, HOME and the like).
        cwd: working directory of the program.
        headers: HTTP headers, such as {"Authorization": "Bearer ..."}.
        seconds: time limit of a call.
        start_seconds: time limit for starting and listing the tools.
        budget: most characters of a result.

    Raises:
        ServerFailed: the mcp package is missing; the program does not start, or the server does not answer or does not
            list its tools in time.
    """

    def __init__(
        self,
        command: Sequence[str] | str,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 30.0,
        start_seconds: float = 30.0,
        budget: int = BUDGET,
    ) -> None:
        self.url = command if isinstance(command, str) and command.startswith(("http://", "https://")) else ""
        if not self.url and (isinstance(command, str) or not command):
            form = "a non-empty list such as ['python', 'server.py'], or a URL such as 'http://127.0.0.1:8000/mcp'"
            raise ServerFailed(f"command must be {form}, got {command!r}")
        try:
            import mcp
        except ImportError as error:
            raise ServerFailed("MCP servers need the mcp package: pip install 'turnwise[mcp]'") from error
        self.command, self.seconds, self.budget = [] if self.url else list(command), seconds, budget
        self._headers = dict(headers or {})
        self._parameters = (
            None
            if self.url
            else mcp.StdioServerParameters(command=self.command[0], args=self.command[1:], env=dict(env or {}), cwd=cwd)
        )
        self._gone = ""
        self._session: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()
        self._errors: Any = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._thread = threading.Thread(target=self._run, name="turnwise-mcp", daemon=True)
        self._thread.start()
        try:
            listed = self._started.result(start_seconds)
            self.tools: tuple[Tool, ...] = tuple(map(self._tool, listed))
        except TimeoutError as error:
            self.close()
            raise ServerFailed(f"{self._name} did not list its tools within {start_seconds:g} s") from error
        except BadTool:
            self.close()
            raise
        except Exception as error:
            last = self._last_error()
            self.close()
            raise ServerFailed(f"{self._name} did not start: {last or describe_error(_first(error))}") from error

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
        self._errors.close()

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop the server."""
        self.close()

    @property
    def _name(self) -> str:
        # Without directories: agents read this, and it should not depend on the machine.
        if self.url:
            return f"the MCP server {truncate(self.url, 200)!r}"
        return f"the MCP server {truncate(' '.join(PurePath(word).name for word in self.command), 200)!r}"

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
        async with self._streams() as (reading, writing), mcp.ClientSession(reading, writing) as session:
            # The constructor may time out: then the session must end although the tools were not listed.
            listing = asyncio.ensure_future(_list_tools(session))
            # If the connection fails, that is the error to report, and nobody asks for this one.
            listing.add_done_callback(lambda task: task.cancelled() or task.exception())
            stopping = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait({listing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not listing.done():
                listing.cancel()
                return
            found = listing.result()
            self._session = session
            self._started.set_result(found)
            await stopping

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        """Open the connection."""
        import mcp
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        if self._parameters is not None:
            async with mcp.stdio_client(self._parameters, errlog=self._errors) as streams:
                yield streams
            return
        async with (
            AsyncClient(headers=self._headers, timeout=Timeout(_CONNECTING, read=None)) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams

    def _tool(self, listed: Any) -> Tool:
        parameters = dict(listed.input_schema)
        return Tool(
            # Servers may use dots and slashes in names; not every format can.
            name=re.sub(r"[^A-Za-z0-9_-]", "_", listed.name),
            description=listed.description or "",
            parameters=parameters,
            validate=partial(_with_checked_names, parameters=parameters),
            run=partial(self._call, listed.name),
            close=self.close,
        )

    def _call(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
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
        text = truncate(_text(result), self.budget)
        return ("raised", text) if result.is_error else ("", text)

    def _failed(self, error: Exception) -> CallOutcome:
        error = _first(error)
        broken = type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream")
        if broken or getattr(getattr(error, "error", error), "code", None) == _CLOSED:
            last = self._last_error()
            self._gone = "has ended" + (f" ({last})" if last else "")
            return "gone", f"got no response: {self._name} {self._gone}"
        return "raised", describe_error(error)

    def _last_error(self) -> str:
        """Return the last line of the server's standard error."""
        try:
            self._errors.seek(0)
            lines = [line for line in self._errors.read().splitlines() if line.strip()]
        except (OSError, ValueError):
            return ""
        return truncate(lines[-1].strip(), 300) if lines else ""


async def _list_tools(session: Any) -> list[Any]:
    """Return the tools on all pages of the server's list."""
    import mcp.types

    await session.initialize()
    page = await session.list_tools()
    found = list(page.tools)
    while page.next_cursor:
        page = await session.list_tools(params=mcp.types.PaginatedRequestParams(cursor=page.next_cursor))
        found += page.tools
    return found


def _with_checked_names(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments after checking their names; the server checks the values."""
    check_names(arguments, parameters)
    return arguments


def _first(error: BaseException) -> Exception:
    """Return the first exception of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(describe_error(error))


def _text(result: Any) -> str:
    """Return the text parts of a result, and a line for each part that is not text."""
    parts = []
    for part in result.content:
        text = getattr(part, "text", None) or getattr(getattr(part, "resource", None), "text", None)
        if isinstance(text, str):
            parts.append(text)
        elif getattr(part, "text", None) != "":
            kind = getattr(part, "mime_type", None) or getattr(part, "type", type(part).__name__)
            parts.append(f"[{kind}, not text]")
    return "\n".join(parts) or "done"
