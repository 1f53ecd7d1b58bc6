"""The door of an output folder: a lock, so that two processes never write into the same one, and no links in it.

A folder may come from a stranger, and a link in it would lead what is written to any file of the user, so it is looked
through before anything is written. The folder itself may be a link, since the user named it.

Not included: a program of the same user that adds links while another one writes; hard links, which neither an archive
nor a clone can lead to a file that was there before.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turncredit.agents.errors import FolderInUse, StoreError

__all__ = ["check_lock", "locked", "make_folder", "require_plain_files"]

LOCK = ".lock"
"""Name of the file."""

OF_LIBRARIES = ("wandb",)
"""Folders of loggers, which make links of their own; these must stay inside."""

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
        StoreError: the folder cannot be written, holds links or devices, or lies on a file system without locks.
    """
    _make(folder)
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        require_plain_files(folder)  # says which link, if it was one
        raise _unwritable(folder, error) from error
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
        require_plain_files(folder)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
        status = os.fstat(handle)
        _held[path] = status.st_dev, status.st_ino
        yield
    finally:
        _held.pop(path, None)
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make an output folder if it does not exist, and check that nothing in it leads elsewhere.

    Args:
        folder: the folder, which may itself be a link to one.

    Raises:
        StoreError: it cannot be made, or `require_plain_files` raises it.
    """
    _make(folder)
    require_plain_files(folder)


def _make(folder: Path) -> None:
    if folder.is_symlink() and not folder.exists():
        raise StoreError(f"the output folder {folder} is a link to {os.readlink(folder)}, which does not exist")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"the output folder {folder} cannot be written: {error.strerror}")


def require_plain_files(folder: Path) -> None:
    """Check before anything is written into a folder that it holds nothing but files and folders.

    Args:
        folder: the folder, which may itself be a link; one that does not exist holds nothing.

    Raises:
        StoreError: something in it is a link, a pipe or a device, which is named.
    """
    if not folder.is_dir():
        return
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # a temporary file of another process
                continue
            own = path.relative_to(folder)
            if stat.S_ISLNK(mode) and own.parts[0] in OF_LIBRARIES and own.parts[1:] and _stays(path, folder):
                continue
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                kind = "link" if stat.S_ISLNK(mode) else "pipe" if stat.S_ISFIFO(mode) else "device or a socket"
                raise StoreError(
                    f"{path} is a {kind}; the files of an output folder are files, and nothing is written through "
                    "others: remove it, or choose another output"
                )


def _stays(link: Path, folder: Path) -> bool:
    """Whether a link leads to a place inside a folder."""
    return Path(os.path.realpath(link)).is_relative_to(os.path.realpath(folder))


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
