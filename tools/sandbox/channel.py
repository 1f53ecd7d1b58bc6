"""Interface for exchanging bytes with a running program."""

from __future__ import annotations

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from turncredit.tools.sandbox.limits import Stop


class Channel(ABC):
    """Standard input and output of a program in a box; deadlines are times of `time.monotonic`."""

    @abstractmethod
    def send(self, data: bytes, deadline: float) -> bool:
        """Write all bytes; return False if the program did not read them in time or has ended."""

    @abstractmethod
    def receive(self, deadline: float) -> bytes | None:
        """Return available bytes; b"" after the end of the stream, None if nothing arrived in time."""

    @abstractmethod
    def cpu(self) -> float:
        """Return the CPU seconds of the processes that run in the box, with those of their ended children.

        Raises:
            SandboxError: it cannot be told.
        """

    @abstractmethod
    def kill(self, why: Stop = "killed") -> None:
        """Kill the program; a pending `receive` returns, and `close` returns `why`."""

    @abstractmethod
    def close(self) -> Stop:
        """Kill the program, release the channel and return why the program stopped, if known."""


def write_all(fd: int, write: Callable[[memoryview], int], data: bytes, deadline: float) -> bool:
    """Write all bytes to a non-blocking descriptor; return False at the deadline or if the other end is closed."""
    left, poll = memoryview(data), None
    while left:
        seconds = deadline - time.monotonic()
        if seconds <= 0 or (poll and not poll.poll(seconds * 1000)):
            return False
        try:
            left = left[write(left) :]
        except BlockingIOError:
            if poll is None:  # most requests fit into the pipe at once
                poll = select.poll()
                poll.register(fd, select.POLLOUT)
        except OSError:
            return False
    return True
