"""Folders of the storage: those that files lie in, those that every phone has, and those that were made."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from turncredit.phone.toolkit.identity_cache import identity_cache
from turncredit.phone.toolkit.phone_interface import PhoneParts
from turncredit.phone.toolkit.state import File

__all__ = ["STANDARD", "copy", "folders", "make_folder", "move", "names", "remove"]

_SDCARD: Final = ("DCIM", "Documents", "Download", "Movies", "Music", "Pictures")
STANDARD: Final = (*(f"/sdcard/{name}" for name in _SDCARD), "/data/app", "/data/local/tmp", "/tmp")


def folders(phone: PhoneParts, root: str = "/sdcard") -> list[str]:
    """Return the paths of all folders below `root`, in order."""
    result: set[str] = set()
    paths = [*STANDARD, *phone.state.directories, *map(posixpath.dirname, phone.files)]
    for path in paths:
        while path not in result and path.startswith(root + "/"):
            result.add(path)
            path = posixpath.dirname(path)
    return sorted(result)


def names(phone: PhoneParts, folder: str) -> tuple[list[str], list[str]]:
    """Return the paths of the folders and of the files that lie directly in a folder, in order."""
    inside, paths = _by_folder(phone.files, phone.state.directories).get(folder, ((), ()))
    return list(inside), list(paths)


@identity_cache(64)
def _by_folder(paths: Mapping[str, File], made: frozenset[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the paths of the folders and of the files in each folder, in order."""
    contents: dict[str, tuple[list[str], list[str]]] = {}
    seen: set[str] = set()
    for folder in (*STANDARD, *made, *map(posixpath.dirname, paths)):
        while folder not in seen and folder != "/":
            seen.add(folder)
            around = posixpath.dirname(folder)
            contents.setdefault(around, ([], []))[0].append(folder)
            folder = around
    for path in paths:
        contents.setdefault(posixpath.dirname(path), ([], []))[1].append(path)
    for inside, files in contents.values():
        inside.sort()
        files.sort()
    return contents


def make_folder(phone: PhoneParts, path: str) -> None:
    """Make a folder."""
    _keep(phone, phone.state.directories | {path})


def remove(phone: PhoneParts, path: str) -> None:
    """Remove a file, or a folder and everything in it. The folder around it stays, even if it is empty then."""
    made = {folder for folder in phone.state.directories if not _lies_in(folder, path)}
    for name in [name for name in phone.files if _lies_in(name, path)]:
        phone.delete_file(name)
    _keep(phone, made | {posixpath.dirname(path)})


def copy(phone: PhoneParts, source: str, target: str) -> None:
    """Copy a file, or a folder with everything in it."""
    for name, file in list(phone.files.items()):
        if _lies_in(name, source):
            phone.write_file(target + name[len(source) :], file.data, file.modified)
    made = {target + name[len(source) :] for name in folders(phone) if _lies_in(name, source)}
    _keep(phone, phone.state.directories | made)


def move(phone: PhoneParts, source: str, target: str) -> None:
    """Move or rename a file, or a folder with everything in it."""
    copy(phone, source, target)
    remove(phone, source)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _keep(phone: PhoneParts, made: frozenset[str] | set[str]) -> None:
    """Keep the folders that would not be there anyway, so that equal contents are equal states."""
    held = {posixpath.dirname(name) for name in (*phone.files, *made)} | set(STANDARD) | {"/sdcard"}
    extra = {path for path in made if not any(_lies_in(other, path) for other in held)}
    phone.state.directories = frozenset(extra)
    phone._changed()
