"""What the files of a model say before it is built, and panics of the libraries in Rust that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turncredit.agents.errors import ModelError
from turncredit.tools.bounded_input import InputError, open_file, parse_json, read_json

__all__ = ["MOST_LAYERS", "layers_of", "panics_as_errors"]

MOST_LAYERS: Final = 2048
"""Layers of a model without weights; published ones have at most some hundreds."""
_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks|layer|block)\.(\d{1,6})\.")
_MOST_HEADER: Final = 256 << 20


class RustPanic(ModelError):
    """A library in Rust (tokenizers, safetensors) gave up; pyo3's own exception derives from BaseException."""


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of a library in Rust into an error that handlers of exceptions see.

    Raises:
        RustPanic: the block panicked.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RustPanic(" ".join(str(error).split())[:300]) from error


def layers_of(folder: Path) -> int | None:
    """Return the number of layers of the text model in the safetensors of a folder; None if it cannot be told.

    Raises:
        ModelError: an index or a header is damaged.
    """
    numbers = [int(match[1]) for name in _names(folder) if "visi" not in name and (match := _LAYER.search(name))]
    return max(numbers) + 1 if numbers else None


def _names(folder: Path) -> list[str]:
    """Return the names of all tensors: of the index, or of the headers of the files."""
    index = folder / "model.safetensors.index.json"
    try:
        if index.is_file():
            table = read_json(index, max_bytes=_MOST_HEADER)
            names = table.get("weight_map") if isinstance(table, dict) else None
            return list(names) if isinstance(names, dict) else []
        return [name for file in sorted(folder.glob("model*.safetensors")) for name in _header(file)]
    except InputError as error:
        raise ModelError(str(error)) from error


def _header(file: Path) -> list[str]:
    with open_file(file) as opened:
        size = int.from_bytes(opened.read(8), "little")
        text = opened.read(min(size, _MOST_HEADER)) if size <= _MOST_HEADER else b""
    try:
        table = parse_json(text, str(file))
    except InputError:
        return []  # the library that reads it says what is wrong
    return list(table) if isinstance(table, dict) else []
