"""Processes of this machine that a test looks for, by a word in their command line that no other has."""

import os
import signal
from contextlib import suppress
from pathlib import Path


def processes(word: str) -> list[int]:
    """Return the processes that have a word in their command line; zombies have none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def end(word: str) -> None:
    """Kill the processes that have a word in their command line."""
    while found := processes(word):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
