"""The port of a phone, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Final, TypeVar

from turncredit.phone.adb.connection import Connection
from turncredit.phone.adb.console import serve_console
from turncredit.phone.adb.services import FEATURES, find_service
from turncredit.phone.phone import Phone
from turncredit.processes.serving import listen

__all__ = ["AdbServer"]

T = TypeVar("T")

HOST: Final = "127.0.0.1"
BANNER: Final = (
    "device::ro.product.name=phone;ro.product.model=Turncredit One;ro.product.device=phone;"
    f"features={','.join(FEATURES)}"
)


class AdbServer:
    """A phone that adb can connect to, until `close`. While it is open, only adb may touch the phone.

    Use `with server.paused() as phone:` to read or change the phone from another thread.
    """

    def __init__(self, phone: Phone, port: int = 0, console_port: int | None = None) -> None:
        """Listen on the loopback address.

        Args:
            phone: what clients see.
            port: of adbd; 0 for a free one.
            console_port: of the console, which adb knows as the number in `emulator-PORT`; 0 for a free one; None
                for no console.

        Raises:
            PortInUse: another program has the port.
        """
        self._phone = phone
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._clients: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="adb of a phone", daemon=True)
        self._thread.start()
        self.port = self.console_port = 0
        try:
            self.port = self._call(self._listen(self._serve_adb, port))
            if console_port is not None:
                self.console_port = self._call(self._listen(self._serve_console, console_port))
        except BaseException:
            self.close()
            raise

    @property
    def serial(self) -> str:
        """The name by which adb knows the phone after `adb connect`."""
        return f"{HOST}:{self.port}"

    @contextlib.contextmanager
    def paused(self) -> Iterator[Phone]:
        """Give the phone to another thread, while clients wait."""
        held, free = threading.Event(), threading.Event()

        def wait() -> None:
            held.set()
            free.wait()

        self._loop.call_soon_threadsafe(wait)
        held.wait()
        try:
            yield self._phone
        finally:
            free.set()

    def show(self, phone: Phone) -> None:
        """Let clients see another phone from now on. They stay connected; their open shells end."""
        self._call(self._show(phone))

    async def _show(self, phone: Phone) -> None:
        self._phone = phone
        for client in self._clients:
            client.end_streams()

    @property
    def clients(self) -> int:
        """How many adb servers are connected."""
        return len(self._clients)

    def drop_connections(self) -> None:
        """Cut every connection, as a cable that is pulled; the port stays open."""
        self._call(self._drop())

    def close(self) -> None:
        """Cut every connection and give back the ports."""
        if self._loop.is_closed():
            return
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> AdbServer:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    def _call(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _listen(self, serve: Callable[[StreamReader, StreamWriter], Awaitable[None]], port: int) -> int:
        server = await asyncio.start_server(serve, sock=listen(HOST, port))
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _serve_adb(self, reader: StreamReader, writer: StreamWriter) -> None:
        client = Connection(reader, writer, BANNER, lambda name: find_service(self._phone, name))
        self._clients.add(client)
        try:
            await self._kept(client.serve())
        finally:
            self._clients.discard(client)

    async def _serve_console(self, reader: StreamReader, writer: StreamWriter) -> None:
        await self._kept(serve_console(self._phone, reader, writer))

    async def _kept(self, work: Coroutine[object, object, None]) -> None:
        """Do the work of a connection, which `close` can cut."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await work
        finally:
            self._connections.discard(task)

    async def _drop(self) -> None:
        for task in list(self._connections):
            task.cancel()
        while self._connections:
            await asyncio.sleep(0)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        await self._drop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
