"""The pipes of a program of the warden's: feeding it, listening to it, and ending it in time."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from turnwise.tools.sandbox.errors import BoxLost
from turnwise.tools.sandbox.limits import Stop
from turnwise.tools.sandbox.session import Channel
from turnwise.tools.sandbox.supervisor import heard

LATE: Final = 10.0  # seconds after its end that a program may take to die
_CHUNK: Final = 1 << 16
_LOOK: Final = 0.05  # seconds between two looks at the size of a watched folder


class Pump:
    """Feeds a program, listens to it, and ends it when it runs too long or says too much."""

    def __init__(self, status: socket.socket, pipes: list[int], stdin: bytes, output: int) -> None:
        """Take over the descriptors."""
        self.status = status
        self.stdin = memoryview(stdin)
        self.output = output
        self.stop: Stop | None = None
        self.heard: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.fds = {fd: number for number, fd in enumerate(pipes) if fd >= 0}
        self.poll = select.poll()
        self.poll.register(status, select.POLLIN)
        for fd, number in self.fds.items():
            os.set_blocking(fd, False)
            self.poll.register(fd, select.POLLIN if number else select.POLLOUT)

    def run(self, deadline: float, over: Callable[[], bool] | None = None) -> dict[str, Any]:
        """Return the warden's answer, when the program has ended.

        Args:
            deadline: the monotonic time at which it is ended.
            over: called now and then; true: it has filled the disk.
        """
        look = 0.0
        while True:
            now = time.monotonic()
            if over is not None and now >= look and self.stop is None:
                look = now + _LOOK
                if over():
                    self.end("disk")
            if now >= deadline:
                if self.stop is not None:
                    raise BoxLost("a program of the box does not die")
                self.end("timeout")
            if self.stop is not None:
                deadline = min(deadline, now) + LATE if deadline < now + LATE else deadline
            wait = deadline - now if over is None else min(deadline - now, _LOOK)
            for fd, _ in self.poll.poll(max(0.0, wait) * 1000 + 1):
                if fd == self.status.fileno():
                    answer = heard(self.status.recv(4096), [])[0]
                    self.drain()
                    return answer
                self.serve(fd)

    def end(self, why: Stop) -> None:
        """End the program."""
        self.stop = why
        with suppress(OSError):  # it may have ended by itself: then the answer is on its way
            self.status.send(b"kill")

    def serve(self, fd: int) -> bool:
        """Move what can be moved through one pipe; False when there is no more."""
        try:
            number = self.fds[fd]
            if number == 0:
                self.stdin = self.stdin[os.write(fd, self.stdin[:_CHUNK]) :]
                more = len(self.stdin) > 0
            else:
                more = self.take(number, os.read(fd, _CHUNK))
        except BlockingIOError:
            return False
        except BrokenPipeError:
            more = False
        if not more:
            self.drop(fd)
        return more

    def take(self, number: int, data: bytes) -> bool:
        """Keep what a program said; False when that was all."""
        kept = self.heard[number]
        room = self.output - len(kept)
        kept += data[:room]
        if len(data) > room and self.stop is None:
            self.end("output")
        return len(data) > 0

    def drain(self) -> None:
        """Take what the pipes still hold; who else may hold their other ends does not matter any more."""
        for fd, number in list(self.fds.items()):
            while number and fd in self.fds and self.serve(fd):
                pass

    def taken(self, number: int) -> bytes:
        """Return what came through standard output (1) or error (2)."""
        return bytes(self.heard[number])

    def drop(self, fd: int) -> None:
        """Close a pipe."""
        self.poll.unregister(fd)
        os.close(fd)
        del self.fds[fd]

    def close(self) -> None:
        """Close everything; a program that is still running dies of it."""
        for fd in list(self.fds):
            self.drop(fd)
        self.status.close()


class PipeChannel(Channel):
    """A conversation with a program of the warden's, over its standard input and output."""

    def __init__(self, status: socket.socket, ours_in: int, ours_out: int, ours_err: int) -> None:
        """Take over the descriptors."""
        self.status, self.ours_in, self.ours_out = status, ours_in, ours_out
        os.close(ours_err)  # what the interpreter says before it is ready interests nobody
        os.set_blocking(ours_in, False)
        self.poll = select.poll()
        self.poll.register(ours_out, select.POLLIN)

    def send(self, data: bytes, deadline: float) -> bool:
        """Send bytes; False when nobody takes them."""
        left = memoryview(data)
        ready = select.poll()
        ready.register(self.ours_in, select.POLLOUT)
        while left:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
            try:
                left = left[os.write(self.ours_in, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def receive(self, deadline: float) -> bytes | None:
        """Return some bytes; b"": it has ended; None: nothing came in time."""
        if not self.poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        return os.read(self.ours_out, _CHUNK)

    def end(self) -> None:
        """End the program, and with it a call that waits for it."""
        with suppress(OSError):
            self.status.send(b"kill")

    def close(self) -> Stop:
        """End the program; return what the warden says of how it ended."""
        self.end()
        for fd in (self.ours_in, self.ours_out):
            os.close(fd)
        try:
            self.status.settimeout(LATE)
            answer = heard(self.status.recv(4096), [])[0]
        except (OSError, BoxLost):
            return "killed"
        finally:
            self.status.close()
        return "memory" if answer["oom"] else "cpu" if answer["code"] == 152 else "killed"
