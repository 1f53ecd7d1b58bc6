"""One client of the port: the streams that it opened, and the flow of data in each."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from typing import Final

from turncredit.phone.adb.packets import MAX_DATA, VERSION, BadPacket, Packet, read_packet, write_packet

__all__ = ["AdbStream", "Connection", "StreamClosed"]

_MOST_STREAMS: Final = 256
_MOST_WAITING: Final = 64  # messages of a stream that its service has not read


class StreamClosed(Exception):
    """The client closed the stream, or is gone."""


Service = Callable[["AdbStream"], Awaitable[None]]


class AdbStream:
    """One stream of a connection, as a service reads and writes it."""

    def __init__(self, connection: Connection, local: int, remote: int) -> None:
        """Join the ids of both sides."""
        self._connection = connection
        self.local = local
        self.remote = remote
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        self._acknowledged = asyncio.Event()
        self._rest = b""
        self.closed = False

    def receive(self, data: bytes) -> None:
        """Take data from the client, which is sent on when the service has read it."""
        try:
            self._received.put_nowait(data)
        except asyncio.QueueFull:
            raise BadPacket("the client sends without waiting for OKAY") from None

    def acknowledge(self) -> None:
        """The client has taken what was written."""
        self._acknowledged.set()

    def end(self) -> None:
        """The client closed the stream."""
        self.closed = True
        self._acknowledged.set()
        if not self._received.full():
            self._received.put_nowait(None)

    async def read(self) -> bytes:
        """Return the next data, b"" at the end."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        if self.closed and self._received.empty():
            return b""
        data = await self._received.get() or b""
        if data:
            await self._connection.send(b"OKAY", self)
        return data

    async def read_exactly(self, count: int) -> bytes:
        """Return exactly `count` bytes.

        Raises:
            StreamClosed: there are less.
        """
        pieces, missing = [], count
        while missing:
            data = await self.read()
            if not data:
                raise StreamClosed
            pieces.append(data[:missing])
            self._rest = data[missing:]
            missing -= len(pieces[-1])
        return b"".join(pieces)

    async def write(self, data: bytes) -> None:
        """Send data, and return when the client has taken it.

        Raises:
            StreamClosed: it does not.
        """
        for at in range(0, len(data), self._connection.most_data):
            if self.closed:
                raise StreamClosed
            self._acknowledged.clear()
            await self._connection.send(b"WRTE", self, data[at : at + self._connection.most_data])
            await self._acknowledged.wait()


class Connection:
    """A client from its CNXN to its end."""

    def __init__(
        self, reader: StreamReader, writer: StreamWriter, banner: str, find: Callable[[str], Service | None]
    ) -> None:
        """Serve what `find` returns for the name of a service; None refuses."""
        self._reader = reader
        self._writer = writer
        self._banner = banner.encode()
        self._find = find
        self._streams: dict[int, AdbStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next = 1
        self._greeted = False
        self.most_data = 4096

    async def serve(self) -> None:
        """Answer until the client is gone or says what is not adb."""
        try:
            while True:
                await self._take(await read_packet(self._reader))
        except (IncompleteReadError, BadPacket, OSError):
            pass
        finally:
            for stream in list(self._streams.values()):
                stream.end()
            for task in list(self._tasks):
                task.cancel()
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    def end_streams(self) -> None:
        """End what is open, such as shells; the client stays connected."""
        for stream in self._streams.values():
            stream.end()

    async def send(self, command: bytes, stream: AdbStream, data: bytes = b"") -> None:
        """Send a message of a stream."""
        await self._send(Packet(command, stream.local, stream.remote, data))

    async def _send(self, packet: Packet) -> None:
        try:
            self._writer.write(write_packet(packet))
            await self._writer.drain()
        except OSError:
            raise StreamClosed from None

    async def _take(self, packet: Packet) -> None:
        try:
            if packet.command == b"CNXN":
                self._greeted = True
                self.most_data = min(MAX_DATA, max(1, packet.second))
                await self._send(Packet(b"CNXN", VERSION, MAX_DATA, self._banner))
            elif not self._greeted:
                raise BadPacket(f"expected CNXN first, got {packet.command!r}")
            elif packet.command == b"OPEN":
                await self._open(packet)
            elif stream := self._streams.get(packet.second):
                if packet.command == b"WRTE":
                    stream.receive(packet.data)
                elif packet.command == b"OKAY":
                    stream.acknowledge()
                elif packet.command == b"CLSE":
                    stream.end()
            elif packet.command == b"WRTE":
                await self._send(Packet(b"CLSE", 0, packet.first))
        except StreamClosed:
            raise BadPacket("the client is gone") from None

    async def _open(self, packet: Packet) -> None:
        name = packet.data.rstrip(b"\0").decode("utf-8", "surrogateescape")
        service = self._find(name) if packet.first and len(self._streams) < _MOST_STREAMS else None
        if service is None:
            await self._send(Packet(b"CLSE", 0, packet.first))
            return
        stream = AdbStream(self, self._next, packet.first)
        self._next += 1
        self._streams[stream.local] = stream
        await self.send(b"OKAY", stream)
        task = asyncio.get_running_loop().create_task(self._run(service, stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, service: Service, stream: AdbStream) -> None:
        """Run a service, then close its stream."""
        try:
            with contextlib.suppress(StreamClosed):
                await service(stream)
        finally:
            self._streams.pop(stream.local, None)
            with contextlib.suppress(StreamClosed):
                await self.send(b"CLSE", stream)
