"""A Python interpreter in a box that keeps its state between calls, like a notebook.

The interpreter runs the loop in `session_driver.py`. A call that exceeds its time limit is interrupted and keeps its
state. If the interrupt has no effect (a loop in C), the interpreter is killed, the result says so, and the next call
starts a new one. Code shares a process with the driver, so its reported output and value cannot be trusted: answers are
decoded under limits, clocks outside the box decide whether a call exceeded its limits, and an interpreter that gives
anything but one answer to each request is killed.
"""

from __future__ import annotations

import json
import math
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import TracebackType
from typing import Final, Self

from turncredit.tools.sandbox.channel import Channel
from turncredit.tools.sandbox.errors import BadCommand, BoxClosed, BoxLost, SandboxError, UntrustedData
from turncredit.tools.sandbox.limits import Limits, Stop
from turncredit.tools.sandbox.untrusted_frames import FrameLimits, decode_frame, text_field

_GRACE: Final = 1.0  # seconds that an interrupted call has to stop
_START: Final = 30.0  # seconds for the interpreter to start
_LOAD: Final = (  # the driver's imports are resolved before files of the box can stand in for them
    "import sys; sys.path[:1] = [entry for entry in sys.path[:1] if entry]; "
    "exec(compile(sys.argv.pop(), '<session>', 'exec'))"
)
_CPU_GRACE: Final = 2.0  # CPU seconds beyond the limit, which the interpreter rounds up
_CPU_INTERVAL: Final = 0.25  # seconds between two looks at the CPU time of a call
_PROCESSORS: Final = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Result of one call.

    Args:
        value: `repr` of the last expression; "" if there is none or it is None.
        stdout: standard output, including that of child processes.
        stderr: the same for standard error.
        error: traceback as text; "" if nothing was raised.
        stop: "exit": the call ended by itself. "timeout", "cpu": it was interrupted, or ended late. "output",
            "memory", "disk", "killed": the interpreter was lost.
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
        python: the interpreter in the box and its options.
        limits: of the box.
    """

    def __init__(self, start: Callable[[list[str]], Channel], python: Sequence[str], limits: Limits) -> None:
        self.limits = limits
        self.closed = False
        self._answers = FrameLimits(16 * limits.output + (1 << 20), 1, 8, 24, limits.output + 100)
        self._start, self._python = start, python
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._buffer, self._calls = bytearray(), 0
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
        driver = files("turncredit.tools.sandbox").joinpath("session_driver.py").read_text(encoding="utf-8")
        self._channel = self._start([*self._python, "-u", "-c", _LOAD, driver])
        self._buffer, self._calls = bytearray(), 0
        try:
            started = isinstance(self._receive(time.monotonic() + _START), dict)
        except UntrustedData:
            started = False
        if not started:
            stop = self._channel.close()
            self._channel = None
            raise BoxLost(
                f"the interpreter in the box does not start ({stop}); it may need more memory, processes or disk"
            )

    def _call(self, request: dict[str, object], seconds: float) -> SessionResult:
        start = time.monotonic()
        deadline = start + seconds + _GRACE
        self._calls += 1
        data = json.dumps(request | {"number": self._calls}).encode()
        assert self._channel is not None
        watch = _CpuWatch(self._channel, self.limits.cpu, start)
        message = "the interpreter was lost, and with it its state"
        try:
            sent = self._channel.send(struct.pack("!I", len(data)) + data, deadline)
            reply = self._receive(deadline, watch) if sent else "killed"
            took = time.monotonic() - start
            if isinstance(reply, dict):
                watch.check()
                return self._result(reply, took, late=took > seconds, cpu=watch.exceeded)
        except UntrustedData as error:
            reply, took = "killed", time.monotonic() - start
            message = f"the interpreter gave a false answer and was ended, and with it its state: {error}"
        cause = self._channel.close()
        self._channel = None
        return SessionResult("", "", "", message, cause if reply == "killed" else reply, took, True)

    def _result(self, reply: dict[str, object], took: float, *, late: bool, cpu: bool) -> SessionResult:
        """Return the result in an answer; the clocks outside the box decide whether a limit was exceeded."""
        number = reply.get("number")
        if type(number) is not int or number != self._calls:
            raise UntrustedData(f"the answer is to request {number!r:.40}, not to {self._calls}")
        value, stdout, stderr, error = (text_field(reply, key) for key in ("value", "stdout", "stderr", "error"))
        reason = text_field(reply, "stop")
        stop: Stop = "cpu" if cpu or reason == "cpu" else "timeout" if late or reason == "timeout" else "exit"
        return SessionResult(value, stdout, stderr, error, stop, took, False)

    def _receive(self, deadline: float, watch: _CpuWatch | None = None) -> dict[str, object] | Stop:
        """Return the next message of the driver, or why there is none.

        Raises:
            UntrustedData: it is malformed, or more follows.
        """
        limits, buffer = self._answers, self._buffer
        assert self._channel is not None
        while True:
            if len(buffer) >= 4:
                size = int.from_bytes(buffer[:4], "big")
                if size > limits.bytes:
                    return "output"
                if len(buffer) > 4 + size:
                    raise UntrustedData("more than one answer to one request")
                if len(buffer) == 4 + size:
                    data = bytes(memoryview(buffer)[4:])
                    buffer.clear()
                    return decode_frame(data, limits)
            pause = watch.due(deadline) if watch else deadline
            chunk = self._channel.receive(pause)
            if chunk is None and watch and pause < deadline:
                watch.check()
                if watch.exceeded:
                    return "cpu"
            elif not chunk:
                return "timeout" if chunk is None else "killed"
            else:
                buffer += chunk


class _CpuWatch:
    """Enforces the limit on CPU time per call from outside, since the interpreter's own limit can be switched off.

    It first looks when the call could have used that much time on all processors, so short calls cost nothing. A call
    may use up to twice its limit and 2 s until it is noticed; the interpreter's own limit comes before.
    """

    def __init__(self, channel: Channel, limit: float, start: float) -> None:
        self.channel, self.limit = channel, limit
        self.exceeded = False
        self._next = start + limit / _PROCESSORS
        self._used: float | None = None  # at the first look

    def due(self, deadline: float) -> float:
        """Return the time of the next look, at most `deadline`."""
        return min(self._next, deadline)

    def check(self) -> None:
        """Look whether the limit is exceeded, if it is time to."""
        current_time = time.monotonic()
        if current_time < self._next:
            return
        self._next = current_time + _CPU_INTERVAL
        try:
            used = self.channel.cpu()
        except SandboxError:  # it ends just now, or runs on another machine
            return
        if self._used is None:
            self._used = used
        self.exceeded = used > self._used + math.ceil(self.limit) + _CPU_GRACE
