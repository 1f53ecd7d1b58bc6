"""Access to single files of a box from outside, without following links that its programs may have created.

Every path is walked from a descriptor of the box's directory, one component at a time, and no component may be a link,
so a program gains nothing by replacing a directory with a link meanwhile. Only regular files are read, so a pipe cannot
block us, and owners, modes and times are set through descriptors. `untrusted_trees` reads and replaces whole trees.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from turncredit.tools.sandbox.errors import BadPath, BoxFull
from turncredit.tools.sandbox.untrusted_archives import path_problem

FULL: Final = "{path!r} does not fit in the box; raise its limits disk, file_size or files"
LINK: Final = "{path!r} in the box goes through a link or a file; links are not followed"
MISSING: Final = "no such file in the box: {path!r}"
OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def split_path(path: str | os.PathLike[str]) -> list[str]:
    """Return the components of a path in a box; "/work/a/b" and "a/b" are the same.

    Raises:
        BadPath: the path is empty, absolute elsewhere, contains "..", is too long, or has a null character.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise BadPath(f"a path in a box must be a str, got {text!r}")
    inside = text.removeprefix("/work/")
    names = [name for name in inside.split("/") if name not in ("", ".")]
    if inside.startswith("/") or ".." in names or "\0" in inside or not names:
        raise BadPath(
            f"a path in a box must be relative to its directory, for example 'data/in.txt', got {text[:80]!r}"
        )
    if why := path_problem(inside):
        raise BadPath(why)
    return names


@contextmanager
def open_directory(root: int, names: list[str], path: str, owner: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory below `root`; with an owner, create missing directories."""
    fd = os.dup(root)
    try:
        for name in names:
            if owner is not None:
                with suppress(FileExistsError):
                    make_directory(name, fd, owner)
            inner = os.open(name, OPEN_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    except OSError as error:
        raise _translated(error, path) from error
    finally:
        os.close(fd)


def make_directory(name: str, folder: int, owner: int) -> None:
    """Create a directory that belongs to `owner`."""
    os.mkdir(name, 0o755, dir_fd=folder)
    fd = os.open(name, OPEN_DIRECTORY, dir_fd=folder)
    try:
        _change_owner(fd, owner)
    finally:
        os.close(fd)


@contextmanager
def mode_added(fd: int, bits: int) -> Iterator[None]:
    """Temporarily add `bits` to the mode of a file of our own that we have no access to."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    locked = os.geteuid() != 0 and mode & bits != bits
    if locked:
        change_mode(fd, mode | bits)
    try:
        yield
    finally:
        if locked:
            change_mode(fd, mode)


@contextmanager
def pinned(name: str, root: int) -> Iterator[int]:
    """Yield a descriptor of a file or directory that needs no permission and stays valid if the name is replaced."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def unlocked(root: int, name: str) -> Iterator[int]:
    """Yield a descriptor of a directory in `root`, with full access to it; its mode is restored afterwards."""
    with pinned(name, root) as held, mode_added(held, 0o700):
        fd = os.open(name, OPEN_DIRECTORY, dir_fd=root)
        try:
            yield fd
        finally:
            os.close(fd)


def change_mode(fd: int, mode: int) -> None:
    """Change a mode through a descriptor of any kind; the name may be a link by now."""
    if stat.S_ISREG(kind := os.fstat(fd).st_mode) or stat.S_ISDIR(kind):
        os.chmod(f"/proc/self/fd/{fd}", mode)


def unlock(fd: int) -> None:
    """Give the owner of a directory full access to it."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o700 != 0o700:
        change_mode(fd, mode | 0o700)


def _change_owner(fd: int, owner: int) -> None:
    if os.geteuid() == 0:
        os.fchown(fd, owner, owner)


def change_link_owner(name: str, folder: int, owner: int) -> None:
    """Give a symbolic link to `owner`."""
    if os.geteuid() == 0:
        os.chown(name, owner, owner, dir_fd=folder, follow_symlinks=False)


def _translated(error: OSError, path: str) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return BoxFull(FULL.format(path=path))
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return BadPath(LINK.format(path=path))
    if error.errno == errno.ENOENT:
        return BadPath(MISSING.format(path=path))
    return BadPath(f"{path!r} in the box: {error.strerror or error}")


def write(root: int, path: str, data: bytes, owner: int) -> None:
    """Write a file, creating missing directories and replacing an existing file or link.

    Raises:
        BadPath: the path leads through a link, or names a directory.
        BoxFull: the file does not fit.
    """
    *folders, name = split_path(path)
    with open_directory(root, folders, path, owner) as fd:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        create(name, fd, data, owner)


def create(name: str, folder: int, data: bytes, owner: int, mode: int = 0o644, mtime: int | None = None) -> None:
    """Create a file in a directory; `mtime` in seconds since 1970, None: now."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fchmod(fd, mode)
        if mtime is not None:
            os.utime(fd, (mtime, mtime))
        _change_owner(fd, owner)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def read(root: int, path: str, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises:
        BadPath: there is no such file, it is larger, or the path leads through a link.
    """
    *folders, name = split_path(path)
    with open_directory(root, folders, path) as folder:
        fd = open_for_reading(name, folder)
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise BadPath(f"{path!r} in the box is not a regular file")
            if about.st_size > most:
                raise BadPath(f"{path!r} in the box has {about.st_size:,} bytes; at most {most:,} are read")
            return read_bytes(fd, about.st_size)
        finally:
            os.close(fd)


def read_bytes(fd: int, size: int) -> bytes:
    """Return up to `size` bytes of a file, fewer if it has become shorter."""
    data = os.read(fd, size) if size else b""  # all of it, in general
    while data and len(data) < size and (part := os.read(fd, size - len(data))):
        data += part
    return data


def open_for_reading(name: str, folder: int) -> int:
    """Return a descriptor of a file in a directory, regardless of its mode; never waits and follows no link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        with pinned(name, folder) as held, mode_added(held, 0o400):
            return os.open(name, flags, dir_fd=folder)
