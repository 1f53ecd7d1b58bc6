"""A lock on an output folder, so that two processes never write into the same one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnwise.agents.errors import FolderInUse, StoreError

__all__ = ["locked"]


@contextmanager
def locked(folder: Path, activity: str) -> Iterator[None]:
    """Make a folder and lock it against other processes; the system releases the lock when this process ends.

    Args:
        folder: the folder; its file ``.lock`` names the process.
        activity: what the process does there, for the message of another one: "training in".

    Raises:
        FolderInUse: another process holds the lock.
        StoreError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"the output folder {folder} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise FolderInUse(
                f"process {holder} is already {activity} {folder}; wait for it, or choose another output"
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
        yield
    finally:
        os.close(handle)
