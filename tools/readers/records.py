"""Reads files of records: JSON lines, one JSON list, CSV, TSV and Parquet; compressed ones too, except Parquet.

The container is told by the beginning of the content, and where that leaves a choice by the suffix. Everything goes
through `turncredit.tools.bounded_input`, so that lines, depth and decompressed bytes are limited.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from turncredit.tools.bounded_input import (
    MAX_FILE,
    MAX_LINE,
    DecodedFile,
    InputError,
    compression_of,
    parse_json,
    read_json,
    split_lines,
)
from turncredit.tools.readers.formats import Fields
from turncredit.tools.readers.parquet_process import parquet_lines

__all__ = ["CONTAINERS", "Record", "container_of", "parse_record", "read_records"]

CONTAINERS: Final = "JSON lines, one JSON list, CSV and TSV (plain, or compressed with gzip, zstd or xz), and Parquet"
"""What is read, for messages."""

_HEAD: Final = 1 << 16
"""Decoded bytes by which the container is told."""

_FOREIGN: Final = {
    b"PK\x03\x04": "a ZIP archive",
    b"BZh": "compressed with bzip2",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"7z\xbc\xaf": "a 7z archive",
    b"SQLite format 3": "an SQLite database",
    b"ARROW1": "Arrow IPC",
    b"\xff\xff\xff\xff": "an Arrow stream",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself",
    b"<!DOCTYPE": "HTML",
    b"<!doctype": "HTML",
    b"<html": "HTML",
    b"<?xml": "XML",
}
_COMPRESSED: Final = (".gz", ".zst", ".xz")
_LISTS: Final = ("data", "Data", "questions", "examples", "records", "rows", "instances", "items")
"""Keys under which an object holds the list of its records."""

_HEADERS: Final = frozenset(
    (
        *("id", "_id", "docid", "doc_id", "pid", "qid", "query-id", "corpus-id", "passage_id"),
        *("title", "text", "contents", "content", "passage"),
        *("question", "query", "answer", "answers", "golden_answers"),
        *("prompt", "messages", "conversations", "test", "tests", "statement"),
    )
)
"""Names of columns that tell a first row of TSV as a header."""

_NULL: Final = re.compile(rb"\x00")


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a file.

    Attributes:
        number: its line from 1; its position from 1 where records are no lines.
        fields: its keys and values, without those that are null or an empty cell; {} if it cannot be read.
        problem: why it cannot be read; "" if it can.
        listed: whether the number is a position, and not a line.
    """

    number: int
    fields: Fields
    problem: str = ""
    listed: bool = False

    @property
    def line(self) -> int | None:
        """Its line; None where records are no lines."""
        return None if self.listed else self.number

    @property
    def prefix(self) -> str:
        """Text before a problem where records are no lines: "record 3: "; else ""."""
        return f"record {self.number}: " if self.listed else ""


def read_records(path: str | Path, *, max_line: int = MAX_LINE, max_bytes: int | None = MAX_FILE) -> Iterator[Record]:
    """Yield the records of a file in order; one that cannot be read is yielded with its problem.

    Args:
        path: the file.
        max_line: bytes of a line, or of a row of Parquet as JSON.
        max_bytes: bytes of the whole file, after decompression; None for no limit.

    Raises:
        InputError: the file has another container, is damaged, or exceeds a limit.
        OSError: it cannot be read.
    """
    path = Path(path)
    container = container_of(path)
    if container == "parquet":
        for row in _from_lines(parquet_lines(path, max_line=max_line, max_bytes=max_bytes)):
            yield replace(row, listed=True)
    elif container == "json":
        yield from _from_document(read_json(path, max_bytes=max_bytes or MAX_FILE))
    else:
        file = DecodedFile(path, max_bytes=max_bytes)
        lines = split_lines(file, max_line=max_line, label=str(path))
        if container == "jsonl":
            yield from _from_lines(lines)
        else:
            yield from {"csv": _from_csv, "tsv": _from_tsv}[container](_texts(lines, path))
        if file.unfinished:
            raise InputError(f"{path}: the compressed data ends in the middle")


def container_of(path: Path) -> str:
    """Return the container of a file: "jsonl", "json", "csv", "tsv" or "parquet".

    Raises:
        InputError: it has another one; names it, and what is read.
        OSError: the file cannot be read.
    """
    if path.is_dir():
        inside = sorted(entry.name for entry in path.iterdir() if entry.is_file())[:5]
        raise InputError(f"{path} is a directory; name a file" + (f" in it: {', '.join(inside)}" if inside else ""))
    head = _head(path)
    if head.startswith(b"PAR1"):
        if compression_of(path):
            raise InputError(f"{path} is Parquet inside of another compression; decompress it first")
        return "parquet"
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for mark, name in _FOREIGN.items():
        if head.startswith(mark):
            raise InputError(f"{path} is {name}; turncredit reads {CONTAINERS}")
    if _NULL.search(head):
        raise InputError(f"{path} is binary data of an unknown format; turncredit reads {CONTAINERS}")
    return _text_container(path, head)


def _head(path: Path) -> bytes:
    """Return the first decoded bytes of a file."""
    head = b""
    for block in DecodedFile(path):
        head += block
        if len(head) >= _HEAD:
            break
    return head


def _text_container(path: Path, head: bytes) -> str:
    if head.startswith(b"["):
        return "json"
    if head.startswith(b"{"):
        return "jsonl" if _parses(head.split(b"\n")[0]) or not _is_document(path) else "json"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _COMPRESSED]
    last = suffixes[-1] if suffixes else ""
    if last in (".csv", ".tsv"):
        return last[1:]
    return "tsv" if b"\t" in head.split(b"\n")[0] and not last.startswith(".json") else "jsonl"


def _parses(line: bytes) -> bool:
    if len(line) >= _HEAD:
        return True  # the line goes on
    try:
        parse_json(line, "a line")
    except InputError:
        return False
    return True


def _is_document(path: Path) -> bool:
    """Whether a file whose first line is not JSON is JSON as a whole, rather than damaged JSON lines."""
    try:
        read_json(path, max_bytes=MAX_LINE)
    except InputError:
        return False
    return True


def parse_record(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line.

    Raises:
        InputError: the line is no JSON object; the message continues "FILE, line 3: ".
    """
    try:
        value = parse_json(line, "it")
    except InputError as error:
        try:
            line.decode("utf-8-sig", errors="surrogatepass")
        except UnicodeDecodeError as reason:
            raise InputError(f"not valid UTF-8 ({reason.reason} at byte {reason.start})") from error
        cause = getattr(error.__cause__, "msg", None)
        raise InputError(f"not valid JSON ({cause}): {line[:60]!r}" if cause else str(error)) from error
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _from_lines(lines: Iterator[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Record(number, _without_nulls(parse_record(line)))
        except InputError as error:
            yield Record(number, {}, str(error))


def _from_document(value: Any) -> Iterator[Record]:
    if isinstance(value, dict):
        lists = [value[key] for key in _LISTS if isinstance(value.get(key), list)]
        value = lists[0] if lists and all(isinstance(item, dict) for item in lists[0]) else [value]
    for number, item in enumerate(value, 1):
        if isinstance(item, dict):
            yield Record(number, _without_nulls(item), listed=True)
        else:
            yield Record(number, {}, f"expected a JSON object, got {type(item).__name__}", listed=True)


def _texts(lines: Iterator[bytes], path: Path) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, line {number}: not valid UTF-8 ({error.reason})") from error


def _from_csv(lines: Iterator[str]) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE)  # of the whole process; the lines are limited before
    rows = csv.reader((f"{line}\n" for line in lines), strict=True)
    header: list[str] | None = None
    while True:
        number = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Record(number, {}, f"not valid CSV ({error})")
            continue
        if header is None:
            header = [name.strip() for name in cells]
        elif any(cells):
            yield _row(number, header, cells)


def _from_tsv(lines: Iterator[str]) -> Iterator[Record]:
    """Yield the rows of a table whose cells have neither tabs nor line breaks, quoted or not.

    Without a header, the columns are named "column 1", "column 2" and so on.
    """
    header: list[str] | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = [_unquoted(cell) for cell in line.split("\t")]
        if header is None:
            names = [cell.strip() for cell in cells]
            titled = any(name.lower() in _HEADERS for name in names)
            header = names if titled else [f"column {column}" for column in range(1, len(cells) + 1)]
            if titled:
                continue
        yield _row(number, header, cells)


def _unquoted(cell: str) -> str:
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell


def _row(number: int, header: list[str], cells: list[str]) -> Record:
    if len(cells) > len(header):
        return Record(number, {}, f"the row has {len(cells)} cells, the header {len(header)}")
    return Record(number, {name: cell for name, cell in zip(header, cells, strict=False) if cell})


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value is not None}
