"""A function in a copy of this process, under limits of CPU time and memory.

For work that a stranger wrote and a limit inside Python cannot hold, such as a template that multiplies a string. The
copy has everything that this process has in memory, so nothing has to be loaded again; it takes milliseconds.

The work must be plain Python: threads do not exist in the copy, so it must not use torch, tokenizers, or a lock that
another thread may hold. Not included: systems other than Linux, where the work is done in this process without limits.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeVar

from turncredit.processes.garbage_collection import leave_inherited_garbage, no_collection

__all__ = ["LimitExceeded", "call_bounded"]

T = TypeVar("T")

_PATIENCE = 20
"""Seconds of waiting for each second of CPU time, on a machine that has much else to do."""


class LimitExceeded(Exception):
    """The work took too much time or memory; the message completes "it takes ..."."""


def call_bounded(work: Callable[[], T], *, seconds: int, memory: int, result_bytes: int = 64 << 20) -> T:
    """Return the result of a function that a copy of this process calls.

    Args:
        work: its result, or its exception, is pickled.
        seconds: of CPU time.
        memory: bytes that it may take beyond what this process has.
        result_bytes: length of the pickled result.

    Raises:
        LimitExceeded: the work took more time or memory, returned more, or ended its process.
        Exception: that of the work.
    """
    if not sys.platform.startswith("linux"):
        return work()
    reader, writer = os.pipe()
    collects = gc.isenabled()
    with warnings.catch_warnings(), no_collection():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the work does not use
        pid = os.fork()
        if not pid:
            os.close(reader)
            _work(work, writer, seconds, memory, collects)
    os.close(writer)
    try:
        data = _read(reader, time.monotonic() + _PATIENCE * seconds, result_bytes)
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if not data:
        slow = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        raise LimitExceeded(f"more than {seconds} seconds" if slow else f"more than {memory >> 20} MiB of memory")
    succeeded, value = pickle.loads(data)
    if not succeeded:
        raise value
    result: T = value
    return result


def _work(work: Callable[[], object], writer: int, seconds: int, memory: int, collects: bool) -> NoReturn:
    """Call the function in the copy, write its pickled result, and end the copy without any clean-up."""
    leave_inherited_garbage(collects)  # to visit it would copy all the memory that is shared with the first process
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        _limit(seconds, memory)
        try:
            data = pickle.dumps((True, work()))
        except MemoryError:
            data = pickle.dumps((False, LimitExceeded(f"more than {memory >> 20} MiB of memory")))
        except Exception as error:
            data = pickle.dumps((False, error))
        with os.fdopen(writer, "wb") as file:
            file.write(data)
    finally:
        os._exit(0)


def _limit(seconds: int, memory: int) -> None:
    """Limit this process."""
    import resource

    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    for resource_id, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, used + memory),
    ):
        hard = resource.getrlimit(resource_id)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource_id, (limit, hard))


def _read(reader: int, deadline: float, most: int) -> bytes:
    """Return what the copy writes until its end; nothing if it does not end in time or is too long."""
    blocks: list[bytes] = []
    size = 0
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        block = os.read(reader, 1 << 20)
        if not block:
            return b"".join(blocks)
        blocks.append(block)
        size += len(block)
        if size > most:
            raise LimitExceeded(f"more than {most >> 20} MiB for its result")
    return b""
