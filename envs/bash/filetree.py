"""A task's files as a mapping of path to file, folder or link, converted from and to tar snapshots of a sandbox.

Owners and times are not stored: every file has the same modification time, so equal trees mean equal states.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from turncredit.tools.sandbox.untrusted_archives import FileEntry, FileKind, read_archive, write_archive

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


class FileNode(NamedTuple):
    """A file, folder or symbolic link; the `data` of a link is its target."""

    kind: FileKind
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
    entries = dict(tree)
    for path in tree:
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                entries.setdefault(str(parent), folder())
    return dict(sorted(entries.items()))


def from_tar(archive: bytes) -> FileTree:
    """Return the tree of a sandbox snapshot.

    Folders keep the owner's permissions, which the sandbox needs to remove them.

    Raises:
        SandboxError: the bytes are not a snapshot.
    """
    return dict(sorted((entry.path, _node(entry)) for entry in read_archive(archive)))


def _node(entry: FileEntry) -> FileNode:
    mode = entry.mode | 0o700 if entry.kind == "folder" else entry.mode
    return FileNode(entry.kind, mode, entry.data)


def to_tar(tree: Mapping[str, FileNode]) -> bytes:
    """Return a snapshot that a sandbox can restore; equal trees give equal bytes."""
    return write_archive(FileEntry(path, node.kind, node.mode, TIME, node.data) for path, node in sorted(tree.items()))


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
