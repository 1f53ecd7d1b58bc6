"""The files of a box, from outside, without following anything that the box's programs may have laid there.

Every path is walked from a descriptor of the box's folder, one name at a time, and no name may be a link: a program
that swaps a folder for a link while we walk gains nothing. Only plain files are read, so that a pipe cannot hold us up.
A snapshot is a tar archive: files with modes and times, folders with modes, and links (as links, which nothing here
follows). Equal contents give equal bytes. What is put, snapshotted and restored has the same longest path. A mode that
keeps its own user out (000, say) is lifted while we look, and put back: it is a mode like others in a snapshot.
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

from turnwise.tools.sandbox.errors import BadPath, BadSnapshot, BoxFull

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST: Final = 4096  # bytes of a path
_DEEPEST: Final = 100  # names of a path: a walk holds two descriptors for each
_MODES: Final = 0o777  # what is kept of a mode: other bits give rights, or nothing


def parts(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of a path inside a box; "/work/a/b" and "a/b" are the same.

    Raises:
        BadPath: it is empty, absolute elsewhere, goes up, is too long, or holds a null character.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise BadPath(f"a path in a box is a str, not {text!r}")
    inside = text.removeprefix("/work/")
    names = [name for name in inside.split("/") if name not in ("", ".")]
    if inside.startswith("/") or ".." in names or "\0" in inside or not names:
        raise BadPath(f"a path in a box is relative to its folder, such as 'data/in.txt', not {text[:80]!r}")
    if why := _too_long(inside):
        raise BadPath(why)
    return names


def _too_long(path: str) -> str:
    """Return why a path is longer than those that a box takes, in a sentence; "" where it is not."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    size = len(path.encode("utf-8", "surrogatepass"))
    if len(names) <= _DEEPEST and size <= _LONGEST:
        return ""
    most = f"at most {_LONGEST:,} bytes and {_DEEPEST} names"
    return f"a path in a box has {most}, and {path[:80]!r}... has {size:,} and {len(names):,}"


@contextmanager
def _folder(root: int, names: list[str], path: str, owner: int | None = None) -> Iterator[int]:
    """Give a descriptor of a folder below `root`; with an owner, make what is missing."""
    fd = os.dup(root)
    try:
        for name in names:
            if owner is not None:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=fd)
                    _give(name, fd, owner)
            inner = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    except OSError as error:
        raise _explained(error, path) from error
    finally:
        os.close(fd)


@contextmanager
def _lifted(fd: int, bits: int) -> Iterator[None]:
    """Let us do `bits` with what a descriptor is of, where its mode keeps us out though it is ours."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    shut = os.geteuid() != 0 and mode & bits != bits
    if shut:
        _change(fd, mode | bits)
    try:
        yield
    finally:
        if shut:
            _change(fd, mode)


@contextmanager
def _held(name: str, root: int) -> Iterator[int]:
    """Give a descriptor that holds a file or folder fast, whatever is laid in its place, and needs no right to it."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _inside(root: int, name: str) -> Iterator[int]:
    """Give a descriptor of a folder in `root` in which we may do everything; its mode is put back."""
    with _held(name, root) as held, _lifted(held, 0o700):
        fd = os.open(name, _FOLDER, dir_fd=root)
        try:
            yield fd
        finally:
            os.close(fd)


def _change(fd: int, mode: int) -> None:
    """Change a mode through a descriptor of any kind, which a name could not: it may be a link by now."""
    if stat.S_ISREG(kind := os.fstat(fd).st_mode) or stat.S_ISDIR(kind):
        os.chmod(f"/proc/self/fd/{fd}", mode)


def _give(name: str, fd: int, owner: int) -> None:
    if os.geteuid() == 0:
        os.chown(name, owner, owner, dir_fd=fd, follow_symlinks=False)


def _explained(error: OSError, path: str) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return BoxFull(f"{path!r} does not fit into the box: raise the limits disk or files")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return BadPath(f"{path!r} leads over a link or a file in the box: name a plain path")
    if error.errno == errno.ENOENT:
        return BadPath(f"there is no {path!r} in the box")
    return BadPath(f"{path!r} in the box: {error.strerror or error}")


def write(root: int, path: str, data: bytes, owner: int, mode: int = 0o644) -> None:
    """Write a file, with the folders that it needs; what is there is replaced, even a link."""
    *folders, name = parts(path)
    with _folder(root, folders, path, owner) as fd:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=fd)
        with open(made, "wb") as file:
            file.write(data)
            os.fchmod(made, mode)
        _give(name, fd, owner)


def read(root: int, path: str) -> bytes:
    """Return what a plain file holds."""
    *folders, name = parts(path)
    with _folder(root, folders, path) as fd, open(_readable(name, fd), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BadPath(f"{path!r} is no plain file")
        return file.read()


def _readable(name: str, fd: int) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=fd)
    except PermissionError:
        with _held(name, fd) as held, _lifted(held, 0o400):
            return os.open(name, flags, dir_fd=fd)


def clear(root: int) -> None:
    """Remove everything in a folder, however deep: folders within folders are moved up first, so that none is deep.

    Its owner may use the folder afterwards, whatever its mode was.
    """
    _open_up(root)
    waiting = os.listdir(root)
    while waiting:
        name = waiting.pop()
        try:
            os.unlink(name, dir_fd=root)
        except (IsADirectoryError, PermissionError):
            with _inside(root, name) as inner:
                waiting += _emptied(inner, root)
            os.rmdir(name, dir_fd=root)


def _open_up(fd: int) -> None:
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o700 != 0o700:
        _change(fd, mode | 0o700)


def remove(path: str) -> None:
    """Remove a folder with everything in it, however deep, as far as that is allowed."""
    with suppress(OSError):
        fd = os.open(path, _FOLDER)
        try:
            clear(fd)
        finally:
            os.close(fd)
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)


def _emptied(folder: int, root: int) -> list[str]:
    """Remove the files of a folder, and move its folders into `root`, under new names, which are returned."""
    moved = []
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:  # it holds something
                with _held(name, folder) as held:
                    _open_up(held)  # a folder that one may not write to cannot be moved either
                moved.append(secrets.token_hex(16))
                os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=root)
    return moved


def usage(root: int, most: int, depth: int = _DEEPEST + 1) -> tuple[int, int]:
    """Return the bytes on disk and the number of files and folders, counting no further than `most` of these.

    Folders that lie deeper than `depth` in each other count as more than that: nothing could keep them.
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
                    more, files = _inner(root, entry.name, most - count, depth - 1)
                    size, count = size + more, count + files
    return size, count


def _inner(root: int, name: str, most: int, depth: int) -> tuple[int, int]:
    with _inside(root, name) as inner:
        return usage(inner, most, depth)


Entry = tuple[tarfile.TarInfo, bytes]


def pack(root: int) -> bytes:
    """Return a tar archive of everything in a folder; what is no file, folder or link is left out.

    Raises:
        BadSnapshot: a path is longer than `restore` would take, or a program changed the files meanwhile.
    """
    try:
        with _lifted(root, 0o700):
            return archive(_entries(root, ""))
    except (OSError, BadPath) as error:
        raise BadSnapshot(f"no snapshot can be taken: {_words(error)}") from error


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def archive(entries: Iterable[Entry], format_: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar archive with these entries.

    Raises:
        BadSnapshot: a path is longer than `restore` would take.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_, errors="surrogateescape") as made:
        for entry, data in entries:
            if why := _too_long(entry.name):
                raise BadSnapshot(f"no snapshot can be taken: {why}")
            made.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _entries(root: int, prefix: str) -> Iterator[Entry]:
    for name in sorted(os.listdir(root)):
        about = os.stat(name, dir_fd=root, follow_symlinks=False)
        entry = tarfile.TarInfo(prefix + name)
        entry.mode = about.st_mode & _MODES
        if stat.S_ISLNK(about.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=root)
            yield entry, b""
        elif stat.S_ISDIR(about.st_mode):
            entry.type = tarfile.DIRTYPE
            yield entry, b""
            with _inside(root, name) as inner:
                yield from _entries(inner, f"{prefix}{name}/")
        elif stat.S_ISREG(about.st_mode):
            data = read(root, name)
            entry.size, entry.mtime = len(data), int(about.st_mtime)
            yield entry, data


def checked(snapshot: bytes, disk: int, files: int) -> list[Entry]:
    """Return the entries of a snapshot, all of which may lie in a box of that size.

    Raises:
        BadSnapshot: it is torn, or holds devices, hard links, or names that lead outside.
        BoxFull: it is larger than the box.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(snapshot), mode="r:") as read_from:
            members = read_from.getmembers()
            _weigh(members, disk, files)
            entries = [(member, _data(read_from, member)) for member in members]
    except (tarfile.TarError, EOFError, ValueError, TypeError) as error:
        raise BadSnapshot(f"this is no snapshot of a box: {error}") from error
    links = {member.name for member, _ in entries if member.issym()}
    for member, _ in entries:
        names = _names(member)
        if not (member.isreg() or member.isdir() or member.issym()):
            raise BadSnapshot(f"a snapshot holds files, folders and links, and {member.name!r} is none of these")
        if any("/".join(names[:depth]) in links for depth in range(1, len(names))):
            raise BadSnapshot(f"{member.name!r} in the snapshot lies behind a link")
    return entries


def _weigh(members: list[tarfile.TarInfo], disk: int, files: int) -> None:
    size = sum(member.size for member in members)
    if size > disk or len(members) > files:
        wanted = f"{size:,} bytes in {len(members):,} files"
        raise BoxFull(f"the snapshot has {wanted}, and the box may have {disk:,} in {files:,}")


def _names(member: tarfile.TarInfo) -> list[str]:
    try:
        if member.name.startswith("/"):
            raise BadPath(member.name)
        return parts(member.name)
    except BadPath as error:
        why = _too_long(member.name) or f"{member.name!r} in the snapshot leads outside of the box"
        raise BadSnapshot(why) from error


def _data(source: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = source.extractfile(member) if member.isreg() else None
    data = file.read() if file else b""
    if len(data) != (member.size if member.isreg() else 0):
        raise BadSnapshot(f"the snapshot is torn: {member.name!r} has {len(data):,} of {member.size:,} bytes")
    return data


def unpack(root: int, entries: list[Entry], owner: int) -> None:
    """Make a folder hold exactly these entries; `checked` gives them.

    Raises:
        BadSnapshot: a program that runs in the box prevents it.
        BoxFull: they do not fit.
    """
    try:
        clear(root)
    except OSError as error:
        raise BadSnapshot(f"the box cannot be emptied for a snapshot: {_words(error)}") from error
    for member, data in entries:
        names = parts(member.name)
        if member.isreg():
            write(root, member.name, data, owner, member.mode & _MODES)
        with _folder(root, names[:-1], member.name, owner) as fd:
            if member.issym():
                os.symlink(member.linkname, names[-1], dir_fd=fd)
                _give(names[-1], fd, owner)
            elif member.isdir():
                with suppress(FileExistsError):
                    os.mkdir(names[-1], 0o755, dir_fd=fd)
                    _give(names[-1], fd, owner)
    for names, member in inmost_first(entries):  # last, so that what lies in a folder could still be written
        with _folder(root, names[:-1], member.name) as fd:
            if member.isdir():
                with _held(names[-1], fd) as held:
                    _change(held, member.mode & _MODES)
            elif member.isreg():
                os.utime(names[-1], (member.mtime, member.mtime), dir_fd=fd, follow_symlinks=False)


def inmost_first(entries: list[Entry]) -> list[tuple[list[str], tarfile.TarInfo]]:
    """Return the names and heads of entries, what lies in a folder before the folder."""
    found = [(parts(member.name), member) for member, _ in entries]
    return sorted(found, key=lambda pair: -len(pair[0]))
