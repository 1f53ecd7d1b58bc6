"""Hosts of environments that several pools use at once: rollouts, and evaluations between them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

from turncredit.envs.host import EnvHosts, LimitsLosses, MakeEnv, RemoteEnv

__all__ = ["SharedHosts"]


class SharedHosts:
    """Hosts that start when the first pool borrows them, and are closed when the last one gives them back.

    Args:
        start: starts the hosts.
    """

    def __init__(self, start: Callable[[], EnvHosts]) -> None:
        self._start = start
        self._hosts: EnvHosts | None = None
        self._users = 0
        self._lock = threading.Lock()

    def borrow(self) -> EnvHosts:
        """Return the hosts; `close` gives them back."""
        with self._lock:
            hosts = self._hosts = self._hosts or self._start()
            self._users += 1
        return _BorrowedHosts(hosts, self._give_back)

    def _give_back(self) -> None:
        with self._lock:
            self._users -= 1
            hosts = None if self._users else self._hosts
            if hosts is not None:
                self._hosts = None
                hosts.close()


class _BorrowedHosts:
    """The hosts as one pool sees them (`turncredit.envs.host.EnvHosts`)."""

    def __init__(self, hosts: EnvHosts, give_back: Callable[[], None]) -> None:
        self._hosts, self._give_back, self._closed = hosts, give_back, False
        self._before = hosts.replaced

    def open(self, make: MakeEnv, seconds: float | None, start_seconds: float | None) -> Future[RemoteEnv]:
        return self._hosts.open(make, seconds, start_seconds)

    def open_alone(self, make: MakeEnv, seconds: float | None, start_seconds: float | None) -> Future[RemoteEnv]:
        open_ = self._hosts.open_alone if isinstance(self._hosts, LimitsLosses) else self._hosts.open
        return open_(make, seconds, start_seconds)

    @property
    def capacity(self) -> int:
        return self._hosts.capacity if isinstance(self._hosts, LimitsLosses) else sys.maxsize

    @property
    def replaced(self) -> int:
        return self._hosts.replaced - self._before

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._give_back()
