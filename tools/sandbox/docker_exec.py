"""Commands in a Docker container: separate their streams, enforce limits, and wait for their exit code."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from turnwise.tools.sandbox.channel import Channel, write_all
from turnwise.tools.sandbox.errors import BoxLost
from turnwise.tools.sandbox.limits import Stop

USER: Final = "1000:1000"


def first_line(error: Exception) -> str:
    """Return the first line of an error of Docker."""
    text = str(getattr(error, "explanation", None) or error)
    return text.splitlines()[0][:200] if text else type(error).__name__


class DockerExec:
    """One command in a container.

    Args:
        api: low-level client of the Docker SDK.
        container: id of the container.
        argv: the command.
        stdin: whether the command reads input.

    Raises:
        BoxLost: the container is gone, or Docker does not respond.
    """

    def __init__(self, api: Any, container: str, argv: list[str], *, stdin: bool) -> None:
        self.api = api
        self.stop: Stop | None = None
        self.code = 137
        self.buffer = b""
        self.received = {1: bytearray(), 2: bytearray()}
        try:
            self.id = api.exec_create(container, argv, stdin=stdin, user=USER, workdir="/work")["Id"]
            self.stream = api.exec_start(self.id, socket=True)
        except Exception as error:
            raise BoxLost(f"the container is gone, or Docker stopped responding: {first_line(error)}") from error
        self.socket: socket.socket = getattr(self.stream, "_sock", self.stream)
        self.socket.setblocking(False)

    def text(self, stream: int) -> bytes:
        """Return what was read from standard output (1) or standard error (2)."""
        return bytes(self.received[stream])

    def run(self, stdin: bytes, output: int, deadline: float, kill: Callable[[], None]) -> None:
        """Exchange data with the command until it ends; call `kill` at the deadline or after too much output."""
        left, poll = memoryview(stdin), select.poll()
        poll.register(self.socket, select.POLLIN | (select.POLLOUT if left else 0))
        while True:
            now = time.monotonic()
            if now >= deadline:
                if self.stop is not None:
                    return
                self.stop = "timeout"
                kill()
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
                    if self._collect(data or b"", output) and self.stop is None:
                        self.close()  # first: a daemon that is blocked by a flood of output does not start `kill`
                        self.stop = "output"
                        kill()
                        return

    def _feed(self, left: memoryview) -> memoryview:
        try:
            left = left[self.socket.send(left[: 1 << 16]) :]
        except BlockingIOError:
            return left
        except OSError:
            return memoryview(b"")
        if not left:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
        return left

    def receive(self) -> bytes | None:
        """Return raw bytes; b"" at the end, None if nothing is available."""
        try:
            return self.socket.recv(1 << 16)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def frames(self, data: bytes) -> list[tuple[int, bytes]]:
        """Add data to the buffer; return its complete frames as (stream number, bytes)."""
        self.buffer += data
        found = []
        while len(self.buffer) >= 8:
            size = int.from_bytes(self.buffer[4:8], "big")
            if len(self.buffer) < 8 + size:
                break
            found.append((self.buffer[0], self.buffer[8 : 8 + size]))
            self.buffer = self.buffer[8 + size :]
        return found

    def _collect(self, data: bytes, output: int) -> bool:
        """Keep output of the command; return whether it is more than allowed."""
        over = False
        for stream, part in self.frames(data):
            kept = self.received[stream if stream in self.received else 2]
            over = over or len(kept) + len(part) > output
            kept += part[: output - len(kept)]
        return over

    def finish(self) -> None:
        """Wait for the exit code.

        Raises:
            BoxLost: the container or the daemon died.
        """
        deadline = time.monotonic() + 10
        while True:
            try:
                state = self.api.exec_inspect(self.id)
            except Exception as error:
                raise BoxLost(f"the container died during the run, or Docker did: {first_line(error)}") from error
            if state["ExitCode"] is not None:
                self.code = int(state["ExitCode"])
                return
            if self.stop is not None or time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self.socket.close()
        with suppress(Exception):
            self.stream.close()


class DockerChannel(Channel):
    """Channel to a command in a container; `kill_all` kills every process in that container."""

    def __init__(self, command: DockerExec, kill_all: Callable[[], None]) -> None:
        self.command = command
        self.kill_all = kill_all

    def send(self, data: bytes, deadline: float) -> bool:
        """Write all bytes; return False if the program did not read them in time or has ended."""
        return write_all(self.command.socket.fileno(), self.command.socket.send, data, deadline)

    def receive(self, deadline: float) -> bytes | None:
        """Return available bytes; b"" after the end of the stream, None if nothing arrived in time."""
        poll = select.poll()
        poll.register(self.command.socket, select.POLLIN)
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            data = self.command.receive()
            if data == b"":
                return b""
            part = b"".join(piece for stream, piece in self.command.frames(data or b"") if stream == 1)
            if part:
                return part
        return None

    def kill(self) -> None:
        """Kill the program, and everything else in the container."""
        with suppress(Exception):
            self.kill_all()

    def close(self) -> Stop:
        """Kill the program, release the channel and return why the program stopped."""
        if self.command.stop is None:
            self.kill()
        with suppress(Exception):
            self.command.finish()
        self.command.close()
        return "cpu" if self.command.code == 152 else "killed"
