"""Records in JSON files: validated when they are read, and written so that a full disk destroys nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from turncredit.agents.errors import EvaluationError, StoreError
from turncredit.agents.files.fresh_file import fresh_file
from turncredit.agents.files.trajectory_files import name_file_in_errors
from turncredit.agents.json_types import JsonObject
from turncredit.former_name import current
from turncredit.tools import bounded_input
from turncredit.tools.bounded_input import InputError
from turncredit.tools.visible_text import encodable, json_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Record = TypeVar("Record")

_ADAPTERS: dict[object, TypeAdapter[object]] = {}
"""The adapters that were made so far; each takes as long as to read hundreds of records."""


def validated(kind: type[Record], content: object, complaint: str) -> Record:
    """Return the record with this content, with the type of every field checked.

    Args:
        kind: a dataclass.
        content: its fields as JSON-compatible values.
        complaint: beginning of the message of an error.

    Raises:
        EvaluationError: a field is missing or has another type.
    """
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        location = ".".join(str(part) for part in problem["loc"])
        raise EvaluationError(f"{complaint}: {location}: {problem['msg'].lower()}") from error


def _adapter(kind: type[Record]) -> TypeAdapter[Record]:
    from pydantic import TypeAdapter

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return cast("TypeAdapter[Record]", _ADAPTERS[kind])


def write_json(path: Path, content: JsonObject, *, indent: int | None = 1) -> None:
    """Write JSON as `write_text` writes a text; `indent` is that of `json.dumps`."""
    write_text(path, json_text(content, indent=indent) + "\n")


def is_no_file(path: Path) -> str:
    """Return what a path is that no file can be renamed to, "folder" or "device"; "" for a file and for none.

    `/dev/stdout` counts as a device also where it leads to a file: renaming would replace the link for everybody.
    """
    if path.is_dir():
        return "folder"
    absolute = os.path.abspath(path)
    special = absolute.startswith(("/dev/", "/proc/")) and not absolute.startswith("/dev/shm/")
    return "device" if special or (path.exists() and not path.is_file()) else ""


def require_writable(path: Path) -> None:
    """Check before any work that a result can be written to a path.

    Raises:
        StoreError: the path is a folder or a device, its folder does not exist, or nothing can be written there.
    """
    if kind := is_no_file(path):  # results are renamed into place, which would replace a device
        raise StoreError(f"expected the name of a file, but {path} is a {kind}")
    if not path.parent.exists():
        raise StoreError(f"{path} cannot be written: the folder {path.parent} does not exist")
    probe = path.with_name(f".{path.name}.probe")
    try:
        fresh_file(probe).close()
        probe.unlink()
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text to a temporary file and rename it, so that a full disk or a crash cannot destroy an existing file.

    Args:
        path: the file, or a link to it; its folder is created.
        text: its content, written as UTF-8; half surrogate pairs, which it cannot encode, become escapes.

    Raises:
        EvaluationError: the path is a folder or a device.
        OSError: the file cannot be written.
    """
    if kind := is_no_file(path):
        raise EvaluationError(f"{path} must be a file, and is a {kind}")
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    try:
        with name_file_in_errors(path), fresh_file(temporary) as file:
            file.write(encodable(text).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path, kind: str, key: str, version: int) -> JsonObject:
    """Return the content of a file.

    Args:
        path: the file.
        kind: what it should be, for messages: "a panel".
        key: a key that such a file has.
        version: version of the format that is understood.

    Raises:
        EvaluationError: the file is not JSON, lacks the key, or has another version.
        OSError: the file cannot be read.
    """
    try:
        content = bounded_input.read_json(path)
    except InputError as error:
        raise EvaluationError(f"{path} is not {kind}: {str(error).replace(f'{path} is', 'it is', 1)}") from error
    if not isinstance(content, dict) or key not in content:
        raise EvaluationError(f"{path} is not {kind}: the key {key!r} is missing")
    if content.get("version") != version:
        number = content.get("version")
        raise EvaluationError(f"{path} must have version {version} of the format, got {number!r}")
    return current(content)
