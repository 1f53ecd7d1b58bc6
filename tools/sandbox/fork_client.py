"""Client of the fork server: starts one server per process and sends it requests for boxes and programs."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

from turncredit.tools.sandbox.errors import BoxLost, SandboxError

_START = "import sys; sys.path[:] = {path!r}; from turncredit.tools.sandbox.fork_server import main; main()"
Reply: TypeAlias = dict[str, Any]
"""A reply of the fork server; JSON values."""
_TIMEOUT = 30.0  # seconds for a reply; creating a box takes milliseconds


class ForkServerClient:
    """Connection of this process to its fork server."""

    _current: ClassVar[ForkServerClient | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            code = _START.format(path=[entry for entry in sys.path if entry])
            # Descriptors of other threads stay closed. It gets its own session, so that Ctrl-C does not reach it.
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, str(os.getpid())], stdin=theirs.fileno(), start_new_session=True
            )
        self.owner = os.getpid()

    @classmethod
    def get(cls) -> ForkServerClient:
        """Return the client of this process; start a server after a fork, or if the last one died."""
        with cls._lock:
            current = cls._current
            if current is None or current.owner != os.getpid() or current.process.poll() is not None:
                cls._current = current = cls()
            return current

    @classmethod
    def replace(cls) -> None:
        """Start a new server after one that died; at its start it kills what that one left behind."""
        current = cls._current
        if current is not None and current.owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                current.process.wait(1)
                cls.get()

    def send(self, do: str, fds: list[int], **request: Any) -> socket.socket:
        """Send a request and return the socket on which the reply will arrive.

        Raises:
            BoxLost: the server is gone.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("request", os.MFD_CLOEXEC)
        try:
            os.write(memory, json.dumps({"do": do, **request}).encode())
            socket.send_fds(self.socket, [b"."], [memory, theirs.fileno(), *fds])
        except OSError as error:
            ours.close()
            raise BoxLost(f"the fork server of the sandbox is gone: {error.strerror}") from error
        finally:
            os.close(memory)
            theirs.close()
        return ours

    def ask(self, do: str, **request: Any) -> tuple[Reply, list[int]]:
        """Send a request; return the reply and the descriptors that came with it."""
        with self.send(do, [], **request) as status:
            status.settimeout(_TIMEOUT)
            try:
                return parse_reply(*socket.recv_fds(status, 4096, 4)[:2])
            except TimeoutError as error:
                raise BoxLost("the fork server of the sandbox does not respond") from error

    def stop(self) -> None:
        """Stop the server, and with it every box."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # closing does not suffice while a forked process holds it too
        self.socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)


def parse_reply(message: bytes, fds: list[int]) -> tuple[Reply, list[int]]:
    """Decode a reply of the fork server.

    Raises:
        BoxLost: the server closed the socket without a reply.
        SandboxError: the reply reports an error.
    """
    if not message:
        ForkServerClient.replace()
        raise BoxLost("the fork server of the sandbox died, and the box with it")
    reply = json.loads(message)
    if "error" in reply:
        raise SandboxError(f"the box could not be used: {reply['error']}")
    for fd in fds:
        os.set_inheritable(fd, False)
    return reply, fds


@atexit.register
def _stop() -> None:
    current = ForkServerClient._current
    if current is not None and current.owner == os.getpid():
        current.stop()
