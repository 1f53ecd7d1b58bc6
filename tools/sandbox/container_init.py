"""The first processes of a container, and how they end the programs in it.

The first process collects orphans. The second one, a shell loop, reads commands from the supervisor, through the
standard input of the container. Both run as root with a single capability, to send signals; programs run as another
user and can neither signal nor trace them. A program that kills everything that it may, again and again, therefore
cannot keep them from ending it, and no further process has to be started for that.

    all              kill all processes
    others 12 34     kill all but the processes that Docker started with these numbers, and what is below them
    orphans 12       kill these processes that Docker started, what is below them, and all that have lost their parent

For the last two, everything is stopped meanwhile, so that nothing escapes by forking.
The answer is the number of processes that were, or still are, to be killed. The container ends when its standard input
is closed, that is, with the supervisor.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Final

from turncredit.tools.sandbox.channel import write_all
from turncredit.tools.sandbox.errors import BoxLost

PROCESSES: Final = 2
_LONGEST_PAUSE: Final = 0.02
_TIMEOUT: Final = 5.0  # seconds for one answer


def command() -> list[str]:
    """Return the command line of the first process; the shell loop is `container_init.sh`."""
    loop = files("turncredit.tools.sandbox").joinpath("container_init.sh").read_text(encoding="ascii")
    return ["sh", "-c", f"(\n{loop}) 2>/dev/null; :"]  # the outer shell waits, and collects orphans


class ContainerInit:
    """Connection to the second process of a container.

    Args:
        stream: what the Docker SDK returns for the container's standard input and output.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._socket: socket.socket = getattr(stream, "_sock", stream)
        self._socket.setblocking(False)
        self._lock = threading.Lock()
        self._buffer = b""

    def kill_all(self, seconds: float) -> bool:
        """Kill all programs; return False if some are left after `seconds`."""
        return self._repeat("all", seconds)

    def kill_others(self, spared: Iterable[int], seconds: float) -> bool:
        """Kill all programs but these, and all orphans; return False if some are left after `seconds`."""
        return self._repeat(f"others {' '.join(map(str, spared))}", seconds)

    def kill_one(self, pid: int, seconds: float) -> bool:
        """Kill this program, and all orphans; return False if some are left after `seconds`."""
        return self._repeat(f"orphans {pid}", seconds)

    def close(self) -> None:
        """Close the connection, which ends the container."""
        for channel in (self._socket, self._stream):
            with contextlib.suppress(Exception):
                channel.close()

    def _repeat(self, command: str, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, 0.001
        while self._ask(command):
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def _ask(self, command: str) -> int:
        """Send a command and return the number in the answer.

        Raises:
            BoxLost: there is no answer.
        """
        deadline = time.monotonic() + _TIMEOUT
        with self._lock:
            sent = write_all(self._socket.fileno(), self._socket.send, f"{command}\n".encode(), deadline)
            answer = self._line(deadline) if sent else b""
        if not answer.isdigit():
            raise BoxLost("the container died, or Docker stopped responding")
        return int(answer)

    def _line(self, deadline: float) -> bytes:
        """Return the next line; b"" if the container has ended or does not answer."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        text = b""
        while not text.endswith(b"\n"):
            while len(self._buffer) < 8 or len(self._buffer) < 8 + int.from_bytes(self._buffer[4:8], "big"):
                seconds = deadline - time.monotonic()
                try:
                    data = self._socket.recv(4096) if seconds > 0 and poll.poll(seconds * 1000) else b""
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    return b""
                self._buffer += data
            size = int.from_bytes(self._buffer[4:8], "big")
            text += self._buffer[8 : 8 + size]
            self._buffer = self._buffer[8 + size :]
        return text.strip()
