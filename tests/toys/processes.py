"""Processes of this machine that a test looks for, by a word in their command line that no other has."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def read_all(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the process id and the contents of one file in /proc, such as ``cmdline``, of each process that runs."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):  # it has ended since
            yield pid, Path(f"/proc/{pid}/{name}").read_bytes()


def processes(word: str) -> list[int]:
    """Return the other processes that have a word in their command line; zombies have none."""
    return [pid for pid, line in read_all("cmdline") if word.encode() in line and pid != os.getpid()]


def end(word: str) -> None:
    """Kill the processes that have a word in their command line."""
    while found := processes(word):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
