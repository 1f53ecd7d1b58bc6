"""The files of a task, seen from outside the box: which files, folders and links there are, with contents and modes.

Left out on purpose: owners and times. Every file has the same time, so that equal trees are an equal state.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

__all__ = ["TIME", "FileNode", "Tree", "digest", "file", "folder", "from_tar", "to_tar", "with_folders"]

TIME: Final = 1_704_067_200
"""Of every file and folder before every command: 2024-01-01 00:00 UTC, in seconds."""

NodeKind = Literal["file", "folder", "link"]
_TYPES: Final[dict[NodeKind, bytes]] = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


class FileNode(NamedTuple):
    """A file, a folder, or a link (of which `data` is what it points at)."""

    kind: NodeKind
    mode: int
    data: bytes


Tree = dict[str, FileNode]
"""Path below the box's folder, without "./" -> what lies there."""


def file(text: str | bytes, mode: int = 0o644) -> FileNode:
    """Return a plain file."""
    return FileNode("file", mode, text.encode() if isinstance(text, str) else text)


def folder(mode: int = 0o755) -> FileNode:
    """Return a folder."""
    return FileNode("folder", mode, b"")


def with_folders(tree: Mapping[str, FileNode]) -> Tree:
    """Return a tree in which every folder that holds something stands too, sorted by path."""
    found = dict(tree)
    for path in tree:
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                found.setdefault(str(parent), folder())
    return dict(sorted(found.items()))


def from_tar(archive: bytes) -> Tree:
    """Return the tree of a box's snapshot.

    Folders keep the rights that a box needs to clear them, and no file is special: what `to_tar` cannot bring back is
    not in the state.
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
    """Return a snapshot that a box can restore; equal trees give equal bytes."""
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
    """Return a key of a tree and some words; equal exactly when these are."""
    hashed = blake2b(digest_size=16)
    for path, node in sorted(tree.items()):
        name = path.encode("utf-8", "surrogateescape")
        hashed.update(f"{node.kind} {node.mode:o} {len(name)} {len(node.data)} ".encode() + name + node.data)
    for word in words:
        text = word.encode("utf-8", "surrogatepass")
        hashed.update(f"word {len(text)} ".encode() + text)
    return hashed.hexdigest()
