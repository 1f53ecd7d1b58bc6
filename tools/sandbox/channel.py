"""Interface for exchanging bytes with a running program."""

from __future__ import annotations

from abc import ABC, abstractmethod

from turnwise.tools.sandbox.limits import Stop


class Channel(ABC):
    """Standard input and output of a program in a box; deadlines are times of `time.monotonic`."""

    @abstractmethod
    def send(self, data: bytes, deadline: float) -> bool:
        """Write all bytes; return False if the program did not read them in time or has ended."""

    @abstractmethod
    def receive(self, deadline: float) -> bytes | None:
        """Return available bytes; b"" after the end of the stream, None if nothing arrived in time."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the program; a pending `receive` returns."""

    @abstractmethod
    def close(self) -> Stop:
        """Kill the program, release the channel and return why the program stopped, if known."""
