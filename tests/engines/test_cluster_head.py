"""Whether the head of a cluster answers, without Ray: a server that speaks as gRPC does stands for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from toys.waiting import eventually

from turncredit.agents.errors import EngineFailed
from turncredit.engines.cluster import head

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Give the address of a server that answers every connection, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.sendall(answer)
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def test_a_head_answers_with_its_settings() -> None:
    with server(SETTINGS) as address:
        head.greet(address)
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address, pytest.raises(TimeoutError):
        head.greet(address)


def test_a_head_that_is_gone_is_told_to_everybody_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "LOOK", 0.02)
    monkeypatch.setattr(head, "LOST", 0.2)
    told: list[int] = []
    with server(SETTINGS) as address:
        watch = head.HeadWatch(address)
        watch.on_loss += [lambda: told.append(1), lambda: told.append(2)]
        assert not watch.lost
        watch.check()
    assert eventually(lambda: watch.lost and len(told) == 2)
    assert told == [1, 2]
    with pytest.raises(EngineFailed, match=f"the head of the Ray cluster at {address} does not answer any more"):
        watch.check()


def test_a_watch_that_is_stopped_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "LOOK", 0.02)
    monkeypatch.setattr(head, "LOST", 0.1)
    with server(SETTINGS) as address:
        watch = head.HeadWatch(address)
        watch.stop()
    assert eventually(lambda: all(one.name != "turncredit-cluster-head" for one in threading.enumerate()))
    assert not watch.lost
