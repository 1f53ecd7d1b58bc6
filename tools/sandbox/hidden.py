"""Paths of this machine that no box may read: turncredit itself, wherever it is installed, and the caches of its user.

Boxes can read /usr and the directory of their interpreter, and turncredit is often installed there. Its generators hold
the solutions and hidden tests of every generated task. So each copy is covered: the running one, with its whole
checkout if it is installed in editable mode, and those in any folder of packages that a box can read, with what the
installer writes beside them.

Not included: copies with another name, and copies at an unusual place that nothing refers to.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from turncredit.tools.sandbox.errors import BadPath

__all__ = ["FOLDERS", "check_readable", "hidden_paths", "is_own", "own_folder", "piecewise"]

FOLDERS: Final = (
    "ablation",
    "agents",
    "cli",
    "credit",
    "curriculum",
    "engines",
    "envs",
    "evaluation",
    "examples",
    "package",
    "phone",
    "processes",
    "report",
    "tools",
    "training",
)
"""Folders of a checkout that hold the package."""
_OWN: Final = re.compile(
    r"turncredit(\.py|\.pth|\.egg-link)?|turncredit-[^/]*\.(dist-info|egg-info|egg|data|whl|tar\.gz)|turncredit\.egg-info|"
    r"__editable__[._]*turncredit[-_].*"
)
_PACKAGES: Final = ("site-packages", "dist-packages")
_PLACES: Final = tuple(  # of folders of packages below a directory, also those of virtual environments and of conda
    f"{above}{below}/{name}"
    for above in ("", "*/", "*/*/")
    for below in ("lib/python3*", "lib64/python3*", ".")
    for name in _PACKAGES
)
_CACHES: Final = ("TURNCREDIT_CACHE", "TURNCREDIT_DATA", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "PIP_CACHE_DIR")


def own_folder() -> Path:
    """Return the folder of the running package, or of its checkout."""
    return Path(__file__).resolve().parents[2]


def is_own(name: str) -> bool:
    """Return whether a name in a folder of packages belongs to turncredit.

    >>> [is_own(name) for name in ("turncredit", "turncredit-1.0.dist-info", "turncredit_plugin", "numpy")]
    [True, True, False, False]
    """
    return _OWN.fullmatch(name) is not None


def check_readable(path: str) -> None:
    """Raise BadPath if a directory is part of the package."""
    own = own_folder()
    parts = [own / name for name in FOLDERS] if is_checkout(own) else [own]
    if any(Path(path).resolve().is_relative_to(part) for part in parts):
        raise BadPath(f"readable must not name turncredit's own folders, which no box may read, got {path!r}")


@cache
def hidden_paths(visible: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files and directories that are hidden below visible directories; found once per process.

    Args:
        visible: directories that a box can read, as paths of this machine.
    """
    roots = _outermost(os.path.realpath(path) for path in visible)
    needed = [os.path.realpath(path) for path in (sys.executable, os.__file__)]
    paths = {os.path.realpath(path) for path in _candidates(roots) if os.path.exists(path)}
    inside = [
        path
        for path in paths
        if any(path.startswith(f"{root}/") for root in roots)
        and not any(f"{other}/".startswith(f"{path}/") for other in (*roots, *needed))
    ]
    return tuple(_outermost(inside))


def piecewise(visible: Iterable[str], hidden: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what to grant where rules can only add: paths that are granted whole, and directories to list.

    Links are left out: a rule for one would grant what it points to.
    """
    whole: list[str] = []
    listed: list[str] = []
    pieces = list(hidden)
    pending = _outermost(os.path.realpath(path) for path in visible)
    while pending:
        path = pending.pop()
        if path in pieces:
            continue
        if not any(other.startswith(f"{path}/") for other in pieces):
            whole.append(path)
            continue
        listed.append(path)
        pending += [inner for name in _names(path) if not os.path.islink(inner := f"{path}/{name}")]
    return whole, listed


def _candidates(roots: list[str]) -> Iterator[str]:
    """Yield every path that might have to be hidden."""
    own = own_folder()
    yield from _of_checkout(own)
    home = os.path.expanduser("~")
    yield from (os.environ[name] for name in _CACHES if os.environ.get(name))
    yield from (f"{home}/.cache", sys.pycache_prefix or "")
    for folder in {path for root in roots for path in _package_folders(root)} | {str(own.parent)}:
        for name in _names(folder):
            if is_own(name):
                yield f"{folder}/{name}"
                yield from _of_checkout(_editable(f"{folder}/{name}"))
        for name in _names(f"{folder}/__pycache__"):
            if is_own(name):
                yield f"{folder}/__pycache__/{name}"


def _package_folders(root: str) -> Iterator[str]:
    """Yield the folders of packages below a directory, or the directory itself."""
    yield root
    imported = [path for path in sys.path if path.startswith(f"{root}/")]
    for path in (*imported, *(str(package) for pattern in _PLACES for package in Path(root).glob(pattern))):
        yield os.path.realpath(path)


def _of_checkout(folder: Path | None) -> Iterator[str]:
    if folder is not None:
        yield str(folder)
        yield from (str(folder / name) for name in FOLDERS if is_checkout(folder))


def is_checkout(folder: Path) -> bool:
    """Return whether a folder is a checkout of a package."""
    # what an installation refers to may lie where this user cannot look, which Path.is_file would raise
    return os.path.isfile(folder / "pyproject.toml")


def _editable(info: str) -> Path | None:
    """Return the directory that an installation in editable mode refers to."""
    try:
        url = urlsplit(json.loads(Path(info, "direct_url.json").read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(unquote(url.path)).resolve() if url.scheme == "file" else None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that lie in no other of them, sorted."""
    outermost: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(f"{other}/") for other in outermost):
            outermost.append(path)
    return outermost
