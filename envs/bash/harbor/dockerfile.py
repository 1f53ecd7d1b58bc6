"""Reads Dockerfiles that only copy files and set a directory, for tasks that are to run on this machine's own programs.

Everything that would change the system (RUN, files copied from other images or downloaded, files outside of the working
directory) is refused with the line that does it. Docker itself reads all other Dockerfiles.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turncredit.envs.bash.filetree import FileNode, FileTree, with_folders
from turncredit.envs.bash.harbor.settings import settings_error
from turncredit.tools.bounded_input import parse_json, read_bytes, read_text
from turncredit.tools.sandbox import SandboxError
from turncredit.tools.sandbox.untrusted_archives import TreeLimits, read_archive
from turncredit.tools.sandbox.untrusted_trees import read_tree

__all__ = ["CopiedFiles", "folder_tree", "read_dockerfile"]

LIMITS: Final = TreeLimits(256 << 20, 20_000, 128 << 20)
"""Of the files of one folder of a task."""
_NEUTRAL: Final = ("LABEL", "MAINTAINER", "EXPOSE", "CMD", "ENTRYPOINT", "STOPSIGNAL", "SHELL", "USER", "HEALTHCHECK")
_REFERENCE: Final = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")
_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")


@dataclass
class CopiedFiles:
    """What a Dockerfile defines: files by absolute path, the working directory and variables."""

    tree: FileTree = field(default_factory=dict)
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)

    def below(self, folder: str) -> FileTree:
        """Return the files in a folder, by relative path."""
        inside = {path: node for path, node in self.tree.items() if path.startswith(f"{folder}/")}
        return with_folders({path[len(folder) + 1 :]: node for path, node in inside.items()})

    def outside(self, folder: str) -> str | None:
        """Return a file that lies elsewhere, if there is one."""
        files = (path for path, node in self.tree.items() if node.kind != "folder")
        return next((path for path in files if not path.startswith(f"{folder}/")), None)


def read_dockerfile(path: Path) -> CopiedFiles:
    """Return what a Dockerfile copies and sets.

    Raises:
        GameFileError: it does more than that, copies what is not there, or cannot be read.
    """
    copied = CopiedFiles()
    arguments: dict[str, str] = {}
    try:
        for instruction, value in _instructions(read_text(path)):
            _apply(copied, arguments, path.parent, instruction, value)
    except (OSError, ValueError, SandboxError) as error:
        raise settings_error(path.parent.parent, f"{path.name}: {error}") from None
    return copied


def folder_tree(folder: Path) -> FileTree:
    """Return the files in a folder of this machine, with their modes; empty if there is no such folder.

    Raises:
        SandboxError: they are more than `LIMITS`.
    """
    if not folder.is_dir():
        return {}
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return {entry.path: FileNode(entry.kind, entry.mode, entry.data) for entry in read_tree(root, LIMITS)}
    finally:
        os.close(root)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions with their values; continued lines are joined, comments and empty lines left out."""
    pending = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or (pending and not line.strip()):
            continue
        pending += line
        if pending.rstrip().endswith("\\"):
            pending = pending.rstrip()[:-1] + " "
            continue
        word, _, value = pending.strip().partition(" ")
        pending = ""
        if word:
            yield word.upper(), value.strip()


def _apply(copied: CopiedFiles, arguments: dict[str, str], context: Path, word: str, value: str) -> None:
    """Apply an instruction; `arguments` are the values of ARG."""
    variables = {**arguments, **copied.env}
    if word == "FROM" or word in _NEUTRAL:
        return
    if word == "WORKDIR":
        copied.workdir = posixpath.normpath(posixpath.join(copied.workdir, _filled(value.strip("\"'"), variables)))
    elif word == "ENV":
        copied.env.update(_pairs(value, variables))
    elif word == "ARG":
        name, _, default = _filled(value, variables).partition("=")
        arguments.setdefault(name.strip(), default.strip("\"'"))
    elif word in ("COPY", "ADD"):
        _copy(copied, context, word, _filled(value, variables))
    else:
        why = "only FROM, COPY, ADD, WORKDIR, ENV and ARG can be followed without Docker"
        raise ValueError(f"{word} {value[:60]!r} changes the system, and {why}; sandbox='docker' builds the image")


def _pairs(value: str, variables: dict[str, str]) -> dict[str, str]:
    """Return the variables of ENV: A=1 B="x y", or the old form A 1."""
    name, _, text = value.partition(" ")
    if "=" not in name:
        return {name: _filled(text.strip(), variables)}
    words = (word.partition("=") for word in shlex.split(value))
    return {name: _filled(text, variables) for name, _, text in words}


def _filled(text: str, variables: dict[str, str]) -> str:
    return _REFERENCE.sub(lambda match: variables.get(match[1] or match[3]) or match[2] or "", text)


def _copy(copied: CopiedFiles, context: Path, word: str, value: str) -> None:
    """Copy files as COPY and ADD do: the content of folders, and that of archives with ADD."""
    words = _words(value) if value.startswith("[") else shlex.split(value)
    options = [option for option in words if option.startswith("--")]
    if any(option.startswith("--from") for option in options) or "<<" in value or "://" in value:
        raise ValueError(f"{word} {value[:60]!r} takes files from elsewhere; sandbox='docker' builds the image")
    mode = next((int(option[8:], 8) for option in options if option.startswith("--chmod=")), None)
    *sources, target = [option for option in words if not option.startswith("--")]
    matched = [path for source in sources for path in _matches(context, source)]
    goal = posixpath.normpath(posixpath.join(copied.workdir, target))
    into = len(matched) > 1 or target.endswith(("/", "/.")) or target in (".", "./") or goal == "/"
    for path in matched:
        for name, node in _contents(path, unpack=word == "ADD").items():
            path_inside = goal if not name and not into else posixpath.join(goal, name or path.name)
            node = node if mode is None or node.kind != "file" else node._replace(mode=mode)
            copied.tree[path_inside.rstrip("/")] = node


def _words(value: str) -> list[str]:
    """Return the words of the form ["a", "b"]."""
    words = parse_json(value.encode(), "the instruction")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"expected a list of texts, got {value[:60]!r}")
    return words


def _matches(context: Path, source: str) -> list[Path]:
    """Return the files and folders of the build context that a source names, which may be a pattern."""
    inside = posixpath.normpath(source.lstrip("/") or ".")
    if inside.startswith(".."):
        raise ValueError(f"{source!r} lies outside of the folder environment/")
    paths = sorted(context.glob(inside)) if inside != "." else [context]
    if not paths:
        raise ValueError(f"{source!r} is not in the folder environment/")
    if link := next((path for path in paths if not path.resolve().is_relative_to(context.resolve())), None):
        raise ValueError(f"{link.name!r} is a link to a path outside of the folder environment/")
    return paths


def _contents(path: Path, *, unpack: bool) -> FileTree:
    """Return what a source stands for: its files by relative path, or itself by the path ""."""
    if path.is_dir():
        return folder_tree(path)
    if unpack and path.name.endswith(_ARCHIVES):
        entries = read_archive(read_bytes(path, max_bytes=2 * LIMITS.bytes), LIMITS)
        return {entry.path: FileNode(entry.kind, entry.mode, entry.data) for entry in entries}
    about = path.stat()
    if about.st_size > LIMITS.file_size:
        raise ValueError(f"{path.name} has more than {LIMITS.file_size:,} bytes")
    return {"": FileNode("file", about.st_mode & 0o777, path.read_bytes())}
