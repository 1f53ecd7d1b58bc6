"""Read, replace and remove the tree of files in a box, whatever its programs have made of it.

Every step is relative to the descriptor of a directory and follows no link; only regular files are opened for reading,
without waiting, so that a pipe cannot block us. Walks keep their own stack and are bounded in entries, depth, bytes and
time. The caller stops the box's programs first; if one goes on nevertheless, the result is `TreeChanged`.

Modes that lock out their own user (000, for example) are changed while files are read, and kept in snapshots.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Final

from turncredit.tools.sandbox import files
from turncredit.tools.sandbox.errors import BadPath, BoxFull, SnapshotError
from turncredit.tools.sandbox.untrusted_archives import (
    MAX_COMPONENTS,
    FileEntry,
    TreeLimits,
    disk_space,
    path_problem,
    whole_pages,
)
from turncredit.tools.sandbox.untrusted_headers import KEPT_BITS, whole_seconds

__all__ = ["TreeChanged", "check_room", "clear", "read_tree", "remove", "replace_tree", "usage"]

_BATCH: Final = 20_000  # names of a directory that are read at a time
_SECONDS: Final = 60.0  # for removing a tree


class TreeChanged(SnapshotError):
    """A program changes the files while they are read or replaced."""


def read_tree(root: int, limits: TreeLimits) -> Iterator[FileEntry]:
    """Yield the files, folders and links in a directory, in the order of their names, a folder before its content.

    Pipes, sockets and devices are left out.

    Raises:
        SnapshotError: they exceed the limits, or a path is too long to be restored.
        TreeChanged: a program changes them meanwhile, or the time is up.
    """
    reader = _TreeReader(limits)
    try:
        with files.mode_added(root, 0o700):
            reader.enter("", root, ExitStack())
            yield from reader.entries()
    except OSError as error:
        raise TreeChanged(f"cannot take a snapshot: the files change meanwhile ({error.strerror or error})") from error
    finally:
        reader.close()


class _Folder:
    """An open directory of a walk; `names` are those that are still to be read, the next one last."""

    def __init__(self, prefix: str, fd: int, names: list[str], held: ExitStack) -> None:
        self.prefix, self.fd, self.held = prefix, fd, held
        self.names = sorted(names, reverse=True)


class _TreeReader:
    """A walk with its own stack of open directories."""

    def __init__(self, limits: TreeLimits) -> None:
        self.limits = limits
        self.count = self.space = 0
        self.deadline = time.monotonic() + limits.seconds
        self.open: list[_Folder] = []

    def enter(self, prefix: str, fd: int, held: ExitStack) -> None:
        """Open a directory whose descriptor `held` will close."""
        with held:
            with os.scandir(fd) as entries:
                names = [entry.name for entry in islice(entries, self.limits.entries - self.count + 1)]
            self.open.append(_Folder(prefix, fd, names, held.pop_all()))

    def close(self) -> None:
        """Close what an error has left open."""
        while self.open:
            with suppress(OSError):
                self.open.pop().held.close()

    def entries(self) -> Iterator[FileEntry]:
        """Yield the entries of all open directories, and of those inside them."""
        while self.open:
            folder = self.open[-1]
            if not folder.names:
                self.open.pop().held.close()
                continue
            name = folder.names.pop()
            if (entry := self._entry(folder, name)) is None:
                continue
            yield entry
            if entry.kind == "folder":
                held = ExitStack()
                self.enter(f"{entry.path}/", held.enter_context(files.unlocked(folder.fd, name)), held)

    def _entry(self, folder: _Folder, name: str) -> FileEntry | None:
        """Return an entry of a directory; None for a pipe, socket or device."""
        if time.monotonic() > self.deadline:
            raise TreeChanged(f"cannot take a snapshot: it takes more than {self.limits.seconds:g} seconds")
        self.count += 1
        if self.count > self.limits.entries:
            raise SnapshotError(f"cannot take a snapshot: there are more than {self.limits.entries:,} files")
        path = folder.prefix + name
        if why := path_problem(path):
            raise SnapshotError(f"cannot take a snapshot: {why}")
        about = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        mode = about.st_mode & KEPT_BITS
        if stat.S_ISDIR(about.st_mode):
            return FileEntry(path, "folder", mode)
        if stat.S_ISLNK(about.st_mode):
            link = FileEntry(path, "link", mode, 0, os.fsencode(os.readlink(name, dir_fd=folder.fd)))
            self._take(disk_space(link))
            return link
        return self._file(folder.fd, name, path) if stat.S_ISREG(about.st_mode) else None

    def _file(self, folder: int, name: str, path: str) -> FileEntry:
        fd = files.open_for_reading(name, folder)
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise TreeChanged(f"cannot take a snapshot: {path!r} is no longer a file")
            size = about.st_size
            if size > self.limits.file_size:
                most = f"a file in the box may have {self.limits.file_size:,}"
                raise SnapshotError(f"cannot take a snapshot: {path[:80]!r} has {size:,} bytes; {most}")
            self._take(max(whole_pages(size), about.st_blocks * 512))
            data = files.read_bytes(fd, size)
        finally:
            os.close(fd)
        return FileEntry(path, "file", about.st_mode & KEPT_BITS, whole_seconds(about.st_mtime), data)

    def _take(self, space: int) -> None:
        self.space += space
        if self.space > self.limits.bytes:
            raise SnapshotError(f"cannot take a snapshot: the files have more than {self.limits.bytes:,} bytes")


def check_room(root: int, entries: Sequence[FileEntry], limits: TreeLimits) -> None:
    """Check that entries will fit when they replace what is in a directory, counting what that frees.

    Raises:
        BoxFull: they would not.
    """
    free = os.fstatvfs(root)
    size, count = usage(root, 2 * limits.entries)
    needed = sum(map(disk_space, entries))
    if needed > free.f_bavail * free.f_frsize + size or (free.f_files and len(entries) > free.f_favail + count):
        raise BoxFull(
            f"the snapshot needs {needed:,} bytes and {len(entries):,} files, which the box has not left; "
            "/tmp counts too, and so do open files that were deleted"
        )


def replace_tree(root: int, entries: Sequence[FileEntry], owner: int) -> None:
    """Replace the content of a directory by the entries of a checked archive.

    Raises:
        TreeChanged: a program prevents it, or the file system is full.
    """
    try:
        clear(root)
        for entry in entries:
            _create(root, entry, owner)
        for entry in reversed(entries):  # last, so that the content of a directory can still be written
            if entry.kind == "folder":
                *folders, name = entry.path.split("/")
                with files.open_directory(root, folders, entry.path) as fd, files.pinned(name, fd) as held:
                    files.change_mode(held, entry.mode)
                    os.utime(f"/proc/self/fd/{held}", (entry.mtime, entry.mtime))
    except (OSError, BadPath, BoxFull) as error:
        raise TreeChanged(f"the files of the box cannot be replaced: {error}") from error


def _create(root: int, entry: FileEntry, owner: int) -> None:
    *folders, name = entry.path.split("/")
    with files.open_directory(root, folders, entry.path) as fd:
        if entry.kind == "folder":
            files.make_directory(name, fd, owner)
        elif entry.kind == "link":
            os.symlink(entry.data, os.fsencode(name), dir_fd=fd)
            files.change_link_owner(name, fd, owner)
        else:
            files.create(name, fd, entry.data, owner, entry.mode, entry.mtime)


def clear(root: int, seconds: float = _SECONDS) -> None:
    """Remove everything in a directory, at any depth: nested directories are moved up first, so that none is deep.

    The owner has full access to the directory afterwards, regardless of its mode.

    Raises:
        OSError: the time is up, or a program prevents it.
    """
    deadline = time.monotonic() + seconds
    files.unlock(root)
    while names := _some_names(root):
        for name in names:
            _remove_entry(name, root, deadline)


def _some_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _BATCH)]


def _remove_entry(name: str, root: int, deadline: float) -> None:
    try:
        os.unlink(name, dir_fd=root)
    except (IsADirectoryError, PermissionError):
        with files.unlocked(root, name) as inner:
            while names := _some_names(inner):
                for entry_name in names:
                    _move_up(entry_name, inner, root, deadline)
        os.rmdir(name, dir_fd=root)


def _move_up(name: str, folder: int, root: int, deadline: float) -> None:
    """Remove a file or empty directory; move a directory that is not empty into `root`."""
    if time.monotonic() > deadline:
        raise TimeoutError("the files cannot be removed in time")
    try:
        os.unlink(name, dir_fd=folder)
        return
    except (IsADirectoryError, PermissionError):
        pass
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:  # not empty
        with files.pinned(name, folder) as held:
            files.unlock(held)  # a directory without write permission cannot be moved
        os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=root)


def remove(path: str) -> None:
    """Remove a directory and its content, at any depth, ignoring errors."""
    with suppress(OSError):
        fd = os.open(path, files.OPEN_DIRECTORY)
        try:
            clear(fd)
        finally:
            os.close(fd)
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)


def usage(root: int, most: int) -> tuple[int, int]:
    """Return the bytes on disk and the number of files and directories; counting stops after `most` of them.

    A file with several names has its bytes counted once. Directories nested deeper than any path count as too many.
    """
    size = count = 0
    linked: set[int] = set()
    levels: list[tuple[int, Iterator[os.DirEntry[str]], ExitStack]] = []

    def enter(fd: int, held: ExitStack) -> None:
        with held:
            levels.append((fd, held.enter_context(os.scandir(fd)), held.pop_all()))

    try:
        enter(root, ExitStack())
        while levels and count <= most:
            fd, entries, held = levels[-1]
            if (entry := next(entries, None)) is None:
                levels.pop()
                held.close()
                continue
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                count += 1
                folder = stat.S_ISDIR(about.st_mode)
                if folder or about.st_nlink == 1 or about.st_ino not in linked:
                    size += about.st_blocks * 512
                if about.st_nlink > 1 and not folder:
                    linked.add(about.st_ino)
                if folder and len(levels) > MAX_COMPONENTS + 1:
                    return size, most + 1
                if folder:
                    inner = ExitStack()
                    enter(inner.enter_context(files.unlocked(fd, entry.name)), inner)
    finally:
        for _, _, held in reversed(levels):
            with suppress(OSError):
                held.close()
    return size, count
