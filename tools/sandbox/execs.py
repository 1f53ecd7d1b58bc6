"""Commands in a container: their streams taken apart, their end, and conversations with them."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from turnwise.tools.sandbox.errors import BoxLost
from turnwise.tools.sandbox.limits import Stop
from turnwise.tools.sandbox.session import Channel

USER: Final = "1000:1000"


def short(error: Exception) -> str:
    """Return the first line of what Docker says."""
    return (
        str(getattr(error, "explanation", None) or error).splitlines()[0][:200] if str(error) else type(error).__name__
    )


class Exec:
    """One command in a container: its streams, taken apart, and its exit code."""

    def __init__(self, api: Any, container: str, argv: list[str], *, stdin: bool) -> None:
        """Start it."""
        self.api = api
        self.stop: Stop | None = None
        self.code = 137
        self.rest = b""
        self.heard = {1: bytearray(), 2: bytearray()}
        try:
            self.id = api.exec_create(container, argv, stdin=stdin, user=USER, workdir="/work")["Id"]
            self.stream = api.exec_start(self.id, socket=True)
        except Exception as error:
            raise BoxLost(f"the container is gone, or Docker stopped answering: {short(error)}") from error
        self.socket: socket.socket = getattr(self.stream, "_sock", self.stream)
        self.socket.setblocking(False)

    def out(self, number: int) -> bytes:
        """Return what came through standard output (1) or error (2)."""
        return bytes(self.heard[number])

    def run(self, stdin: bytes, output: int, deadline: float, end: Callable[[], None]) -> None:
        """Feed it and listen to it until it has ended; past the deadline, or too much output, `end` ends it."""
        left, poll = memoryview(stdin), select.poll()
        poll.register(self.socket, select.POLLIN | (select.POLLOUT if left else 0))
        while True:
            now = time.monotonic()
            if now >= deadline:
                if self.stop is not None:
                    return
                self._end("timeout", end)
                deadline = now + 5
            for _, events in poll.poll(max(0.0, deadline - now) * 1000 + 1):
                if events & select.POLLOUT and left:
                    left = self._feed(left)
                    if not left:
                        poll.modify(self.socket, select.POLLIN)
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    data = self.receive()
                    if data == b"":
                        return
                    if self._take(data or b"", output) and self.stop is None:
                        self.close()  # first: a daemon that cannot get rid of a flood does not start the sweep either
                        self._end("output", end)
                        return

    def _end(self, why: Stop, end: Callable[[], None]) -> None:
        self.stop = why
        end()

    def _feed(self, left: memoryview) -> memoryview:
        try:
            left = left[self.socket.send(left[: 1 << 16]) :]
        except BlockingIOError:
            return left
        except OSError:
            return memoryview(b"")
        if not left:
            self.hang_up()
        return left

    def hang_up(self) -> None:
        """Say that there is no more input."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def receive(self) -> bytes | None:
        """Return raw bytes; b"": the end; None: nothing just now."""
        try:
            return self.socket.recv(1 << 16)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def frames(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the whole frames among what came so far: stream number and bytes."""
        self.rest += data
        found = []
        while len(self.rest) >= 8:
            size = int.from_bytes(self.rest[4:8], "big")
            if len(self.rest) < 8 + size:
                break
            found.append((self.rest[0], self.rest[8 : 8 + size]))
            self.rest = self.rest[8 + size :]
        return found

    def _take(self, data: bytes, output: int) -> bool:
        """Keep what it said; True when that is more than it may."""
        over = False
        for number, part in self.frames(data):
            kept = self.heard[number if number in self.heard else 2]
            over = over or len(kept) + len(part) > output
            kept += part[: output - len(kept)]
        return over

    def finish(self) -> None:
        """Look up the exit code.

        Raises:
            BoxLost: the container or the daemon died meanwhile.
        """
        until = time.monotonic() + 10
        while True:
            try:
                about = self.api.exec_inspect(self.id)
            except Exception as error:
                raise BoxLost(f"the container died during the run, or Docker did: {short(error)}") from error
            if about["ExitCode"] is not None:
                self.code = int(about["ExitCode"])
                return
            if self.stop is not None or time.monotonic() > until:
                return
            time.sleep(0.005)

    def close(self) -> None:
        """Let the connection go."""
        with suppress(OSError):
            self.socket.close()
        with suppress(Exception):
            self.stream.close()


class ExecChannel(Channel):
    """A conversation with a command in a container."""

    def __init__(self, exec_: Exec, sweep: Callable[[], None]) -> None:
        """Take over the command."""
        self.exec = exec_
        self.sweep = sweep
        self.parts = b""

    def send(self, data: bytes, deadline: float) -> bool:
        """Send bytes; False when nobody takes them."""
        left, poll = memoryview(data), select.poll()
        poll.register(self.exec.socket, select.POLLOUT)
        while left:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
            try:
                left = left[self.exec.socket.send(left) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True

    def receive(self, deadline: float) -> bytes | None:
        """Return some bytes of standard output; b"": it has ended; None: nothing came in time."""
        poll = select.poll()
        poll.register(self.exec.socket, select.POLLIN)
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            data = self.exec.receive()
            if data == b"":
                return b""
            part = b"".join(piece for number, piece in self.exec.frames(data or b"") if number == 1)
            if part:
                return part
        return None

    def end(self) -> None:
        """End the interpreter, and everything else in the container."""
        with suppress(Exception):
            self.sweep()

    def close(self) -> Stop:
        """Let it go; return how it ended."""
        if self.exec.stop is None:
            self.end()
        with suppress(Exception):
            self.exec.finish()
        self.exec.close()
        return "cpu" if self.exec.code == 152 else "killed"
