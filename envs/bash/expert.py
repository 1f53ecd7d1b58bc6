"""Commands that restore a file tree: the expert undoes what other commands changed before it follows its plan."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from turncredit.envs.bash.actions import LONGEST
from turncredit.envs.bash.filetree import FileNode

__all__ = ["restore_commands"]

_CHUNK: Final = 3000  # bytes that one command writes, so that it stays shorter than the longest action


def restore_commands(tree: Mapping[str, FileNode], goal: Mapping[str, FileNode], root: str) -> list[str]:
    """Return commands that turn one tree of the folder `root` into another, from any current folder."""
    commands = [f"cd {root}"]
    for step in _steps(tree, goal):
        joined = f"{commands[-1]}; {step}"
        if len(joined) <= LONGEST // 2:
            commands[-1] = joined
        else:
            commands.append(step)
    return commands


def _steps(tree: Mapping[str, FileNode], goal: Mapping[str, FileNode]) -> Iterator[str]:
    gone: list[str] = []
    for path, node in sorted(tree.items()):
        if path in goal and goal[path].kind == node.kind:
            continue
        if not any(path.startswith(f"{other}/") for other in gone):
            gone.append(path)
            yield f"rm -rf {_quoted(path)}"
    for path, node in sorted(goal.items()):
        present = tree.get(path)
        if present is not None and present.kind != node.kind:
            present = None
        if node.kind == "folder":
            if present is None:
                yield f"mkdir -p {_quoted(path)}"
        elif node.kind == "link":
            yield f"ln -sfn {_quoted(node.data.decode())} {_quoted(path)}"
        elif present is None or present.data != node.data:
            yield f"rm -f {_quoted(path)}"
            yield from _written(path, node.data)
        if node.kind != "link" and (present is None or present != node):
            yield f"chmod {node.mode:o} {_quoted(path)}"


def _written(path: str, data: bytes) -> Iterator[str]:
    for start in range(0, max(1, len(data)), _CHUNK):
        part = data[start : start + _CHUNK]
        mark = ">>" if start else ">"
        if part.isascii() and part.replace(b"\n", b" ").decode().isprintable():
            yield f"printf %s {shlex.quote(part.decode())} {mark} {_quoted(path)}"
        else:
            yield f"echo {base64.b64encode(part).decode()} | base64 -d {mark} {_quoted(path)}"


def _quoted(path: str) -> str:
    """Return a path quoted for the shell; "./" protects a leading "-"."""
    if path.isprintable():
        return shlex.quote(f"./{path}" if path.startswith("-") else path)
    octal = "".join(f"\\{byte:03o}" for byte in path.encode("utf-8", "surrogateescape"))
    return f"\"$(printf '{octal}')\""
