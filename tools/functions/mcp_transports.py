"""The ways to an MCP server, standard input and output or HTTP, read under limits.

The mcp package reads a line or an answer of any length. Here a line of a program and the answer to a request have at
most `MAX_BYTES` decoded bytes, and what a program writes to its standard error is kept to its end.

An HTTP status that is an error becomes an error of the protocol that names it, since the mcp package has one sentence
for all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from turncredit.tools.bounded_input import BodyDecoder, InputError, parse_json
from turncredit.tools.functions.mcp_entry import ServerEntry
from turncredit.tools.functions.mcp_messages import LineMender, mended

__all__ = ["MAX_BYTES", "ErrorOutput", "http_streams", "program_streams"]

MAX_BYTES: Final = 32 << 20
"""Decoded bytes of one message of a server; an agent sees a few thousand characters of it."""
_ENDLESS: Final = 1 << 62  # bytes of the stream of a server's own messages, each of which is limited
_MOST_ERROR: Final = 1 << 20  # bytes that are read of an answer with an error
_CONNECTING: Final = 30.0  # seconds for a connection over HTTP; how long a call may take is decided by its caller
_ENDING: Final = 2.0  # seconds for a program to end by itself, and after SIGTERM
_HINTS: Final = {
    401: "the server wants a key, or refuses this one; see the argument headers",
    403: "the server does not allow this",
    404: "Not Found; is the path right?",
    405: "this URL has no MCP server over streamable HTTP; is the path right?",
}


class ErrorOutput:
    """The standard error of a program; its end is kept, however much there is."""

    def __init__(self) -> None:
        """Open a pipe; the program gets `writing`."""
        self._reading, self.writing = os.pipe()
        self._tail = b""
        self._ended = threading.Event()
        threading.Thread(target=self._read, name="turncredit-mcp-stderr", daemon=True).start()

    def started(self) -> None:
        """Close this process's copy of the pipe's writing end, after the program has got it or did not start."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def last_line(self) -> str:
        """Return the last line that is not blank; "" if there is none."""
        self._ended.wait(1.0)
        lines = [line.strip() for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def _read(self) -> None:
        while block := os.read(self._reading, 1 << 16):
            self._tail = (self._tail + block)[-(8 << 10) :]
        os.close(self._reading)
        self._ended.set()


@contextlib.asynccontextmanager
async def program_streams(entry: ServerEntry, errors: ErrorOutput, report: Callable[[str], None]) -> AsyncIterator[Any]:
    """Start a program in a process group of its own; yield the streams of a session; end the group.

    Args:
        entry: the program.
        errors: takes its standard error.
        report: called with a sentence if the program writes what is no message.
    """
    import anyio
    from mcp.client.stdio import get_default_environment

    env = get_default_environment() | {name: secret.reveal() for name, secret in entry.env.items()}
    try:
        process = await anyio.open_process(
            entry.command, env=env, stderr=errors.writing, cwd=entry.cwd, start_new_session=True
        )
    finally:
        errors.started()
    to_session, from_program = anyio.create_memory_object_stream[Any](0)
    from_session, to_program = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_receive, process, to_session, report)
        group.start_soon(_send, process, to_program)
        try:
            yield from_program, from_session
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            group.cancel_scope.cancel()
            for stream in (to_session, from_program, from_session, to_program):
                stream.close()


async def _receive(process: Any, to_session: Any, report: Callable[[str], None]) -> None:
    """Pass on the messages of a program, one a line, until it ends or a line is too long."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    async with to_session:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            try:
                async for line in _lines(process.stdout):
                    message: Any
                    try:
                        message = SessionMessage(jsonrpc_message_adapter.validate_json(mended(line), by_name=False))
                    except ValueError as error:
                        message = error
                    await to_session.send(message)
            except InputError as error:
                report(f"was given up: {error}")


async def _lines(stream: Any) -> AsyncIterator[bytes]:
    """Yield the lines of a stream.

    Raises:
        InputError: a line is too long.
    """
    parts: list[bytes] = []
    size = 0
    async for block in stream:
        first, *others = block.split(b"\n")
        for part in (first, *others):
            if part is not first:
                yield b"".join(parts)
                parts, size = [], 0
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                raise InputError(f"it wrote a line of more than {MAX_BYTES:,} bytes, the most that is read")


async def _send(process: Any, to_program: Any) -> None:
    """Write the messages of a session, one a line."""
    import anyio

    async with to_program:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async for message in to_program:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(line.encode() + b"\n")


async def _end(process: Any) -> None:
    """Close the program's input, and end its process group if it does not end by itself."""
    import anyio

    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await process.stdin.aclose()
    for kind in (None, signal.SIGTERM, signal.SIGKILL):
        if kind is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, kind)
        with anyio.move_on_after(_ENDING):
            while process.returncode is None:
                await anyio.sleep(0.01)
            break
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await process.stdout.aclose()
    # What the program started may hold its pipes open; asyncio then keeps them for ever, and anyio cannot say so.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with contextlib.suppress(PermissionError):
            transport.close()


@contextlib.asynccontextmanager
async def http_streams(entry: ServerEntry) -> AsyncIterator[Any]:
    """Connect to a server over streamable HTTP, and yield the streams of a session."""
    from mcp.client.streamable_http import streamable_http_client

    headers = {name: secret.reveal() for name, secret in entry.headers.items()}
    async with (
        _client(headers) as client,
        streamable_http_client(entry.url, http_client=client, max_sse_event_size=MAX_BYTES) as streams,
    ):
        yield streams


def _client(headers: Mapping[str, str]) -> Any:
    """Return an HTTP client whose answers are read under limits."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """A body that is decoded here, up to a limit of bytes."""

        def __init__(self, stream: Any, decoder: BodyDecoder, kind: str) -> None:
            self._stream, self._decoder, self._kind = stream, decoder, kind

        async def __aiter__(self) -> AsyncIterator[bytes]:
            lines, whole = LineMender(), list[bytes]()
            try:
                async for block in self._stream:
                    decoded = self._decoder.feed(block)
                    if self._kind == "text/event-stream":
                        yield lines.feed(decoded)
                    else:
                        whole.append(decoded)
            except InputError as error:
                raise httpx2.StreamError(str(error)) from None
            yield lines.rest() + mended(b"".join(whole))

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Client(httpx2.AsyncClient):
        """A client that bounds what it receives and names the status of errors."""

        async def send(self, request: Any, **options: Any) -> Any:
            whole = not options.pop("stream", False)
            response = await super().send(request, stream=True, **options)
            own = request.method == "GET" and response.headers.get("content-type", "").startswith("text/event-stream")
            most = _MOST_ERROR if response.status_code >= 400 else _ENDLESS if own else MAX_BYTES
            encoding = response.headers.pop("content-encoding", "")
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            response.headers.pop("content-length", None)
            try:
                response.stream = Bounded(
                    response.stream, BodyDecoder(encoding, max_bytes=most, label="the answer"), kind
                )
            except InputError as error:
                await response.aclose()
                return httpx2.Response(502, request=request, **_as_error(502, str(error)))
            if response.status_code >= 400 and request.method == "POST":
                return await _named(response)
            if whole:
                await response.aread()
            return response

    async def _named(response: Any) -> Any:
        """Return an answer with an error status as an error of the protocol, if it is not one already."""
        try:
            body = await response.aread()
        except httpx2.StreamError:
            body = b""
        finally:
            await response.aclose()
        with contextlib.suppress(InputError):
            message = parse_json(body, "the answer")
            if isinstance(message, Mapping) and isinstance(message.get("error"), Mapping) and "jsonrpc" in message:
                return httpx2.Response(
                    response.status_code,
                    request=response.request,
                    headers={"content-type": "application/json"},
                    content=body,
                )
        text = " ".join(body.decode("utf-8", "replace").split())[:200]
        return httpx2.Response(response.status_code, request=response.request, **_as_error(response.status_code, text))

    return Client(
        headers={**headers, "Accept-Encoding": BodyDecoder.ACCEPTED},
        timeout=httpx2.Timeout(_CONNECTING, read=None),
    )


def _as_error(status: int, text: str) -> dict[str, Any]:
    """Return headers and content of an error of the protocol that names an HTTP status."""
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    hint = _HINTS.get(status, phrase)
    message = f"HTTP {status}: {hint}" + (f" ({text})" if text and text.strip(".").lower() != phrase.lower() else "")
    error = {"code": -32601 if status == 404 else -32603, "message": message}
    content = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    return {"headers": {"content-type": "application/json"}, "content": content}
