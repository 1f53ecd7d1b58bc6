"""The tools of an MCP server that is started by a command and spoken to over its standard input and output.

The session lives in a thread with an event loop of its own, so that tools are called like functions. A server that
dies, or does not answer in time, is an answer that says so; `close` ends its process.

Left out on purpose: servers over HTTP, resources, prompts, and what a server may ask of its client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Final, Self

from turnwise.tools.functions.errors import BadTool, ServerFailed
from turnwise.tools.functions.render import cut, said
from turnwise.tools.functions.running import Outcome
from turnwise.tools.functions.signature import names_fit
from turnwise.tools.functions.tool import BUDGET, Tool

__all__ = ["McpServer"]

_CLOSED: Final = -32000
"""JSON-RPC's code for a connection that is closed, as the package uses it."""
_CLOSING: Final = 15.0
"""Most seconds for the server to end; the package kills it before."""


class McpServer:
    """A running MCP server; iterate over it for its tools, and close it (or use it in a `with`).

    Args:
        command: the program and its arguments.
        env: environment variables beside the few that a server inherits (PATH, HOME and such).
        cwd: its working directory.
        seconds: most wall-clock seconds for a call.
        start_seconds: most seconds until it has told its tools.
        budget: most characters of an answer.

    Raises:
        ServerFailed: the package is missing, the program does not start, or it does not speak the protocol in time.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        seconds: float = 30.0,
        start_seconds: float = 30.0,
        budget: int = BUDGET,
    ) -> None:
        if isinstance(command, str) or not command:
            raise ServerFailed(f"the command of a server is a list, ['python', 'server.py'] say; got {command!r}")
        try:
            import mcp
        except ImportError as error:
            raise ServerFailed("MCP servers need the package mcp: pip install 'turnwise[mcp]'") from error
        self.command, self.seconds, self.budget = list(command), seconds, budget
        self._parameters = mcp.StdioServerParameters(
            command=self.command[0], args=self.command[1:], env=dict(env or {}), cwd=cwd
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
            raise ServerFailed(f"{self._name} did not tell its tools within {start_seconds:g} s") from error
        except BadTool:
            self.close()
            raise
        except Exception as error:
            last = self._last_error()
            self.close()
            raise ServerFailed(f"{self._name} did not start: {last or said(_first(error))}") from error

    def __iter__(self) -> Iterator[Tool]:
        """Yield its tools: `Toolbox(server)`, or `Toolbox([*server, function])`."""
        return iter(self.tools)

    def close(self) -> None:
        """End the server's process; a second time does nothing."""
        self._gone = self._gone or "was closed"
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSING)
        self._errors.close()

    def __enter__(self) -> Self:
        """Return the server itself; leaving the block closes it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close."""
        self.close()

    @property
    def _name(self) -> str:
        # Names without their folders: agents read this, and it should not depend on the machine.
        return f"the MCP server {cut(' '.join(PurePath(word).name for word in self.command), 200)!r}"

    def _run(self) -> None:
        """Be the thread: hold the session open until it is to stop."""
        try:
            asyncio.run(self._hold())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
        finally:
            self._gone = self._gone or "has ended"
            if not self._started.done():
                self._started.set_exception(EOFError("it ended before it had told its tools"))

    async def _hold(self) -> None:
        import mcp

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._gone:
            return
        async with (
            mcp.stdio_client(self._parameters, errlog=self._errors) as (reading, writing),
            mcp.ClientSession(reading, writing) as session,
        ):
            # Whoever waits for the start may give up: then the session has to end although nothing was told.
            listing = asyncio.ensure_future(_listed(session))
            stopping = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait({listing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not listing.done():
                listing.cancel()
                return
            found = listing.result()
            self._session = session
            self._started.set_result(found)
            await stopping

    def _tool(self, listed: Any) -> Tool:
        parameters = dict(listed.input_schema)
        return Tool(
            # Servers may use dots and slashes in names; not every form can.
            name=re.sub(r"[^A-Za-z0-9_-]", "_", listed.name),
            description=listed.description or "",
            parameters=parameters,
            values=partial(_checked, parameters=parameters),
            act=partial(self._call, listed.name),
            end=self.close,
        )

    def _call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call of the server's tool."""
        if self._gone or self._loop is None:
            return "gone", f"cannot be called: {self._name} {self._gone}"
        calling = self._session.call_tool(name, dict(arguments))
        try:
            future = asyncio.run_coroutine_threadsafe(calling, self._loop)
        except RuntimeError:  # the loop ended between the two lines
            calling.close()
            return "gone", f"cannot be called: {self._name} has ended"
        try:
            result = future.result(self.seconds)
        except TimeoutError:
            if not future.done():
                future.cancel()
                return "late", f"was not answered within {self.seconds:g} s by {self._name}"
            return "raised", "TimeoutError"
        except concurrent.futures.CancelledError:
            return "gone", f"was not answered: {self._name} was closed"
        except Exception as error:
            return self._failed(error)
        text = cut(_text(result), self.budget)
        return ("raised", text) if result.is_error else ("", text)

    def _failed(self, error: Exception) -> Outcome:
        error = _first(error)
        broken = type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream")
        if broken or getattr(getattr(error, "error", error), "code", None) == _CLOSED:
            last = self._last_error()
            self._gone = "has ended" + (f" ({last})" if last else "")
            return "gone", f"was not answered: {self._name} {self._gone}"
        return "raised", said(error)

    def _last_error(self) -> str:
        """Return the last line that the server wrote to its standard error."""
        try:
            self._errors.seek(0)
            lines = [line for line in self._errors.read().splitlines() if line.strip()]
        except (OSError, ValueError):
            return ""
        return cut(lines[-1].strip(), 300) if lines else ""


async def _listed(session: Any) -> list[Any]:
    """Return all tools that the server tells, page by page."""
    import mcp.types

    await session.initialize()
    page = await session.list_tools()
    found = list(page.tools)
    while page.next_cursor:
        page = await session.list_tools(params=mcp.types.PaginatedRequestParams(cursor=page.next_cursor))
        found += page.tools
    return found


def _checked(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments when their names are right; the server checks the values."""
    names_fit(arguments, parameters)
    return arguments


def _first(error: BaseException) -> Exception:
    """Return the first cause in a group of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(said(error))


def _text(result: Any) -> str:
    """Return what a result says: its texts, and a line for what is none."""
    parts = []
    for part in result.content:
        text = getattr(part, "text", None) or getattr(getattr(part, "resource", None), "text", None)
        if isinstance(text, str):
            parts.append(text)
        elif getattr(part, "text", None) != "":
            kind = getattr(part, "mime_type", None) or getattr(part, "type", type(part).__name__)
            parts.append(f"[{kind}, which is no text]")
    return "\n".join(parts) or "done"
