"""Whether the head of a Ray cluster answers, asked over its socket: before a cluster is joined, and all the time after.

Ray itself waits for a head that has died for a minute, and then ends the whole process from its own threads.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

from turncredit.agents.errors import EngineFailed

REACH = 2.0
"""Seconds in which the address of a cluster must accept a connection, and then answer; Ray itself tries for minutes."""
LOOK = 2.0
"""Seconds between two looks at the head."""
LOST = 20.0
"""Seconds without an answer after which the head counts as lost; one that is started again meanwhile is not."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of gRPC says first, with empty settings; the server sends its own settings."""


def greet(address: str) -> None:
    """Connect to the head at "host:port", and wait for the first bytes of its answer.

    Raises:
        OSError: nothing listens, or what listens does not speak gRPC, or hangs.
        OverflowError: there is no such port.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), REACH) as connection:
        if os.environ.get("RAY_USE_TLS", "0") != "0":
            return
        connection.sendall(_GREETING)
        if connection.recv(9)[3:4] != b"\x04":  # the type of a frame of settings
            raise TimeoutError


class HeadWatch:
    """Looks at the head of a cluster on a thread of its own until it is stopped or the head is lost.

    Attributes:
        lost: whether the head is lost.
        on_loss: functions that are called on the thread when it is.
    """

    def __init__(self, address: str) -> None:
        """Begin to look.

        Args:
            address: address of the head, "host:port".
        """
        self.address = address
        self.lost = False
        self.on_loss: list[Callable[[], object]] = []
        self._over = threading.Event()
        threading.Thread(target=self._look, name="turncredit-cluster-head", daemon=True).start()

    def check(self) -> None:
        """Check that the head is there.

        Raises:
            EngineFailed: it has not answered for `LOST` seconds.
        """
        if self.lost:
            raise EngineFailed(
                f"the head of the Ray cluster at {self.address} does not answer any more: its process has ended, or "
                "its machine cannot be reached"
            )

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def _look(self) -> None:
        answered = time.monotonic()
        while not self._over.wait(LOOK):
            try:
                greet(self.address)
                answered = time.monotonic()
            except (OSError, ValueError):
                if time.monotonic() - answered >= LOST and not self._over.is_set():
                    self.lost = True
                    for tell in list(self.on_loss):
                        tell()
                    return
