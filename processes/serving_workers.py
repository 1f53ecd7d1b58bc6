"""A web application in several processes on one port.

The processes are forked after the application was made, so that what it read is in memory once. Each has a socket of
its own for the same port (SO_REUSEPORT), among which the kernel distributes connections. A process that dies is
replaced by one that takes over its socket, so that waiting connections are answered; processes that keep dying end the
service.

Not included: systems without fork and SO_REUSEPORT, such as Windows.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TYPE_CHECKING, Final

from turncredit.processes.serving import PortInUse, ServingError, listen, serve_forever

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["WorkersFailed", "listen_for_workers", "serve_with_workers"]

_DEATHS: Final = 5  # more within a minute end the service
_MINUTE: Final = 60.0
_STOP: Final = 10.0  # seconds for a process to end before it is killed
_WATCH: Final = 1.0  # seconds between looks of a process at its parent
_ENDS: Final = frozenset({signal.SIGINT, signal.SIGTERM})


class WorkersFailed(ServingError):
    """The processes of a service died again and again."""


def listen_for_workers(workers: int, host: str = "127.0.0.1", port: int = 0) -> list[socket.socket]:
    """Return listening sockets for the same port, one for each worker.

    Raises:
        PortInUse: see `turncredit.processes.serving.listen`.
        WorkersFailed: this system cannot share a port among processes.
    """
    if not hasattr(socket, "SO_REUSEPORT") or "fork" not in multiprocessing.get_all_start_methods():
        raise WorkersFailed("several workers need fork and SO_REUSEPORT, which this system lacks; use one worker")
    listen(host, port).close()  # a port that another service shares would be taken without an error
    opened = [_listening(host, port)]
    opened += [_listening(*opened[0].getsockname()[:2]) for _ in range(workers - 1)]
    return opened


def serve_with_workers(
    app: FastAPI,
    opened: list[socket.socket],
    *,
    report: Callable[[str], None] = lambda message: None,
    names: Sequence[str] = (),
) -> None:
    """Serve with a process for each socket until Ctrl-C or SIGTERM; none of them is left then.

    Args:
        app: the application.
        opened: from `listen_for_workers`; closed in the end.
        report: called with a sentence when a process died.
        names: see `serve_forever`.

    Raises:
        WorkersFailed: more than five processes died within a minute.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    running: list[BaseProcess] = []
    try:
        start = partial(_start, app, names)
        running += [start(server) for server in opened]
        _supervise(start, opened, running, report)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _stop(running)
        for server in opened:
            server.close()
        signal.signal(signal.SIGTERM, before)


def _supervise(
    start: Callable[[socket.socket], BaseProcess],
    opened: list[socket.socket],
    running: list[BaseProcess],
    report: Callable[[str], None],
) -> None:
    """Replace processes that die."""
    deaths: list[float] = []
    while True:
        wait([process.sentinel for process in running])
        for number, process in enumerate(running):
            if process.is_alive():
                continue
            process.join()
            deaths = [moment for moment in deaths if time.monotonic() - moment < _MINUTE] + [time.monotonic()]
            if len(deaths) > _DEATHS:
                raise WorkersFailed(
                    f"{len(deaths)} workers died within a minute, the last one with exit code {process.exitcode}"
                )
            report(f"worker {number + 1} died with exit code {process.exitcode}; another one takes its place")
            running[number] = start(opened[number])


def _start(app: FastAPI, names: Sequence[str], opened: socket.socket) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(app, names, opened, os.getpid()), daemon=True
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # or the new process might leave this code as its parent
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _work(app: FastAPI, names: Sequence[str], opened: socket.socket, parent: int) -> None:
    """Serve in its own process until it is asked to stop, or its parent is gone."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    Thread(target=_watch, args=(parent,), daemon=True).start()
    serve_forever(app, opened, names=names)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(running: list[BaseProcess]) -> None:
    """End all processes; those that take too long are killed."""
    for process in running:
        process.terminate()
    deadline = time.monotonic() + _STOP
    for process in running:
        with contextlib.suppress(KeyboardInterrupt):
            process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(address)
        opened.listen(512)
    except OSError as error:
        opened.close()
        raise PortInUse(f"cannot listen on {host} port {port}: {error.strerror}; choose another port") from error
    return opened


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
