"""Rows of a Parquet file as JSON lines, decoded and encoded by polars in a process of its own.

A fork of a process that has used polars may hang, since polars keeps threads; and a small file may stand for gigabytes,
whose decoding only a limit on the memory of a process bounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from turncredit.installation import needs
from turncredit.tools.bounded_input import InputError, bounded, split_lines

__all__ = ["BASE64", "MEMORY", "parquet_lines", "require_polars", "write_parquet"]

MEMORY: Final = 8 << 30
"""Bytes of memory (address space) of the process that decodes."""

BASE64: Final = "data:;base64,"
"""What stands before bytes that are no text, in the JSON of a row."""

_BLOCK: Final = 1 << 16


def parquet_lines(path: Path, *, max_line: int, max_bytes: int | None) -> Iterator[bytes]:
    """Yield the rows of a Parquet file, each as a JSON object.

    Args:
        path: the file.
        max_line: bytes of a row as JSON.
        max_bytes: bytes of all rows as JSON; None for no limit.

    Raises:
        InputError: polars is not installed, or the file is damaged or larger than allowed.
    """
    require_polars(path)
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            _command("print", path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=_environment(),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            blocks = bounded(iter(partial(process.stdout.read, _BLOCK), b""), max_bytes, str(path))
            yield from split_lines(blocks, max_line=max_line, label=str(path))
            if process.wait():
                raise InputError(f"{path} cannot be decoded as Parquet ({_last_line(complaints)})")
        finally:
            process.kill()


def write_parquet(path: Path, schema: Mapping[str, object], rows: Iterable[str]) -> None:
    """Write a Parquet file.

    Args:
        path: the file.
        schema: of the columns, as `parquet_rows.write_rows` takes it.
        rows: each a JSON object without line breaks.

    Raises:
        InputError: polars is not installed, or cannot write the file.
    """
    require_polars(path)
    with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as complaints:
        lines.write(json.dumps(schema).encode() + b"\n")
        lines.writelines(row.encode() + b"\n" for row in rows)
        lines.seek(0)
        result = subprocess.run(
            _command("write", path), stdin=lines, stderr=complaints, env=_environment(), check=False
        )
        if result.returncode:
            raise InputError(f"{path} cannot be written as Parquet ({_last_line(complaints)})")


def require_polars(path: Path) -> None:
    """Check that polars is installed.

    Raises:
        InputError: it is not.
    """
    if find_spec("polars") is None:
        raise InputError(needs(f"{path} is Parquet, which needs polars", "parquet"))


def _command(verb: str, path: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "turncredit.tools.readers.parquet_rows", verb, str(path), str(MEMORY)]


def _environment() -> dict[str, str]:
    return {**os.environ, "POLARS_MAX_THREADS": "1"}


def _last_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return (lines or ["it ended early"])[-1][:300]
