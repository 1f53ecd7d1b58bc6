"""Access to the files of a box from outside, without following links that its programs may have created.

Every path is walked from a descriptor of the box's directory, one component at a time, and no component may be a link,
so a program gains nothing by replacing a directory with a link meanwhile. Only regular files are read, so a pipe cannot
block us. A snapshot is a tar archive of files with modes and times, directories with modes, and links as links. Equal
contents give equal bytes. Writing, snapshots and restoring share the same limits on paths. Modes that lock out their
own user (000, for example) are changed temporarily while files are read, and kept in snapshots.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from turnwise.tools.sandbox.errors import BadPath, BoxFull, SnapshotError

FULL: Final = "{path!r} does not fit in the box; raise its limits disk, file_size or files"
LINK: Final = "{path!r} in the box goes through a link or a file; links are not followed"
MISSING: Final = "no such file in the box: {path!r}"

_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES: Final = 4096  # of a path
_MAX_DEPTH: Final = 100  # components of a path; walking it takes two descriptors for each
_KEPT_BITS: Final = 0o777  # of a mode; the others (set-user-id and the like) are dropped


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
    if why := _too_long(inside):
        raise BadPath(why)
    return names


def _too_long(path: str) -> str:
    """Return a message if a path is too long for a box, else ""."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    size = len(path.encode("utf-8", "surrogatepass"))
    if len(names) <= _MAX_DEPTH and size <= _MAX_BYTES:
        return ""
    most = f"at most {_MAX_BYTES:,} bytes and {_MAX_DEPTH} components"
    return f"a path in a box may have {most}; {path[:80]!r}... has {size:,} and {len(names):,}"


@contextmanager
def _open_directory(root: int, names: list[str], path: str, owner: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory below `root`; with an owner, create missing directories."""
    fd = os.dup(root)
    try:
        for name in names:
            if owner is not None:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=fd)
                    _change_owner(name, fd, owner)
            inner = os.open(name, _OPEN_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    except OSError as error:
        raise _translated(error, path) from error
    finally:
        os.close(fd)


@contextmanager
def _mode_added(fd: int, bits: int) -> Iterator[None]:
    """Temporarily add `bits` to the mode of a file of our own that we have no access to."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    locked = os.geteuid() != 0 and mode & bits != bits
    if locked:
        _chmod(fd, mode | bits)
    try:
        yield
    finally:
        if locked:
            _chmod(fd, mode)


@contextmanager
def _pinned(name: str, root: int) -> Iterator[int]:
    """Yield a descriptor of a file or directory that needs no permission and stays valid if the name is replaced."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _unlocked(root: int, name: str) -> Iterator[int]:
    """Yield a descriptor of a directory in `root`, with full access to it; its mode is restored afterwards."""
    with _pinned(name, root) as held, _mode_added(held, 0o700):
        fd = os.open(name, _OPEN_DIRECTORY, dir_fd=root)
        try:
            yield fd
        finally:
            os.close(fd)


def _chmod(fd: int, mode: int) -> None:
    """Change a mode through a descriptor of any kind; the name may be a link by now."""
    if stat.S_ISREG(kind := os.fstat(fd).st_mode) or stat.S_ISDIR(kind):
        os.chmod(f"/proc/self/fd/{fd}", mode)


def _change_owner(name: str, fd: int, owner: int) -> None:
    if os.geteuid() == 0:
        os.chown(name, owner, owner, dir_fd=fd, follow_symlinks=False)


def _translated(error: OSError, path: str) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return BoxFull(FULL.format(path=path))
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return BadPath(LINK.format(path=path))
    if error.errno == errno.ENOENT:
        return BadPath(MISSING.format(path=path))
    return BadPath(f"{path!r} in the box: {error.strerror or error}")


def write(root: int, path: str, data: bytes, owner: int, mode: int = 0o644) -> None:
    """Write a file, creating missing directories and replacing an existing file or link."""
    *folders, name = split_path(path)
    with _open_directory(root, folders, path, owner) as fd:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        created = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=fd)
        with open(created, "wb") as file:
            file.write(data)
            os.fchmod(created, mode)
        _change_owner(name, fd, owner)


def read(root: int, path: str) -> bytes:
    """Return the content of a regular file."""
    *folders, name = split_path(path)
    with _open_directory(root, folders, path) as fd, open(_open_file(name, fd), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BadPath(f"{path!r} in the box is not a regular file")
        return file.read()


def _open_file(name: str, fd: int) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=fd)
    except PermissionError:
        with _pinned(name, fd) as held, _mode_added(held, 0o400):
            return os.open(name, flags, dir_fd=fd)


def clear(root: int) -> None:
    """Remove everything in a directory, at any depth: nested directories are moved up first, so that none is deep.

    The owner has full access to the directory afterwards, regardless of its mode.
    """
    _unlock(root)
    waiting = os.listdir(root)
    while waiting:
        name = waiting.pop()
        try:
            os.unlink(name, dir_fd=root)
        except (IsADirectoryError, PermissionError):
            with _unlocked(root, name) as inner:
                waiting += _flatten(inner, root)
            os.rmdir(name, dir_fd=root)


def _unlock(fd: int) -> None:
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o700 != 0o700:
        _chmod(fd, mode | 0o700)


def remove(path: str) -> None:
    """Remove a directory and its content, at any depth, ignoring errors."""
    with suppress(OSError):
        fd = os.open(path, _OPEN_DIRECTORY)
        try:
            clear(fd)
        finally:
            os.close(fd)
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)


def _flatten(folder: int, root: int) -> list[str]:
    """Remove the files of a directory and move its subdirectories into `root`; return their new names."""
    moved = []
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:  # not empty
                with _pinned(name, folder) as held:
                    _unlock(held)  # a directory without write permission cannot be moved
                moved.append(secrets.token_hex(16))
                os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=root)
    return moved


def usage(root: int, most: int, depth: int = _MAX_DEPTH + 1) -> tuple[int, int]:
    """Return the bytes on disk and the number of files and directories; counting stops after `most` of them.

    Directories nested deeper than `depth` count as too many.
    """
    if depth < 0:
        return 0, most + 1
    size = count = 0
    with os.scandir(root) as entries:
        for entry in entries:
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                size, count = size + about.st_blocks * 512, count + 1
                if count > most:
                    break
                if stat.S_ISDIR(about.st_mode):
                    with _unlocked(root, entry.name) as inner:
                        more, files = usage(inner, most - count, depth - 1)
                    size, count = size + more, count + files
    return size, count


TarEntry = tuple[tarfile.TarInfo, bytes]
"""Header and content of a file in a snapshot."""


def pack(root: int) -> bytes:
    """Return a tar archive of the files, directories and links in a directory.

    Raises:
        SnapshotError: a path is too long to be restored, or a program changes files meanwhile.
    """
    try:
        with _mode_added(root, 0o700):
            return archive(_entries(root, ""))
    except (OSError, BadPath) as error:
        raise SnapshotError(f"cannot take a snapshot: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def archive(entries: Iterable[TarEntry], format_: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar archive of some entries.

    Raises:
        SnapshotError: a path is too long to be restored.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_, errors="surrogateescape") as tar:
        for entry, data in entries:
            if why := _too_long(entry.name):
                raise SnapshotError(f"cannot take a snapshot: {why}")
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _entries(root: int, prefix: str) -> Iterator[TarEntry]:
    for name in sorted(os.listdir(root)):
        about = os.stat(name, dir_fd=root, follow_symlinks=False)
        entry = tarfile.TarInfo(prefix + name)
        entry.mode = about.st_mode & _KEPT_BITS
        if stat.S_ISLNK(about.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=root)
            yield entry, b""
        elif stat.S_ISDIR(about.st_mode):
            entry.type = tarfile.DIRTYPE
            yield entry, b""
            with _unlocked(root, name) as inner:
                yield from _entries(inner, f"{prefix}{name}/")
        elif stat.S_ISREG(about.st_mode):
            data = read(root, name)
            entry.size, entry.mtime = len(data), int(about.st_mtime)
            yield entry, data


def checked(snapshot: bytes, disk: int, files: int) -> list[TarEntry]:
    """Return the entries of a snapshot after checking that a box of this size may contain them.

    Raises:
        SnapshotError: the archive is damaged, or contains devices, hard links, or paths that leave the box.
        BoxFull: the snapshot is larger than the box.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(snapshot), mode="r:") as tar:
            members = tar.getmembers()
            size = sum(member.size for member in members)
            if size > disk or len(members) > files:
                found = f"{size:,} bytes in {len(members):,} files"
                raise BoxFull(f"the snapshot has {found}; the box may have {disk:,} in {files:,}")
            entries = [(member, _data(tar, member)) for member in members]
    except (tarfile.TarError, EOFError, ValueError, TypeError) as error:
        raise SnapshotError(f"not a snapshot of a box: {error}") from error
    links = {member.name for member, _ in entries if member.issym()}
    for member, _ in entries:
        names = _names(member)
        if not (member.isreg() or member.isdir() or member.issym()):
            raise SnapshotError(f"{member.name!r} in the snapshot is not a file, directory or symbolic link")
        if any("/".join(names[:depth]) in links for depth in range(1, len(names))):
            raise SnapshotError(f"{member.name!r} in the snapshot goes through a link")
    return entries


def _names(member: tarfile.TarInfo) -> list[str]:
    try:
        if member.name.startswith("/"):
            raise BadPath(member.name)
        return split_path(member.name)
    except BadPath as error:
        why = _too_long(member.name) or f"{member.name!r} in the snapshot is outside of the box"
        raise SnapshotError(why) from error


def _data(source: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = source.extractfile(member) if member.isreg() else None
    data = file.read() if file else b""
    if len(data) != (member.size if member.isreg() else 0):
        raise SnapshotError(f"the snapshot is truncated: {member.name!r} has {len(data):,} of {member.size:,} bytes")
    return data


def unpack(root: int, entries: list[TarEntry], owner: int) -> None:
    """Replace the content of a directory by entries that passed `checked`.

    Raises:
        SnapshotError: a program that runs in the box prevents it.
        BoxFull: the entries do not fit.
    """
    try:
        clear(root)
    except OSError as error:
        raise SnapshotError(f"the box cannot be emptied for a snapshot: {_reason(error)}") from error
    for member, data in entries:
        names = split_path(member.name)
        if member.isreg():
            write(root, member.name, data, owner, member.mode & _KEPT_BITS)
        with _open_directory(root, names[:-1], member.name, owner) as fd:
            if member.issym():
                os.symlink(member.linkname, names[-1], dir_fd=fd)
                _change_owner(names[-1], fd, owner)
            elif member.isdir():
                with suppress(FileExistsError):
                    os.mkdir(names[-1], 0o755, dir_fd=fd)
                    _change_owner(names[-1], fd, owner)
    for names, member in deepest_first(entries):  # last, so that the content of a directory can still be written
        with _open_directory(root, names[:-1], member.name) as fd:
            if member.isdir():
                with _pinned(names[-1], fd) as held:
                    _chmod(held, member.mode & _KEPT_BITS)
            elif member.isreg():
                os.utime(names[-1], (member.mtime, member.mtime), dir_fd=fd, follow_symlinks=False)


def deepest_first(entries: list[TarEntry]) -> list[tuple[list[str], tarfile.TarInfo]]:
    """Return the path components and headers of entries, the content of a directory before the directory."""
    found = [(split_path(member.name), member) for member, _ in entries]
    return sorted(found, key=lambda pair: -len(pair[0]))
