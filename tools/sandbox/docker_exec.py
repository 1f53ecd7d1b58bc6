"""Commands in a Docker container: separate their streams, enforce limits, and wait for their exit code."""

from __future__ import annotations

import io
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from turncredit.tools.sandbox.channel import Channel, write_all
from turncredit.tools.sandbox.errors import BoxLost
from turncredit.tools.sandbox.limits import Stop

USER: Final = "1000:1000"
_LAST_WORDS: Final = 0.5  # seconds to read what a killed command has written before
_START: Final = 30.0  # seconds for a command to start
_LINE: Final = 1000  # bytes of its first line
_LARGEST_FRAME: Final = 1 << 24  # bytes


def first_line(error: Exception) -> str:
    """Return the first line of an error of Docker."""
    text = str(getattr(error, "explanation", None) or error)
    return text.splitlines()[0][:200] if text else type(error).__name__


def _read_ahead(stream: object) -> bytes:
    """Return what the HTTP client has read beyond the headers of its answer, and nobody else would see.

    Where the daemon is fast, or the client slow, the first bytes of the stream come with the end of the headers. They
    then lie in the buffer of the client, while the socket goes on after them.
    """
    with suppress(AttributeError, OSError, ValueError):
        reader: io.BufferedReader = stream._response.raw._fp.fp  # type: ignore[attr-defined]
        return reader.peek()  # the socket does not block, so neither does this
    return b""


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
        self.early: list[tuple[int, bytes]] = []
        try:
            self.id = api.exec_create(container, argv, stdin=stdin, user=USER)["Id"]
            self.stream = api.exec_start(self.id, socket=True)
        except Exception as error:
            raise BoxLost(f"the container is gone, or Docker stopped responding: {first_line(error)}") from error
        self.socket: socket.socket = getattr(self.stream, "_sock", self.stream)
        self.socket.setblocking(False)
        self.early = self.frames(_read_ahead(self.stream))

    def text(self, stream: int) -> bytes:
        """Return what was read from standard output (1) or standard error (2)."""
        return bytes(self.received[stream])

    def run(self, stdin: bytes, output: int, deadline: float, kill: Callable[[], None]) -> None:
        """Exchange data with the command until it ends; call `kill` at the deadline or after too much output."""
        if self._collect(b"", output):
            self.close()
            self._stop("output", kill)
            return
        left, poll = memoryview(stdin), select.poll()
        poll.register(self.socket, select.POLLIN | (select.POLLOUT if left else 0))
        while True:
            current_time = time.monotonic()
            if current_time >= deadline:
                if self.stop is None:
                    self._stop("timeout", kill)
                    deadline = time.monotonic() + _LAST_WORDS  # for what it wrote before
                    continue
                return
            for _, events in poll.poll((deadline - current_time) * 1000 + 1):
                if events & select.POLLOUT and left:
                    left = self._feed(left)
                    if not left:
                        poll.modify(self.socket, select.POLLIN)
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    data = self.receive()
                    if data == b"":
                        return
                    if self._collect(data or b"", output) and self.stop is None:
                        self.close()  # unread output blocks the program, not the host
                        self._stop("output", kill)
                        return

    def _stop(self, why: Stop, kill: Callable[[], None]) -> None:
        self.stop = why
        kill()

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
        """Add data to the buffer; return its complete frames as (stream number, bytes), after those that came early."""
        self.buffer += data
        frames, self.early = self.early, []
        while len(self.buffer) >= 8:
            size = int.from_bytes(self.buffer[4:8], "big")
            if size > _LARGEST_FRAME:
                raise BoxLost("Docker sent a frame of a stream that is too long")
            if len(self.buffer) < 8 + size:
                break
            frames.append((self.buffer[0], self.buffer[8 : 8 + size]))
            self.buffer = self.buffer[8 + size :]
        return frames

    def _collect(self, data: bytes, output: int) -> bool:
        """Keep output of the command; return whether it is more than allowed."""
        over = False
        for stream, part in self.frames(data):
            stream_bytes = self.received[stream if stream in self.received else 2]
            over = over or len(stream_bytes) + len(part) > output
            stream_bytes += part[: output - len(stream_bytes)]
        return over

    def finish(self) -> None:
        """Wait for the exit code; that of a command that was killed is known.

        Raises:
            BoxLost: the container or the daemon died.
        """
        deadline = time.monotonic() + 10
        while self.stop is None and time.monotonic() < deadline:
            try:
                state = self.api.exec_inspect(self.id)
            except Exception as error:
                raise BoxLost(f"the container died during the run, or Docker did: {first_line(error)}") from error
            if state["ExitCode"] is not None:
                self.code = int(state["ExitCode"])
                return
            time.sleep(0.005)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self.socket.close()
        with suppress(Exception):
            self.stream.close()


class DockerChannel(Channel):
    """Channel to a command in a container.

    Args:
        command: it first writes its process number, in a line.
        kill: kills the process with that number.
        cpu: returns the CPU seconds that the container has used.

    Raises:
        BoxLost: the command does not start.
    """

    def __init__(self, command: DockerExec, kill: Callable[[int], None], cpu: Callable[[], float]) -> None:
        self.command = command
        self._kill, self._cpu = kill, cpu
        self.stop: Stop | None = None
        line, _, self.rest = self._first_line(time.monotonic() + _START).partition(b"\n")
        if not line.isdigit():
            command.close()
            raise BoxLost(f"a program in the container does not start: {line[:200].decode('utf-8', 'replace')}")
        self.pid = int(line)

    def _first_line(self, deadline: float) -> bytes:
        self.rest = b""
        text = b""
        while b"\n" not in text and len(text) < _LINE:
            part = self.receive(deadline)
            if not part:
                break
            text += part
        return text

    def send(self, data: bytes, deadline: float) -> bool:
        """Write all bytes; return False if the program did not read them in time or has ended."""
        return write_all(self.command.socket.fileno(), self.command.socket.send, data, deadline)

    def receive(self, deadline: float) -> bytes | None:
        """Return available bytes; b"" after the end of the stream, None if nothing arrived in time."""
        if self.rest:
            part, self.rest = self.rest, b""
            return part
        if part := self._output(b""):
            return part
        poll = select.poll()
        poll.register(self.command.socket, select.POLLIN)
        while (seconds := deadline - time.monotonic()) > 0 and poll.poll(seconds * 1000):
            data = self.command.receive()
            if data == b"":
                return b""
            if part := self._output(data or b""):
                return part
        return None

    def _output(self, data: bytes) -> bytes:
        """Add data to the buffer; return what its complete frames have of standard output."""
        return b"".join(piece for stream, piece in self.command.frames(data) if stream == 1)

    def cpu(self) -> float:
        """Return the CPU seconds that the container has used."""
        return self._cpu()

    def kill(self, why: Stop = "killed") -> None:
        """Kill the program."""
        self.stop = self.stop or why
        with suppress(Exception):
            self._kill(self.pid)

    def close(self) -> Stop:
        """Kill the program, release the channel and return why the program stopped."""
        self.command.close()  # unread output blocks the program, not the host
        if self.stop is None:
            with suppress(Exception):
                self._kill(self.pid)
            with suppress(Exception):
                self.command.finish()
        return self.stop or ("cpu" if self.command.code == 152 else "killed")
