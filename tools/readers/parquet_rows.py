"""Program: prints the rows of a Parquet file as JSON lines, or writes such a file. See `parquet_process`."""

from __future__ import annotations

import base64
import json
import resource
import sys

_SLICE = 64 << 20
"""Bytes of decoded rows at once, about."""


def print_rows(path: str, memory: int) -> None:
    """Print each row of a Parquet file as one line of JSON.

    Args:
        path: the file.
        memory: bytes of address space of this process.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    import polars

    rows, start, count = polars.scan_parquet(path, glob=False), 0, 64
    while len(part := rows.slice(start, count).collect()):
        for row in part.iter_rows(named=True):
            sys.stdout.write(json.dumps(row, ensure_ascii=False, default=_plain) + "\n")
        start += count
        count = count * 2 if part.estimated_size() < _SLICE // 2 else max(1, count // 2)


def write_rows(path: str, memory: int) -> None:
    """Write a Parquet file from lines of JSON: first the schema of its columns, then one row a line.

    A schema maps names to "string", "integer", "number", "boolean" or "binary", which is base64 in the lines, to a list
    of one of these, or to another schema.

    Args:
        path: the file.
        memory: bytes of address space of this process.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    import polars

    kinds = {
        "string": polars.String(),
        "integer": polars.Int64(),
        "number": polars.Float64(),
        "boolean": polars.Boolean(),
        "binary": polars.Binary(),
    }

    def column(kind: object) -> polars.DataType:
        if isinstance(kind, list):
            return polars.List(column(kind[0]))
        if isinstance(kind, dict):
            return polars.Struct({name: column(inner) for name, inner in kind.items()})
        return kinds[str(kind)]

    kinds_of_columns = json.loads(sys.stdin.readline())
    schema = {name: column(kind) for name, kind in kinds_of_columns.items()}
    rows = [_with_bytes(json.loads(line), kinds_of_columns) for line in sys.stdin]
    polars.DataFrame(rows, schema=schema, orient="row").write_parquet(path)


def _with_bytes(value: object, kind: object) -> object:
    """Return a value of a line as its column has it: base64 becomes bytes."""
    if value is None or isinstance(value, str):
        return base64.b64decode(value) if kind == "binary" and value is not None else value
    if isinstance(kind, list) and isinstance(value, list):
        return [_with_bytes(item, kind[0]) for item in value]
    if isinstance(kind, dict) and isinstance(value, dict):
        return {name: _with_bytes(item, kind[name]) for name, item in value.items()}
    return value


def _plain(value: object) -> object:
    """Return bytes as text, in base64 if they are none, and dates and the like as they are printed."""
    if not isinstance(value, bytes | bytearray):
        return str(value)
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return f"data:;base64,{base64.b64encode(value).decode()}"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    try:
        {"print": print_rows, "write": write_rows}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    except BrokenPipeError:
        sys.exit(1)
