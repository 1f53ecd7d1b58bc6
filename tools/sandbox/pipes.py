"""Standard streams of a program started by the fork server: feed it, read from it, kill it at a limit."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Final

from turncredit.tools.sandbox.channel import Channel, write_all
from turncredit.tools.sandbox.errors import BoxLost
from turncredit.tools.sandbox.fork_client import Reply, parse_reply
from turncredit.tools.sandbox.limits import Stop

KILL_GRACE: Final = 15.0  # seconds that a killed program may take to die; the fork server gives up before
_CHUNK: Final = 1 << 16
_PIPE_READS: Final = (1 << 20) // _CHUNK + 1  # that empty the largest pipe


class ProgramPipes:
    """Runs one program to its end: writes its input, collects its output and enforces the limits on time and output.

    Args:
        status: socket of the fork server for this program.
        pipes: our ends of standard input (-1 for none), output and error; they are closed in the end.
        stdin: bytes to write.
        output: maximum number of bytes of each output stream.
    """

    def __init__(self, status: socket.socket, pipes: list[int], stdin: bytes, output: int) -> None:
        self.status = status
        self.stdin = memoryview(stdin)
        self.output = output
        self.stop: Stop | None = None
        self.killed = False
        self.received: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.streams = {fd: stream for stream, fd in enumerate(pipes) if fd >= 0}
        self.poll = select.poll()
        self.poll.register(status, select.POLLIN)
        for fd, stream in self.streams.items():
            os.set_blocking(fd, False)
            self.poll.register(fd, select.POLLIN if stream else select.POLLOUT)

    def run(self, deadline: float) -> Reply:
        """Return the fork server's reply once the program has ended, with everything that it started.

        Args:
            deadline: time of `time.monotonic` at which the program is killed.

        Raises:
            BoxLost: it could not be killed.
        """
        while True:
            current_time = time.monotonic()
            if self.stop is None and current_time >= deadline:
                self.kill("timeout")
            # Another limit may have ended it just before the deadline, so the time to die is given first.
            if self.stop is not None and not self.killed:
                self.killed, deadline = True, current_time + KILL_GRACE
            elif self.killed and current_time >= deadline:
                raise BoxLost("a program in the box could not be killed")
            for fd, _ in self.poll.poll(max(0.0, deadline - current_time) * 1000 + 1):
                if fd == self.status.fileno():
                    reply = parse_reply(self.status.recv(4096), [])[0]
                    self.drain()
                    return reply
                self.transfer(fd)

    def kill(self, why: Stop) -> None:
        """Kill the program."""
        self.stop = why
        with suppress(OSError):  # it may have ended by itself; then the reply is on its way
            self.status.send(b"kill")

    def transfer(self, fd: int) -> bool:
        """Read or write what is possible on one pipe; return False at its end."""
        try:
            stream = self.streams[fd]
            if stream == 0:
                self.stdin = self.stdin[os.write(fd, self.stdin[:_CHUNK]) :]
                more = len(self.stdin) > 0
            else:
                more = self._collect(stream, os.read(fd, _CHUNK))
        except BlockingIOError:
            return False
        except BrokenPipeError:
            more = False
        if not more:
            self._close_pipe(fd)
        return more

    def drain(self) -> None:
        """Read what the pipes still hold, but not what others that keep them open go on writing."""
        for fd, stream in list(self.streams.items()):
            for _ in range(_PIPE_READS if stream else 0):
                if fd not in self.streams or not self.transfer(fd):
                    break

    def text(self, stream: int) -> bytes:
        """Return what was read from standard output (1) or standard error (2)."""
        return bytes(self.received[stream])

    def close(self) -> None:
        """Close all descriptors; a program that is still running is killed by that."""
        for fd in list(self.streams):
            self._close_pipe(fd)
        self.status.close()

    def _collect(self, stream: int, data: bytes) -> bool:
        buffer = self.received[stream]
        left = self.output - len(buffer)
        buffer += data[:left]
        if len(data) > left and self.stop is None:
            self.kill("output")
        return len(data) > 0

    def _close_pipe(self, fd: int) -> None:
        self.poll.unregister(fd)
        os.close(fd)
        del self.streams[fd]


class PipeChannel(Channel):
    """Channel to a program started by the fork server.

    Args:
        status: socket of the fork server for this program.
        stdin: our end of its standard input.
        stdout: our end of its standard output.
        cpu: returns the CPU seconds that its processes have used.
        watch: starts to watch the disk usage of its box, given what to do when it is over the limit.
    """

    def __init__(
        self,
        status: socket.socket,
        stdin: int,
        stdout: int,
        cpu: Callable[[], float],
        watch: Callable[[Callable[[], None]], AbstractContextManager[object]],
    ) -> None:
        self.status, self.stdin, self.stdout = status, stdin, stdout
        self._cpu = cpu
        self._lock = threading.Lock()
        self.stop: Stop | None = None
        os.set_blocking(stdin, False)
        self.poll = select.poll()
        self.poll.register(stdout, select.POLLIN)
        self.watch = ExitStack()
        self.watch.enter_context(watch(lambda: self.kill("disk")))

    def send(self, data: bytes, deadline: float) -> bool:
        """Write all bytes; return False if the program did not read them in time or has ended."""
        return write_all(self.stdin, lambda left: os.write(self.stdin, left), data, deadline)

    def receive(self, deadline: float) -> bytes | None:
        """Return available bytes; b"" after the end of the stream, None if nothing arrived in time."""
        left = deadline - time.monotonic()
        if left <= 0 or not self.poll.poll(left * 1000):
            return None
        return os.read(self.stdout, _CHUNK)

    def cpu(self) -> float:
        """Return the CPU seconds of the processes that run in the box, with those of their ended children."""
        return self._cpu()

    def kill(self, why: Stop = "killed") -> None:
        """Kill the program; a pending `receive` returns."""
        with self._lock:
            first, self.stop = self.stop is None, self.stop or why
        if first:  # a second message might stay unread, and the reply would be discarded
            with suppress(OSError):
                self.status.send(b"kill")

    def close(self) -> Stop:
        """Kill the program, release the channel and return why the program stopped."""
        self.watch.close()
        asked = self.stop
        self.kill()
        for fd in (self.stdin, self.stdout):
            os.close(fd)
        try:
            self.status.settimeout(KILL_GRACE)
            reply = parse_reply(self.status.recv(4096), [])[0]
        except (OSError, BoxLost):
            return asked or "killed"
        finally:
            self.status.close()
        return asked or ("memory" if reply["oom"] else "cpu" if reply["code"] == 152 else "killed")
