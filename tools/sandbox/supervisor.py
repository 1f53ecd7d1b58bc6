"""The supervisor's end: it starts a warden once for this process, and asks it for rooms and programs."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, ClassVar

from turnwise.tools.sandbox.errors import BoxLost, SandboxError

_START = "import sys; sys.path[:] = {path!r}; from turnwise.tools.sandbox.fork_server import main; main()"
_PATIENCE = 30.0  # seconds for a warden to answer: it makes a room in milliseconds


class Warden:
    """The warden of this process."""

    _one: ClassVar[Warden | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        """Start it."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            code = _START.format(path=[entry for entry in sys.path if entry])
            # Descriptors of other threads stay closed; a session of its own, since Ctrl-C is for the supervisor.
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, str(os.getpid())], stdin=theirs.fileno(), start_new_session=True
            )
        self.owner = os.getpid()

    @classmethod
    def get(cls) -> Warden:
        """Return the warden of this process; a process that was forked off, or lost its warden, gets a new one."""
        with cls._lock:
            one = cls._one
            if one is None or one.owner != os.getpid() or one.process.poll() is not None:
                cls._one = one = cls()
            return one

    @classmethod
    def replace(cls) -> None:
        """Start another warden after one that died: it ends what that one was about to start."""
        one = cls._one
        if one is not None and one.owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                one.process.wait(1)
                cls.get()

    def send(self, do: str, fds: list[int], **request: Any) -> socket.socket:
        """Send a request, and return the socket on which its answer comes.

        Raises:
            BoxLost: the warden is gone.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("request", os.MFD_CLOEXEC)
        try:
            os.write(memory, json.dumps({"do": do, **request}).encode())
            socket.send_fds(self.socket, [b"."], [memory, theirs.fileno(), *fds])
        except OSError as error:
            ours.close()
            raise BoxLost(f"the process that keeps the boxes is gone: {error.strerror}") from error
        finally:
            os.close(memory)
            theirs.close()
        return ours

    def ask(self, do: str, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Return the answer to a request, and the descriptors that came with it."""
        with self.send(do, [], **request) as status:
            status.settimeout(_PATIENCE)
            try:
                return heard(*socket.recv_fds(status, 4096, 4)[:2])
            except TimeoutError as error:
                raise BoxLost("the process that keeps the boxes does not answer") from error

    def stop(self) -> None:
        """End the warden, and with it every box."""
        with suppress(OSError):
            self.socket.shutdown(
                socket.SHUT_RDWR
            )  # closing is not enough while a process that was forked off has it too
        self.socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)


def heard(message: bytes, fds: list[int]) -> tuple[dict[str, Any], list[int]]:
    """Return an answer of the warden.

    Raises:
        BoxLost: there is none.
        SandboxError: it says what went wrong.
    """
    if not message:
        Warden.replace()
        raise BoxLost("the process that kept the box died")
    answer = json.loads(message)
    if "error" in answer:
        raise SandboxError(f"the box could not be used: {answer['error']}")
    for fd in fds:
        os.set_inheritable(fd, False)
    return answer, fds


@atexit.register
def _stop() -> None:
    one = Warden._one
    if one is not None and one.owner == os.getpid():
        one.stop()
