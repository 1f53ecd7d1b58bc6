"""Read and write archives of a box's files: tar, in one pass, under limits, without recursion.

An archive may come from anywhere: from a program in a box, or from a snapshot that was stored and changed. The reader
takes the formats of tar that common programs write (ustar, GNU long names, pax) and nothing that could make the host
work or grow: no holes, no devices, no names that leave the box or go through links. Every size is compared with the
limits before memory is allocated for it, and the result is a complete tree that can be unpacked as it stands: every
folder comes before its content, and no path is there twice.

Not included: owners, extended attributes, and fractions of seconds.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from turncredit.tools.sandbox.errors import BoxFull, SnapshotError
from turncredit.tools.sandbox.untrusted_headers import BLOCK, KEPT_BITS, Header, HeaderReader, refuse

__all__ = [
    "LONGEST_NAME",
    "LONGEST_PATH",
    "MAX_COMPONENTS",
    "FileEntry",
    "TreeLimits",
    "disk_space",
    "path_problem",
    "read_archive",
    "whole_pages",
    "write_archive",
]

LONGEST_PATH: Final = 4096  # bytes
LONGEST_NAME: Final = 255  # bytes of one component
MAX_COMPONENTS: Final = 100
_LONGEST_LINK: Final = 4095  # bytes of the target of a symbolic link; Linux takes no more
_PAGE: Final = 4096  # bytes; the unit in which file systems give space to files
_SHORT_LINK: Final = 60  # bytes; longer targets take a page
_FILES: Final = (b"0", b"\0", b"7")  # types of tar
_SPECIAL: Final = (b"3", b"4", b"6")
_KINDS: Final[dict[str, bytes]] = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}

FileKind = Literal["file", "folder", "link"]


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Limits on the files of a box, when they are read and when they are replaced.

    Args:
        bytes: of all files, each counted in whole pages of 4,096 bytes; holes count like data.
        entries: files, folders and links.
        file_size: bytes of one file.
        seconds: for walking the tree.
    """

    bytes: int
    entries: int
    file_size: int
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, folder or symbolic link.

    Args:
        path: relative to the box's directory, without "." and empty components; undecodable bytes are surrogates.
        kind: "file", "folder" or "link".
        mode: permission bits, 0 to 0o777.
        mtime: seconds since 1970, 0 to `LATEST_TIME`.
        data: content of a file, target of a link.
    """

    path: str
    kind: FileKind
    mode: int
    mtime: int = 0
    data: bytes = b""


def disk_space(entry: FileEntry) -> int:
    """Return the bytes that an entry takes on disk at most."""
    if entry.kind == "link":
        return _PAGE if len(entry.data) > _SHORT_LINK else 0
    return whole_pages(len(entry.data))


def whole_pages(size: int) -> int:
    """Return the bytes that a file of `size` bytes without holes takes on disk."""
    return -(-size // _PAGE) * _PAGE


def path_problem(path: str) -> str:
    """Return why a box cannot have a file of that name, or ""."""
    if len(path) <= MAX_COMPONENTS and path.isascii():
        return ""  # too short for every limit
    names = [name for name in path.split("/") if name not in ("", ".")]
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError as error:
        return f"the path {path[:80]!r} is not valid Unicode at character {error.start}"
    if len(names) > MAX_COMPONENTS or len(raw) > LONGEST_PATH:
        most = f"at most {LONGEST_PATH:,} bytes and {MAX_COMPONENTS} components"
        return f"a path in a box may have {most}; {path[:80]!r}... has {len(raw):,} and {len(names):,}"
    if any(len(name) > LONGEST_NAME for name in raw.split(b"/")):
        return f"a name in a box may have at most {LONGEST_NAME} bytes; {path[:80]!r}... has a longer one"
    return ""


def write_archive(entries: Iterable[FileEntry], format_: int = tarfile.PAX_FORMAT, owner: int = 0) -> bytes:
    """Return a tar archive of entries that belong to `owner`; equal entries give equal bytes.

    Raises:
        SnapshotError: a path is too long to be restored.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_, errors="surrogateescape") as tar:
        for entry in entries:
            if why := path_problem(entry.path):
                raise SnapshotError(f"cannot take a snapshot: {why}")
            header = tarfile.TarInfo(entry.path)
            header.type, header.mode, header.mtime = _KINDS[entry.kind], entry.mode, entry.mtime
            header.uid = header.gid = owner
            if entry.kind == "link":
                header.linkname = os.fsdecode(entry.data)
                tar.addfile(header)
            else:
                header.size = len(entry.data)
                tar.addfile(header, io.BytesIO(entry.data))
    return buffer.getvalue()


def read_archive(
    data: bytes | bytearray, limits: TreeLimits | None = None, *, by_tar_program: bool = False
) -> list[FileEntry]:
    """Return the files in an archive, every folder before its content.

    Folders that are only implied by a path are added, with mode 0o755.

    Args:
        data: an uncompressed tar archive; bytes after its end are ignored.
        limits: what the box may have; None: what fits into an archive of that length, so that nothing can grow.
        by_tar_program: the archive was made by `tar` in a box: hard links become files, special files are left out.

    Raises:
        SnapshotError: the archive is damaged, or contains what a box does not take.
        BoxFull: it exceeds the limits.
    """
    if limits is None:
        most = 1000 + len(data) // BLOCK
        limits = TreeLimits(len(data) + most * _PAGE, most, len(data))
    tree, reader = _TreeBuilder(limits, by_tar_program), HeaderReader(memoryview(data))
    while (header := reader.next()) is not None:
        tree.add(header, reader)
    return list(tree.entries.values())


class _TreeBuilder:
    """Collects entries under limits; `nodes` is the tree of names, in which a leaf is a file or link."""

    def __init__(self, limits: TreeLimits, by_tar_program: bool) -> None:
        self.limits, self.by_tar_program = limits, by_tar_program
        self.entries: dict[str, FileEntry] = {}
        self.nodes: dict[str, object] = {}
        self.space = self.count = 0

    def add(self, header: Header, reader: HeaderReader) -> None:
        """Add the entry of a header.

        Raises:
            SnapshotError: a box does not take it.
            BoxFull: it exceeds the limits.
        """
        self._count()
        path, kind, size = header.path, header.kind, header.size
        if kind in _FILES and not path.endswith("/"):
            self._take(path, size)
            self._put(FileEntry(_inside(path), "file", header.mode, header.mtime, reader.content(size)))
            return
        if size:
            refuse(f"{path[:80]!r} has content, and is no file")
        if kind == b"5" or kind in _FILES:
            if relative := _inside(path, top=True):
                self._put(FileEntry(relative, "folder", header.mode, header.mtime))
        elif kind == b"2":
            self._put(FileEntry(_inside(path), "link", KEPT_BITS, header.mtime, _target(path, header.target)))
        elif kind == b"1" and self.by_tar_program:
            self._put(self._linked(path, header.target))
        elif kind not in _SPECIAL or not self.by_tar_program:
            refuse(f"{path[:80]!r} is not a file, folder or symbolic link")

    def _linked(self, path: str, target: str) -> FileEntry:
        """Return a hard link as a file of its own; its content is the same object, but counts again."""
        original = self.entries.get(_inside(target))
        if original is None or original.kind != "file":
            refuse(f"{path[:80]!r} is a link to a file that does not come before it")
        self._take(path, len(original.data))
        return FileEntry(_inside(path), "file", original.mode, original.mtime, original.data)

    def _take(self, path: str, size: int) -> None:
        if size > self.limits.file_size:
            raise BoxFull(f"{path[:80]!r} has {size:,} bytes; a file in the box may have {self.limits.file_size:,}")
        self._take_space(whole_pages(size))

    def _take_space(self, space: int) -> None:
        self.space += space
        if self.space > self.limits.bytes:
            raise BoxFull(f"the snapshot has more than the {self.limits.bytes:,} bytes that the box may have")

    def _count(self) -> None:
        self.count += 1
        if self.count > self.limits.entries:
            raise BoxFull(f"the snapshot has more than the {self.limits.entries:,} files that the box may have")

    def _put(self, entry: FileEntry) -> None:
        *folders, name = entry.path.split("/")
        inner = self.nodes
        for number, folder in enumerate(folders, 1):
            node = inner.get(folder)
            if node is None:
                self._count()
                node = inner[folder] = {}
                implied = "/".join(folders[:number])
                self.entries[implied] = FileEntry(implied, "folder", 0o755)
            if not isinstance(node, dict):
                refuse(f"{entry.path[:80]!r} goes through a link or a file")
            inner = node
        node = inner.get(name)
        if node is not None and not (entry.kind == "folder" and isinstance(node, dict)):
            refuse(f"{entry.path[:80]!r} is there twice")
        if entry.kind == "link":
            self._take_space(disk_space(entry))
        if node is None:
            inner[name] = {} if entry.kind == "folder" else entry.kind
        self.entries[entry.path] = entry


def _inside(path: str, *, top: bool = False) -> str:
    """Return a path without "." and empty components; `top`: "" for the box's directory itself.

    Raises:
        SnapshotError: it leaves the box, or is too long.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names or "\0" in path or not (names or top):
        raise SnapshotError(f"{path[:80]!r} in the snapshot is outside of the box")
    inside = "/".join(names)
    if why := path_problem(inside):
        raise SnapshotError(why)
    return inside


def _target(path: str, target: str) -> bytes:
    raw = os.fsencode(target)
    if not 0 < len(raw) <= _LONGEST_LINK or b"\0" in raw:
        refuse(f"the link {path[:80]!r} has a target of {len(raw):,} bytes, or with a null character")
    return raw
