"""Ports that are bound before they are named, so that no other program of the machine can take them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port at which nobody listens, and which the system gives to nobody else until the block ends.

    A server that sets SO_REUSEADDR, as nearly all do, can listen at it meanwhile.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # for servers that set it: all have to
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
