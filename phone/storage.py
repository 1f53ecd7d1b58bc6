"""The storage of a phone as adb and a shell see it: files, directories, and the databases of apps as SQLite files.

Directories are those that a file lies in, those that every phone has, and those that were made. Modes and owners are
not kept; /sdcard has its usual other names.
"""

from __future__ import annotations

import posixpath
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from turncredit.phone.phone import Phone
from turncredit.phone.sqlite_limits import limited
from turncredit.phone.toolkit import folders

__all__ = ["Entry", "Storage", "StorageError", "normal_path"]

_LIMIT: Final = 512 << 20  # bytes of all files of a phone
_SDCARD: Final = ("/storage/emulated/0", "/storage/self/primary", "/mnt/sdcard")
_WRITABLE: Final = ("/sdcard", "/data", "/storage", "/tmp", "/mnt")


class StorageError(Exception):
    """The storage refuses: the message is the system's, such as 'No such file or directory'."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory: its size in bytes, and when it was changed, in seconds since 1970."""

    path: str
    directory: bool
    size: int
    modified: int

    @property
    def mode(self) -> int:
        """Type and permissions as in `st_mode`."""
        return 0o40771 if self.directory else 0o100660


def normal_path(path: str, base: str = "/") -> str:
    """Return an absolute path without '.', '..', doubled slashes and other names of /sdcard."""
    path = "/" + posixpath.normpath(posixpath.join(base, path)).lstrip("/")
    for other in _SDCARD:
        if path == other or path.startswith(other + "/"):
            return "/sdcard" + path[len(other) :]
    return path


class Storage:
    """The file system of a phone. Paths may be of any form; a wrong one raises StorageError."""

    def __init__(self, phone: Phone) -> None:
        """Work on the files of a phone."""
        self.phone = phone
        self._databases = {normal_path(app.database_path): app.package for app in phone.apps.values() if app.schema}

    def package_of(self, path: str) -> str | None:
        """Return the app whose database lies at a path, or None."""
        return self._databases.get(normal_path(path))

    def find(self, path: str) -> Entry | None:
        """Return what is at a path, or None."""
        path = normal_path(path)
        if path in self._databases:
            return Entry(path, False, len(self.read(path)), self.phone.state.clock)
        file = self.phone.files.get(path)
        if file is not None:
            return Entry(path, False, len(file.data), file.modified)
        if path in self._directories():
            return Entry(path, True, 4096, self.phone.state.clock)
        return None

    def entry(self, path: str) -> Entry:
        """Return what is at a path.

        Raises:
            StorageError: nothing is.
        """
        entry = self.find(path)
        if entry is None:
            raise StorageError("No such file or directory")
        return entry

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, in order."""
        if not self.entry(path).directory:
            raise StorageError("Not a directory")
        prefix = normal_path(path).rstrip("/") + "/"
        paths = (*self.phone.files, *self._databases, *self._directories())
        return sorted({name[len(prefix) :].split("/")[0] for name in paths if name.startswith(prefix)} - {""})

    def walk(self, path: str) -> Iterator[Entry]:
        """Return what is at a path and everything below, parents first."""
        entry = self.entry(path)
        yield entry
        if entry.directory:
            for name in self.names(path):
                yield from self.walk(posixpath.join(entry.path, name))

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        path = normal_path(path)
        package = self._databases.get(path)
        if package is not None:
            return self.phone.database(package).serialize()
        file = self.phone.files.get(path)
        if file is None:
            raise StorageError("Is a directory" if self.entry(path).directory else "No such file or directory")
        return file.data

    def write(self, path: str, data: bytes, modified: int | None = None) -> None:
        """Write a file into a directory that exists; `modified` in seconds since 1970, by default now."""
        path = normal_path(path)
        self._check_writable(path)
        entry = self.find(path)
        if entry and entry.directory:
            raise StorageError("Is a directory")
        parent = self.entry(posixpath.dirname(path))
        if not parent.directory:
            raise StorageError("Not a directory")
        package = self._databases.get(path)
        if package is not None:
            self._write_database(package, data)
            return
        used = sum(len(file.data) for name, file in self.phone.files.items() if name != path)
        if used + len(data) > _LIMIT:
            raise StorageError("No space left on device")
        self.phone.write_file(path, data, modified)

    def _write_database(self, package: str, data: bytes) -> None:
        connection = sqlite3.connect(":memory:")
        try:
            connection.deserialize(data)
            self.phone.store_database(package, limited(connection))
        except sqlite3.Error as error:
            raise StorageError(f"not a database of {package}: {error}") from None

    def make_directory(self, path: str, parents: bool = False) -> None:
        """Make a directory; with `parents` those above it too, and no complaint if it exists."""
        path = normal_path(path)
        self._check_writable(path)
        entry = self.find(path)
        if entry is not None:
            if not (parents and entry.directory):
                raise StorageError("File exists")
            return
        above = path
        while self.find(above := posixpath.dirname(above)) is None:
            if not parents:
                raise StorageError("No such file or directory")
        if not self.entry(above).directory:
            raise StorageError("Not a directory")
        folders.make_folder(self.phone, path)

    def remove(self, path: str, recursive: bool = False) -> None:
        """Remove a file, or with `recursive` a directory and everything in it. Standard directories stay, empty."""
        path = normal_path(path)
        entry = self.entry(path)
        self._check_writable(path)
        if path in self._databases:
            raise StorageError("Operation not permitted")
        if entry.directory and not recursive:
            raise StorageError("Is a directory")
        folders.remove(self.phone, path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if self.names(path):
            raise StorageError("Directory not empty")
        self.remove(path, recursive=True)

    def move(self, source: str, target: str) -> None:
        """Rename a file or directory, with everything in it."""
        source, target = normal_path(source), normal_path(target)
        if target == source or target.startswith(source.rstrip("/") + "/"):
            raise StorageError("Invalid argument")
        if source in self._databases:
            raise StorageError("Operation not permitted")
        for entry in list(self.walk(source)):
            there = target + entry.path[len(source) :]
            if entry.directory:
                self.make_directory(there, parents=True)
            else:
                self.write(there, self.read(entry.path), entry.modified)
        self.remove(source, recursive=True)

    def touch(self, path: str) -> None:
        """Make an empty file, or set the time of one to now."""
        entry = self.find(path)
        if entry is None or not entry.directory:
            self.write(path, self.read(path) if entry else b"")

    def _check_writable(self, path: str) -> None:
        self.phone.from_outside()
        if not any(path.startswith(area + "/") for area in _WRITABLE):
            raise StorageError("Read-only file system")

    def _directories(self) -> set[str]:
        directories = {"/"}
        packages = [f"/data/data/{package}/files" for package in self.phone.apps]
        for path in (*folders.STANDARD, "/proc", "/system/bin", *self.phone.state.directories, *packages):
            _add_with_parents(directories, path)
        for path in (*self.phone.files, *self._databases):
            _add_with_parents(directories, posixpath.dirname(path))
        return directories


def _add_with_parents(directories: set[str], path: str) -> None:
    while path not in directories:
        directories.add(path)
        path = posixpath.dirname(path)
