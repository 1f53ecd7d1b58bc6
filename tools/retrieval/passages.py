"""Passages: texts with ids and titles, in memory or in a file.

The native file format is FlashRAG's: one JSON object per line, `{"id": "7", "contents": "\\"Title\\"\\nText"}`. The
first line of the contents is the title, including its quotation marks. `corpus_formats` names the others. For a file,
20 bytes per passage stay in memory: the offset of its line and a hash of its id. JSON lines are read in place, and the
file must not change while it is in use; compressed files, JSON lists, CSV, TSV and Parquet are first copied to an
unnamed temporary file of JSON lines.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from turncredit.tools.bounded_input import InputError, compression_of, open_file
from turncredit.tools.readers import container_of, parse_record, read_records
from turncredit.tools.retrieval.corpus_formats import CORPUS_FORMATS
from turncredit.tools.retrieval.errors import BadCorpus

__all__ = ["Passage", "Passages"]

_MAX_COMPLAINTS: Final = 100
_MAX_PASSAGE: Final = 16 << 20
"""Bytes of a passage as JSON."""


@dataclass(frozen=True, slots=True)
class Passage:
    r"""A text with an id and a title.

    >>> passage = Passage.of("7", '"Tea"\nTea is a drink.')
    >>> passage.title, passage.name, passage.text
    ('"Tea"', 'Tea', 'Tea is a drink.')

    Args:
        id: id in the corpus.
        title: first line of the contents, with its quotation marks.
        text: the other lines.
        score: score of a search result; otherwise 0.
    """

    id: str
    title: str
    text: str
    score: float = 0.0

    @property
    def name(self) -> str:
        """The title without surrounding quotation marks."""
        return self.title.strip('"')

    @property
    def contents(self) -> str:
        """Title and text as in the corpus; this is what is indexed."""
        return f"{self.title}\n{self.text}" if self.text else self.title

    @classmethod
    def of(cls, id: str, contents: str) -> Passage:
        """Create a passage.

        Args:
            id: id in the corpus.
            contents: title, line break, text.
        """
        title, _, text = contents.partition("\n")
        return cls(id, title, text)


class Passages(Mapping[str, Passage]):
    """Passages by id, in a fixed order.

    >>> passages = Passages.of([("1", '"Tea"\\nTea is a drink.'), ("2", '"Rye"\\nRye is a grass.')])
    >>> passages.title("2"), passages.text("2"), len(passages), "3" in passages
    ('"Rye"', 'Rye is a grass.', 2, False)

    Attributes:
        skipped: number of lines or passages that were skipped as unreadable or duplicates.
        complaints: a message for each of the first 100 of them.
        fingerprint: hash of ids and contents in order, 32 hexadecimal digits.
    """

    skipped: int
    complaints: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(cls, passages: Iterable[Passage | tuple[str, str]], *, strict: bool = True) -> Passages:
        """Create passages in memory.

        Args:
            passages: passages, or pairs (id, contents).
            strict: raise if an id is used twice; otherwise skip the second passage.

        Raises:
            BadCorpus: an item is not a passage, an id is used twice (if strict), or there is no passage.
        """
        return _MemoryPassages(passages, strict=strict)

    @classmethod
    def open(cls, path: str | PathLike[str], *, strict: bool = True) -> Passages:
        """Open a file of passages; it is read once and stays open.

        Args:
            path: JSON lines, a JSON list, CSV, TSV or Parquet, in one of `corpus_formats`; empty lines are ignored.
            strict: raise at the first invalid line or duplicate id; otherwise skip it.

        Raises:
            BadCorpus: the file cannot be read, has an invalid line or duplicate id (if strict), or has no passage.
        """
        return _FilePassages(Path(path), strict=strict)

    def __getitem__(self, id: str) -> Passage:
        """Return a passage.

        Raises:
            KeyError: no passage has that id.
        """
        contents = self._contents(id) if isinstance(id, str) else None
        if contents is None:
            raise KeyError(id)
        return Passage.of(id, contents)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids in order."""
        return (id for id, _ in self.documents())

    def title(self, id: str) -> str:
        """Return the title of a passage, with its quotation marks.

        Raises:
            KeyError: no passage has that id.
        """
        return self[id].title

    def text(self, id: str) -> str:
        """Return the text of a passage, without its title.

        Raises:
            KeyError: no passage has that id.
        """
        return self[id].text

    def records(self) -> Iterator[dict[str, str]]:
        """Yield the passages as rows in FlashRAG's format."""
        return ({"id": id, "contents": contents} for id, contents in self.documents())

    @abstractmethod
    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield pairs (id, contents) in order, to build an index of."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of passages."""

    @abstractmethod
    def _contents(self, id: str) -> str | None:
        """Return the contents of a passage; None if no passage has that id."""


class _SkipLog:
    """Records skipped passages; if strict, raises instead."""

    def __init__(self, strict: bool) -> None:
        self.strict, self.count, self.messages = strict, 0, list[str]()

    def skip(self, message: str) -> None:
        if self.strict:
            raise BadCorpus(f"{message}; strict=False skips such lines")
        self.count += 1
        if self.count <= _MAX_COMPLAINTS:
            self.messages.append(message)


class _MemoryPassages(Passages):
    """Passages in a dictionary."""

    def __init__(self, passages: Iterable[Passage | tuple[str, str]], *, strict: bool) -> None:
        if isinstance(passages, str | bytes) or not isinstance(passages, Iterable):
            raise BadCorpus(f"passages must be an iterable of pairs (id, contents), got {type(passages).__name__}")
        self._all: dict[str, str] = {}
        log, hasher = _SkipLog(strict), blake2b(digest_size=16)
        for number, passage in enumerate(passages):
            id, contents = _pair(passage, number)
            if id in self._all:
                log.skip(f"passages[{number}] has the id {id!r} of an earlier passage")
                continue
            self._all[id] = contents
            _add(hasher, id, contents)
        if not self._all:
            raise BadCorpus("passages must contain at least one passage, got none")
        self.skipped, self.complaints, self.fingerprint = log.count, tuple(log.messages), hasher.hexdigest()

    def __len__(self) -> int:
        return len(self._all)

    def documents(self) -> Iterator[tuple[str, str]]:
        return iter(self._all.items())

    def _contents(self, id: str) -> str | None:
        return self._all.get(id)


class _FilePassages(Passages):
    """Passages in a file: offsets of lines in file order, and sorted hashes of ids, each with the row of its line."""

    def __init__(self, path: Path, *, strict: bool) -> None:
        self._path, self._strict = path, strict
        log, hasher = _SkipLog(strict), blake2b(digest_size=16)
        self._file = _opened(path, log)
        starts, hashes = self._scan(log, hasher)
        order: NDArray[np.int64] = np.argsort(hashes, kind="stable")
        keep = self._first_occurrences(starts, hashes, order, log)
        if keep is not None:
            starts, hashes = starts[keep], hashes[keep]
            order = np.argsort(hashes, kind="stable")
        if not len(starts):
            raise BadCorpus(f"{path} has no passages; it needs lines such as {_EXAMPLE}")
        small = len(order) < 2**31
        self._starts, self._hashes = starts, hashes[order]
        self._order: NDArray[np.integer[Any]] = order.astype(np.int32) if small else order
        self.skipped, self.complaints = log.count, tuple(log.messages)
        if keep is not None:  # the fingerprint covers only what is kept
            hasher = blake2b(digest_size=16)
            for id, contents in self.documents():
                _add(hasher, id, contents)
        self.fingerprint = hasher.hexdigest()

    def _scan(self, log: _SkipLog, hasher: blake2b) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the offset of each valid line, int64 [n], and the hash of its id, uint64 [n]."""
        starts, hashes, at = array("q"), array("Q"), 0
        try:
            for number, line in enumerate(iter(partial(self._file.readline, _MAX_PASSAGE + 1), b""), 1):
                start, at = at, at + len(line)
                if len(line) > _MAX_PASSAGE:
                    raise BadCorpus(
                        f"{self._path}, line {number}: more than {_MAX_PASSAGE:,} bytes, the most of a passage"
                    )
                if not line.strip():
                    continue
                try:
                    id, contents = _row(line)
                except ValueError as error:
                    log.skip(f"{self._path}, line {number}: {error}")
                    continue
                starts.append(start)
                hashes.append(_hash(id))
                _add(hasher, id, contents)
        except OSError as error:
            raise BadCorpus(f"the corpus {self._path} cannot be read: {error.strerror or error}") from error
        self._end = at
        return np.array(starts, dtype=np.int64), np.array(hashes, dtype=np.uint64)

    def _first_occurrences(
        self, starts: NDArray[np.int64], hashes: NDArray[np.uint64], order: NDArray[np.int64], log: _SkipLog
    ) -> NDArray[np.bool_] | None:
        """Return which lines to keep, bool [n], without duplicate ids; None if nothing was skipped."""
        ascending = hashes[order]
        suspects = np.flatnonzero(ascending[1:] == ascending[:-1])
        repeats: list[tuple[int, int]] = []
        seen: dict[str, int] = {}
        for row in sorted({int(order[position + step]) for position in suspects.tolist() for step in (0, 1)}):
            id = self._read(int(starts[row]))[0]
            if id in seen:
                repeats.append((row, seen[id]))
            else:
                seen[id] = row
        for row, first in repeats:
            id = self._read(int(starts[row]))[0]
            lines = self._line_number(int(starts[row])), self._line_number(int(starts[first]))
            log.skip(f"{self._path}, line {lines[0]}: the id {id!r} is already used in line {lines[1]}")
        keep = np.ones(len(starts), dtype=np.bool_)
        keep[[row for row, _ in repeats]] = False
        return keep if repeats or log.count else None

    def _line_number(self, start: int) -> int:
        """Return the number of the line at an offset, from 1, for messages."""
        count, at, file = 1, 0, self._file.fileno()
        while at < start:
            piece = os.pread(file, min(1 << 20, start - at), at)
            count, at = count + piece.count(b"\n"), at + (len(piece) or start)
        return count

    def _read(self, start: int) -> tuple[str, str]:
        """Return id and contents of the line at an offset; safe for concurrent threads and forked processes."""
        line, step = b"", 4096
        while b"\n" not in line and start + len(line) < self._end:
            piece = os.pread(self._file.fileno(), step, start + len(line))
            if not piece:
                break
            line, step = line + piece, step * 2
        try:
            return _row(line.partition(b"\n")[0])
        except ValueError as error:
            raise BadCorpus(f"{self._path} was changed after it was opened: {error}") from error

    def __len__(self) -> int:
        return len(self._starts)

    def documents(self) -> Iterator[tuple[str, str]]:
        return (self._read(int(start)) for start in self._starts)

    def _contents(self, id: str) -> str | None:
        hashed = np.uint64(_hash(_clean(id)))
        position = int(np.searchsorted(self._hashes, hashed))
        while position < len(self._hashes) and self._hashes[position] == hashed:
            stored_id, contents = self._read(int(self._starts[self._order[position]]))
            if stored_id == id:
                return contents
            position += 1
        return None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the path; the file is read again."""
        return _reopened, (str(self._path), self._strict)


_EXAMPLE: Final = r'{"id": "7", "contents": "\"Title\"\nText"}'


def _reopened(path: str, strict: bool) -> Passages:
    return Passages.open(path, strict=strict)


def _opened(path: Path, log: _SkipLog) -> BinaryIO:
    """Open a file of passages as JSON lines: the file itself, or a temporary copy of its passages.

    Raises:
        BadCorpus: it is a directory, has another container, or cannot be read.
    """
    try:
        if container_of(path) == "jsonl" and compression_of(path) is None:
            return open_file(path)
        return _copied(path, log)
    except InputError as error:
        raise BadCorpus(str(error)) from error
    except OSError as error:
        raise BadCorpus(f"the corpus {path} cannot be read: {error.strerror or error}") from error


def _copied(path: Path, log: _SkipLog) -> BinaryIO:
    """Return an unnamed file with the passages of another; each has the number of its line there."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the passages
    room = shutil.disk_usage(tempfile.gettempdir()).free // 2
    written = 0
    for record in read_records(path, max_line=_MAX_PASSAGE, max_bytes=room):
        try:
            if record.problem:
                raise InputError(record.problem)
            id, contents = CORPUS_FORMATS.read(record.fields, "")
        except InputError as error:
            log.skip(f"{path}, {record.prefix or f'line {record.number}: '}{error}")
            continue
        row = json.dumps({"id": id, "contents": contents}).encode()
        copy.write(b"\n" * (record.number - written - 1) + row + b"\n")
        written = record.number
    copy.seek(0)
    return copy


def _row(line: bytes) -> tuple[str, str]:
    """Return id and contents of a line.

    Raises:
        InputError: the line is not a passage.
    """
    fields = {key: value for key, value in parse_record(line).items() if value is not None}
    id, contents = CORPUS_FORMATS.read(fields, "")
    return _clean(id), _clean(contents)


def _clean(text: str) -> str:
    """Return a text with lone surrogates replaced, which JSON can contain but UTF-8 cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _pair(passage: object, number: int) -> tuple[str, str]:
    """Return id and contents of a passage or pair."""
    if isinstance(passage, Passage):
        return _clean(passage.id), _clean(passage.contents)
    if isinstance(passage, tuple | list) and len(passage) == 2 and all(isinstance(part, str) for part in passage):
        return _clean(passage[0]), _clean(passage[1])
    raise BadCorpus(f"passages[{number}] must be a Passage or a pair (id, contents), got {passage!r:.80}")


def _hash(id: str) -> int:
    """Return a 64-bit hash of an id that is the same in every process."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "little")


def _add(hasher: blake2b, id: str, contents: str) -> None:
    """Add a passage to a fingerprint; lengths separate the parts."""
    for part in (id.encode(), contents.encode()):
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
