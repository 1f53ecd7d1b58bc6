"""A Python interpreter in a box that keeps its state between calls, like a notebook.

The interpreter runs the loop in `session_driver.py`. A call that exceeds its time limit is interrupted and keeps its
state. If the interrupt has no effect (a loop in C), the interpreter is killed, the result says so, and the next call
starts a new one. Code shares a process with the driver, so its reported output and value cannot be trusted.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from types import TracebackType
from typing import Any, Final, Self

from turnwise.tools.sandbox.channel import Channel
from turnwise.tools.sandbox.errors import BadCommand, BoxClosed, BoxLost
from turnwise.tools.sandbox.limits import Limits, Stop

_GRACE: Final = 1.0  # seconds that an interrupted call has to stop
_START: Final = 30.0  # seconds for the interpreter to start


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Result of one call.

    Args:
        value: `repr` of the last expression; "" if there is none or it is None.
        stdout: standard output, including that of child processes.
        stderr: standard error, likewise.
        error: traceback as text; "" if nothing was raised.
        stop: "exit": the call ended by itself. "timeout", "cpu": it was interrupted. "output", "memory", "killed": the
            interpreter was lost.
        seconds: wall-clock time.
        restarted: whether the state is lost; the next call then starts a new interpreter.
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


class PythonSession:
    """A Python interpreter in a box, created by `Box.session`.

    Args:
        start: runs a command in the box and returns its channel.
        python: path of the interpreter in the box.
        limits: of the box.
    """

    def __init__(self, start: Callable[[list[str]], Channel], python: str, limits: Limits) -> None:
        self.limits = limits
        self.closed = False
        self._start, self._python = start, python
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._buffer = b""
        self._restart()

    def run(self, code: str, timeout: float | None = None) -> SessionResult:
        """Run code with the state that earlier calls left, and return the result.

        Args:
            code: Python source; the value of a final expression is returned.
            timeout: seconds; the limit of the box applies if that is less.

        Raises:
            BadCommand: `code` is not a str.
            BoxClosed: the session or its box is closed.
            BoxLost: the interpreter does not start.
        """
        seconds = self.limits.seconds(timeout)
        if not isinstance(code, str):
            raise BadCommand(f"code must be a str, got {type(code).__name__}")
        request = {"code": code, "timeout": seconds, "output": self.limits.output, "cpu": self.limits.cpu}
        with self._lock:
            if self.closed:
                raise BoxClosed("the session is closed; start another one")
            if self._channel is None:
                self._restart()
            return self._call(request, seconds)

    def close(self) -> None:
        """Kill the interpreter; closing a session twice has no effect."""
        self.closed = True
        channel = self._channel
        if channel is not None:
            channel.kill()  # a call in another thread returns and releases the lock
        with self._lock:
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

    def _restart(self) -> None:
        driver = files("turnwise.tools.sandbox").joinpath("session_driver.py").read_text(encoding="utf-8")
        self._channel = self._start([self._python, "-u", "-c", driver])
        self._buffer = b""
        ready = self._receive(time.monotonic() + _START)
        if not isinstance(ready, dict):
            stop = self._channel.close()
            self._channel = None
            raise BoxLost(
                f"the interpreter in the box does not start ({stop}); it may need more memory, processes or disk"
            )

    def _call(self, request: dict[str, Any], seconds: float) -> SessionResult:
        start = time.monotonic()
        deadline = start + seconds + _GRACE
        data = json.dumps(request).encode()
        assert self._channel is not None
        sent = self._channel.send(struct.pack("!I", len(data)) + data, deadline)
        reply = self._receive(deadline) if sent else "killed"
        took = time.monotonic() - start
        if isinstance(reply, dict):
            value, stdout, stderr, error = (str(reply.get(key, "")) for key in ("value", "stdout", "stderr", "error"))
            stop: Stop = reply["stop"] if reply.get("stop") in ("timeout", "cpu") else "exit"
            return SessionResult(value, stdout, stderr, error, stop, took, False)
        cause = self._channel.close()
        self._channel = None
        stop = cause if reply == "killed" else reply
        return SessionResult("", "", "", "the interpreter was lost, and with it its state", stop, took, True)

    def _receive(self, deadline: float) -> dict[str, Any] | Stop:
        """Return the next message of the driver, or why there is none."""
        largest = 16 * self.limits.output + (1 << 20)
        assert self._channel is not None
        while True:
            if len(self._buffer) >= 4:
                size = struct.unpack("!I", self._buffer[:4])[0]
                if size > largest:
                    return "output"
                if len(self._buffer) >= 4 + size:
                    data, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
                    return _decoded(data)
            chunk = self._channel.receive(deadline)
            if not chunk:
                return "timeout" if chunk is None else "killed"
            self._buffer += chunk


def _decoded(data: bytes) -> dict[str, Any] | Stop:
    try:
        message = json.loads(data)
    except ValueError:
        return "killed"
    return message if isinstance(message, dict) else "killed"
