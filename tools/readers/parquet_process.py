"""Rows of a Parquet file as JSON lines, decoded by polars in a process of its own.

A fork of a process that has used polars may hang, since polars keeps threads; and a small file may stand for gigabytes,
whose decoding only a limit on the memory of a process bounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from turnwise.tools.bounded_input import InputError, bounded, split_lines

__all__ = ["MEMORY", "parquet_lines"]

MEMORY: Final = 8 << 30
"""Bytes of memory (address space) of the process that decodes."""

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
    if find_spec("polars") is None:
        raise InputError(f"{path} is Parquet, which polars reads: pip install 'turnwise[parquet]'")
    command = [sys.executable, "-P", "-m", "turnwise.tools.readers.parquet_rows", str(path), str(MEMORY)]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        ) as process,
    ):
        assert process.stdout is not None
        try:
            blocks = bounded(iter(partial(process.stdout.read, _BLOCK), b""), max_bytes, str(path))
            yield from split_lines(blocks, max_line=max_line, label=str(path))
            if process.wait():
                complaints.seek(0)
                complaint_lines = complaints.read().decode(errors="replace").strip().splitlines()
                raise InputError(
                    f"{path} cannot be decoded as Parquet ({(complaint_lines or ['it ended early'])[-1][:300]})"
                )
        finally:
            process.kill()
