"""A task's files as a mapping of path to file, folder or link, converted from and to tar snapshots of a sandbox.

Owners and times are not stored: every file has the same modification time, so equal trees mean equal states.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

__all__ = [
    "TIME",
    "FileNode",
    "FileTree",
    "digest",
    "file",
    "folder",
    "from_tar",
    "text_file",
    "to_tar",
    "with_folders",
]

TIME: Final = 1_704_067_200
"""Modification time of all files before every command: 2024-01-01 00:00 UTC, in seconds since the epoch."""

NodeKind = Literal["file", "folder", "link"]
_TYPES: Final[dict[NodeKind, bytes]] = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


class FileNode(NamedTuple):
    """A file, folder or symbolic link; the `data` of a link is its target."""

    kind: NodeKind
    mode: int
    data: bytes


FileTree = dict[str, FileNode]
"""Path relative to the sandbox folder, without "./" -> node."""


def file(text: str | bytes, mode: int = 0o644) -> FileNode:
    """Return a regular file."""
    return FileNode("file", mode, text.encode() if isinstance(text, str) else text)


def text_file(lines: list[str]) -> FileNode:
    """Return a regular file with these lines."""
    return file("".join(f"{line}\n" for line in lines))


def folder(mode: int = 0o755) -> FileNode:
    """Return a folder."""
    return FileNode("folder", mode, b"")


def with_folders(tree: Mapping[str, FileNode]) -> FileTree:
    """Return the tree with an entry for every parent folder, sorted by path."""
    found = dict(tree)
    for path in tree:
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                found.setdefault(str(parent), folder())
    return dict(sorted(found.items()))


def from_tar(archive: bytes) -> FileTree:
    """Return the tree of a sandbox snapshot.

    Folders keep the owner's permissions, which the sandbox needs to remove them. Special files are dropped, since
    `to_tar` cannot restore them.
    """
    return dict(sorted(_nodes(archive)))


def _nodes(archive: bytes) -> Iterator[tuple[str, FileNode]]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for member in tar:
            if member.isdir():
                yield member.name, folder((member.mode & 0o777) | 0o700)
            elif member.issym():
                yield member.name, FileNode("link", 0o777, member.linkname.encode("utf-8", "surrogateescape"))
            elif member.isfile() and (data := tar.extractfile(member)) is not None:
                yield member.name, file(data.read(), member.mode & 0o777)


def to_tar(tree: Mapping[str, FileNode]) -> bytes:
    """Return a snapshot that a sandbox can restore; equal trees give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for path, node in sorted(tree.items()):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode, entry.mtime = _TYPES[node.kind], node.mode, TIME
            if node.kind == "link":
                entry.linkname = node.data.decode("utf-8", "surrogateescape")
                tar.addfile(entry)
            else:
                entry.size = len(node.data)
                tar.addfile(entry, io.BytesIO(node.data))
    return buffer.getvalue()


def digest(tree: Mapping[str, FileNode], *words: str) -> str:
    """Return a hash of a tree and some words."""
    hashed = blake2b(digest_size=16)
    for path, node in sorted(tree.items()):
        name = path.encode("utf-8", "surrogateescape")
        hashed.update(f"{node.kind} {node.mode:o} {len(name)} {len(node.data)} ".encode() + name + node.data)
    for word in words:
        text = word.encode("utf-8", "surrogatepass")
        hashed.update(f"word {len(text)} ".encode() + text)
    return hashed.hexdigest()
