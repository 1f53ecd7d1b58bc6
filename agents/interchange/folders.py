"""Files and folders of other formats: written whole or not at all, and found again."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import name_file_in_errors
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Record, read_records

__all__ = ["Refuse", "episode_file", "files_in", "place_of", "raise_it", "records_of", "whole_output"]

Refuse = Callable[[StoreError], None]
"""What a reader calls with each episode that cannot be read: it raises, or the next one is read."""


def raise_it(error: StoreError) -> None:
    """Raise an error: what readers do with an episode that cannot be read, unless something else is asked for."""
    raise error


def records_of(path: Path, refuse: Refuse = raise_it) -> Iterator[Record]:
    """Yield the records of a file that can be read.

    Args:
        path: the file.
        refuse: called with each of the others.

    Raises:
        StoreError: the file does not exist, is a folder, has another container, or is damaged.
    """
    if not path.exists():
        raise StoreError(f"{path} does not exist")
    try:
        for record in read_records(path, max_bytes=None):
            if record.problem:
                refuse(StoreError(f"{path}, {place_of(record)}: {record.problem}"))
            else:
                yield record
    except InputError as error:
        raise StoreError(str(error)) from error


def place_of(record: Record) -> str:
    """Return where in its file a record stands: "line 3", or "record 3" where records are no lines."""
    return f"record {record.number}" if record.listed else f"line {record.number}"


@contextmanager
def whole_output(path: Path) -> Iterator[Path]:
    """Give a path beside a new one; at the end of the block, what was written there takes its name.

    Raises:
        StoreError: the path exists, or its folder does not.
        OSError: it cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise StoreError(f"{path} exists already: remove it, or choose another --output")
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be written: the folder {path.parent} does not exist")
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with name_file_in_errors(path):
            yield part
            os.rename(part, path)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def episode_file(folder: Path, number: int, id: str, suffix: str) -> Path:
    """Return the file of an episode: numbered, so that the order stays, and named as far as file names go.

    >>> episode_file(Path("out"), 3, "train/tiny/000001#0@17", ".json").name
    '000003-train-tiny-000001-0-17.json'
    """
    return folder / f"{number:06d}-{re.sub(r'[^A-Za-z0-9_.]+', '-', id).strip('-.')[:80] or 'episode'}{suffix}"


def files_in(path: Path, *suffixes: str) -> list[Path]:
    """Return a file, or the files below a folder whose names end so, sorted and without hidden ones.

    Raises:
        StoreError: the path does not exist, or the folder holds no such file, or a link as one.
    """
    if not path.exists():
        raise StoreError(f"{path} does not exist")
    if not path.is_dir():
        return [path]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.name.endswith(suffixes) and file.is_file() and not _hidden(file.relative_to(path))
    )
    if not files:
        raise StoreError(f"{path} holds no file that ends in {' or '.join(suffixes)}")
    for file in files:
        if file.is_symlink() and not _stays(file, path):
            raise StoreError(
                f"{file} is a link that leads out of its folder, and links in a folder that came from elsewhere are "
                "not followed"
            )
    return files


def _stays(link: Path, folder: Path) -> bool:
    """Return whether a link leads to a file of its folder; the cache of the Hub keeps those of a snapshot beside it."""
    target, root = link.resolve(), folder.resolve()
    return target.is_relative_to(root) or (
        root.parent.name == "snapshots" and target.is_relative_to(root.parent.parent / "blobs")
    )


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
