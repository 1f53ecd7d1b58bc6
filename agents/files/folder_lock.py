"""A lock on an output folder, so that two processes never write into the same one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turncredit.agents.errors import FolderInUse, StoreError

__all__ = ["check_lock", "locked"]

LOCK = ".lock"
"""Name of the file."""

_held: dict[Path, tuple[int, int]] = {}
"""Device and inode of the lock of each folder that this process has locked."""


@contextmanager
def locked(folder: Path, activity: str, *, on_wait: Callable[[str], object] | None = None) -> Iterator[None]:
    """Make a folder and lock it against other processes; the system releases the lock when this process ends.

    Args:
        folder: the folder; its file ``.lock`` names the process.
        activity: what the process does there, for the message of another one: "training in".
        on_wait: called with the id of the process that holds the lock, before this one waits for it; None: it does not.

    Raises:
        FolderInUse: another process holds the lock, and this one does not wait.
        StoreError: the folder cannot be written, or lies on a file system without locks.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"the output folder {folder} cannot be written: {error.strerror}") from error
    path = folder.absolute()
    try:
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                if on_wait is None:
                    raise FolderInUse(
                        f"process {holder} is already {activity} {folder}; wait for it, or choose another output"
                    ) from error
                on_wait(holder)
                fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise StoreError(
                f"the output folder {folder} cannot be locked: {error.strerror}; network file systems may have no "
                "locks, so choose an output on a local disk"
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
        status = os.fstat(handle)
        _held[path] = status.st_dev, status.st_ino
        yield
    finally:
        _held.pop(path, None)
        os.close(handle)


def check_lock(folder: Path) -> None:
    """Check that a folder which this process has locked is still there; one that it has not locked is fine.

    Raises:
        StoreError: the folder was deleted, moved or replaced since, so that what is written is lost.
    """
    held = _held.get(folder.absolute())
    if held is None:
        return
    try:
        status = os.stat(folder / LOCK)
    except FileNotFoundError:
        status = None
    if status is None or (status.st_dev, status.st_ino) != held:
        raise StoreError(
            f"the output folder {folder} was deleted, moved or replaced while this process wrote into it; what was "
            "written before is where the folder is now"
        )
