"""Waiting for what takes a moment: conditions that come to hold, processes that end."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def eventually(holds: Callable[[], bool], seconds: float = 200.0) -> bool:
    """Whether a condition holds within some seconds: many, since a machine may be busy, and none more than it takes."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def gone(pid: int) -> bool:
    """Whether a process ends; a zombie counts as ended."""
    return eventually(lambda: not _running(pid))


def _running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
