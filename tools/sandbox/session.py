"""An interpreter that stays: state is kept between calls as in a notebook.

The loop inside is `driver.py`, whose text is given to the interpreter. A call that takes too long is interrupted
inside, and the state is kept; if that does not help (a loop in C), the interpreter is ended, another one starts with
the next call, and the answer says that the state is gone. What the code in it prints and returns is the code's own
word: it shares a process with the driver.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.resources import files
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from turnwise.tools.sandbox.errors import BadCommand, BoxClosed, BoxLost
from turnwise.tools.sandbox.limits import Stop

if TYPE_CHECKING:
    from turnwise.tools.sandbox.box import Box

_GRACE: Final = 1.0  # seconds that an interrupted call has to give up
_WORDS: Final = ("value", "stdout", "stderr", "error")
_START: Final = 30.0  # seconds for the interpreter to say that it is ready


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call.

    Args:
        value: `repr` of the last expression; "" where there is none, or it is None.
        stdout: what was written to standard output, by child processes as well.
        stderr: likewise.
        error: the traceback as text; "" where nothing was raised.
        stop: "exit": the call ended by itself. "timeout", "cpu": it was interrupted. "output", "memory", "killed": the
            interpreter was lost.
        seconds: wall time.
        restarted: the state is gone; the next call begins anew.
    """

    value: str
    stdout: str
    stderr: str
    error: str
    stop: Stop
    seconds: float
    restarted: bool

    @property
    def text(self) -> str:
        """What a notebook shows: output, then errors, then the value."""
        return "\n".join(part.rstrip("\n") for part in (self.stdout, self.stderr, self.error, self.value) if part)


class Channel(ABC):
    """A conversation with a program in a box."""

    @abstractmethod
    def send(self, data: bytes, deadline: float) -> bool:
        """Send bytes; False when nobody takes them."""

    @abstractmethod
    def receive(self, deadline: float) -> bytes | None:
        """Return some bytes; b"": it has ended; None: nothing came in time."""

    @abstractmethod
    def end(self) -> None:
        """End the program; whoever waits for it learns so."""

    @abstractmethod
    def close(self) -> Stop:
        """End the program; return how it had ended, as far as that is known."""


class Session:
    """A Python interpreter in a box, from `Box.session`."""

    def __init__(self, box: Box) -> None:
        """Start the interpreter."""
        self.box = box
        self.closed = False
        self._turn = threading.Lock()
        self._channel: Channel | None = None
        self._rest = b""
        self._begin()

    def run(self, code: str, timeout: float | None = None) -> Answer:
        """Run some code where the last call left off, and return what came of it.

        Args:
            code: Python; the value of a last expression is shown.
            timeout: seconds, if fewer than the box's limit.

        Raises:
            BoxClosed: the session or its box is closed.
            BoxLost: the interpreter does not start any more.
        """
        seconds = self.box._seconds(timeout)
        if not isinstance(code, str):
            raise BadCommand(f"a session runs program texts, not {type(code).__name__}")
        request = {"code": code, "timeout": seconds, "output": self.box.limits.output, "cpu": self.box.limits.cpu}
        with self._turn:
            if self.closed or self.box.closed:
                raise BoxClosed("the session is closed: start another one")
            if self._channel is None:
                self._begin()
            return self._call(request, seconds)

    def close(self) -> None:
        """End the interpreter; closing it again does nothing."""
        self.closed = True
        channel = self._channel
        if channel is not None:
            channel.end()  # a call in another thread returns, and closes it
        with self._turn:
            channel, self._channel = self._channel, None
            if channel is not None:
                channel.close()

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def _begin(self) -> None:
        driver = files("turnwise.tools.sandbox").joinpath("driver.py").read_text(encoding="utf-8")
        self._channel = self.box._converse([self.box.python, "-u", "-c", driver])
        self._rest = b""
        answer = self._receive(time.monotonic() + _START)
        if not isinstance(answer, dict):
            how = self._channel.close()
            self._channel = None
            raise BoxLost(
                f"the interpreter in the box does not start ({how}): it may need more memory, processes or disk"
            )

    def _call(self, request: dict[str, Any], seconds: float) -> Answer:
        start = time.monotonic()
        deadline = start + seconds + _GRACE
        data = json.dumps(request).encode()
        assert self._channel is not None
        sent = self._channel.send(struct.pack("!I", len(data)) + data, deadline)
        answer = self._receive(deadline) if sent else "killed"
        took = time.monotonic() - start
        if isinstance(answer, dict):
            value, stdout, stderr, error = (str(answer.get(name, "")) for name in _WORDS)
            stop: Stop = answer["stop"] if answer.get("stop") in ("timeout", "cpu") else "exit"
            return Answer(value, stdout, stderr, error, stop, took, False)
        how = self._channel.close()
        self._channel = None
        stop = how if answer == "killed" else answer
        return Answer("", "", "", "the interpreter was lost, and with it its state", stop, took, True)

    def _receive(self, deadline: float) -> dict[str, Any] | Stop:
        most = 16 * self.box.limits.output + (1 << 20)
        assert self._channel is not None
        while True:
            if len(self._rest) >= 4:
                size = struct.unpack("!I", self._rest[:4])[0]
                if size > most:
                    return "output"
                if len(self._rest) >= 4 + size:
                    data, self._rest = self._rest[4 : 4 + size], self._rest[4 + size :]
                    return _object(data)
            chunk = self._channel.receive(deadline)
            if not chunk:
                return "timeout" if chunk is None else "killed"
            self._rest += chunk


def _object(data: bytes) -> dict[str, Any] | Stop:
    try:
        answer = json.loads(data)
    except ValueError:
        return "killed"
    return answer if isinstance(answer, dict) else "killed"
