"""Passages: texts with ids and titles, in memory or in a file of which only the places of the lines are kept.

The file is FlashRAG's: a JSON object a line, `{"id": "7", "contents": "\\"Title\\"\\nText"}`; the first line of the
contents is the title, which keeps its quotation marks. Rows with `title` and `text` in place of `contents` are read.
Of a file, 20 bytes a passage stay in memory: where its line begins and a hash of its id. It must not change meanwhile.

Left out on purpose: packed files, which cannot be read from the middle; and any change to the passages.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from turnwise.tools.retrieval.errors import BadCorpus

__all__ = ["Passage", "Passages"]

_SHOWN: Final = 100  # complaints that are kept; how many there were is counted on
_PACKED: Final = (b"\x1f\x8b", b"PK", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PAR1")


@dataclass(frozen=True, slots=True)
class Passage:
    r"""A text with an id and a title, and the score with which it was found.

    >>> passage = Passage.of("7", '"Tea"\nTea is a drink.')
    >>> passage.title, passage.name, passage.text
    ('"Tea"', 'Tea', 'Tea is a drink.')

    Args:
        id: what the corpus calls it.
        title: the first line of its contents, with the quotation marks that the corpus has there.
        text: the rest.
        score: what the retriever gave it; 0 outside of a search.
    """

    id: str
    title: str
    text: str
    score: float = 0.0

    @property
    def name(self) -> str:
        """Return the title without quotation marks around it."""
        return self.title.strip('"')

    @property
    def contents(self) -> str:
        """Return title and text as the corpus has them, and as they are indexed."""
        return f"{self.title}\n{self.text}" if self.text else self.title

    @classmethod
    def of(cls, id: str, contents: str) -> Passage:
        """Return the passage of some contents.

        Args:
            id: what the corpus calls it.
            contents: the title, a line break, the text.
        """
        title, _, text = contents.partition("\n")
        return cls(id, title, text)


class Passages(Mapping[str, Passage]):
    """Many passages by their ids, in a fixed order.

    >>> passages = Passages.of([("1", '"Tea"\\nTea is a drink.'), ("2", '"Rye"\\nRye is a grass.')])
    >>> passages.title("2"), passages.text("2"), len(passages), "3" in passages
    ('"Rye"', 'Rye is a grass.', 2, False)

    Attributes:
        skipped: how many lines or passages were left out, because they could not be read or had an id for the second
            time.
        complaints: a sentence about each of the first hundred of them.
        fingerprint: 32 hexadecimal digits; equal for the same ids and contents in the same order.
    """

    skipped: int
    complaints: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(cls, passages: Iterable[Passage | tuple[str, str]], *, strict: bool = True) -> Passages:
        """Return passages that are kept in memory.

        Args:
            passages: passages, or pairs (id, contents).
            strict: raise at an id that comes a second time; else keep the first and count the others.

        Raises:
            BadCorpus: something is no passage; two have one id (strict); there is none.
        """
        return _InMemory(passages, strict=strict)

    @classmethod
    def open(cls, path: str | PathLike[str], *, strict: bool = True) -> Passages:
        """Return the passages of a file, which is read through once and stays open.

        Args:
            path: JSON lines in FlashRAG's form; empty lines count for nothing.
            strict: raise at the first torn line or second use of an id; else leave it out and count it.

        Raises:
            BadCorpus: the file cannot be read, a line is torn or has an id of before (strict), or no passage is in it.
        """
        return _InFile(Path(path), strict=strict)

    def __getitem__(self, id: str) -> Passage:
        """Return a passage.

        Raises:
            KeyError: there is none of that id.
        """
        contents = self._contents(id) if isinstance(id, str) else None
        if contents is None:
            raise KeyError(id)
        return Passage.of(id, contents)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids in order."""
        return (id for id, _ in self.documents())

    def title(self, id: str) -> str:
        """Return the title of a passage, as it stands.

        Raises:
            KeyError: there is none of that id.
        """
        return self[id].title

    def text(self, id: str) -> str:
        """Return the text of a passage, without its title.

        Raises:
            KeyError: there is none of that id.
        """
        return self[id].text

    def records(self) -> Iterator[dict[str, str]]:
        """Yield the passages as rows of FlashRAG's form."""
        return ({"id": id, "contents": contents} for id, contents in self.documents())

    @abstractmethod
    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield pairs (id, contents) in order: what an index is built of."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def _contents(self, id: str) -> str | None:
        """Return the contents of a passage, or None if there is none of that id."""


class _Log:
    """What was left out, or the end of it all if nothing may be."""

    def __init__(self, strict: bool) -> None:
        self.strict, self.count, self.sentences = strict, 0, list[str]()

    def complain(self, sentence: str) -> None:
        if self.strict:
            raise BadCorpus(f"{sentence}; strict=False leaves such lines out")
        self.count += 1
        if self.count <= _SHOWN:
            self.sentences.append(sentence)


class _InMemory(Passages):
    """A dictionary."""

    def __init__(self, passages: Iterable[Passage | tuple[str, str]], *, strict: bool) -> None:
        if isinstance(passages, str | bytes) or not isinstance(passages, Iterable):
            raise BadCorpus(f"passages must be an iterable of pairs (id, contents); came {type(passages).__name__}")
        self._all: dict[str, str] = {}
        log, mark = _Log(strict), blake2b(digest_size=16)
        for number, passage in enumerate(passages):
            id, contents = _pair(passage, number)
            if id in self._all:
                log.complain(f"passage {number}, from 0, has the id {id!r} of one before it")
                continue
            self._all[id] = contents
            _add(mark, id, contents)
        if not self._all:
            raise BadCorpus("there is no passage; at least one is needed")
        self.skipped, self.complaints, self.fingerprint = log.count, tuple(log.sentences), mark.hexdigest()

    def __len__(self) -> int:
        return len(self._all)

    def documents(self) -> Iterator[tuple[str, str]]:
        return iter(self._all.items())

    def _contents(self, id: str) -> str | None:
        return self._all.get(id)


class _InFile(Passages):
    """The places of lines, in the order of the file, and hashes of ids, ascending, each with the number of its line."""

    def __init__(self, path: Path, *, strict: bool) -> None:
        self._path, self._strict = path, strict
        self._file = _opened(path)
        log, mark = _Log(strict), blake2b(digest_size=16)
        starts, hashes = self._scan(log, mark)
        order: NDArray[np.int64] = np.argsort(hashes, kind="stable")
        good = self._without_repeats(starts, hashes, order, log)
        if good is not None:  # only once something was left out: line numbers move, and the fingerprint too
            starts, hashes = starts[good], hashes[good]
            order = np.argsort(hashes, kind="stable")
        if not len(starts):
            raise BadCorpus(f"{path} holds no passage; it needs lines such as {_EXAMPLE}")
        small = len(order) < 2**31
        self._starts, self._hashes = starts, hashes[order]
        self._order: NDArray[np.integer[Any]] = order.astype(np.int32) if small else order
        self.skipped, self.complaints = log.count, tuple(log.sentences)
        if good is not None:
            mark = blake2b(digest_size=16)
            for id, contents in self.documents():
                _add(mark, id, contents)
        self.fingerprint = mark.hexdigest()

    def _scan(self, log: _Log, mark: blake2b) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return where each good line starts, int64 [n], and the hash of its id, uint64 [n]."""
        starts, hashes, place = array("q"), array("Q"), 0
        try:
            for number, line in enumerate(self._file, 1):
                start, place = place, place + len(line)
                if not line.strip():
                    continue
                try:
                    id, contents = _row(line)
                except ValueError as error:
                    log.complain(f"{self._path}, line {number}: {error}")
                    continue
                starts.append(start)
                hashes.append(_hash(id))
                _add(mark, id, contents)
        except OSError as error:
            raise BadCorpus(f"{self._path} cannot be read: {error.strerror or error}") from error
        self._end = place
        return np.frombuffer(starts, dtype=np.int64) if starts else np.zeros(0, np.int64), (
            np.frombuffer(hashes, dtype=np.uint64) if hashes else np.zeros(0, np.uint64)
        )

    def _without_repeats(
        self, starts: NDArray[np.int64], hashes: NDArray[np.uint64], order: NDArray[np.int64], log: _Log
    ) -> NDArray[np.bool_] | None:
        """Return which lines to keep, bool [n], the first of those with one id; None: all."""
        ascending = hashes[order]
        suspects = np.flatnonzero(ascending[1:] == ascending[:-1])
        repeats: list[tuple[int, int]] = []
        seen: dict[str, int] = {}
        for row in sorted({int(order[place + step]) for place in suspects.tolist() for step in (0, 1)}):
            id = self._read(int(starts[row]))[0]
            if id in seen:
                repeats.append((row, seen[id]))
            else:
                seen[id] = row
        for row, first in repeats:
            id = self._read(int(starts[row]))[0]
            lines = self._line_number(int(starts[row])), self._line_number(int(starts[first]))
            log.complain(f"{self._path}, line {lines[0]}: the id {id!r} is that of line {lines[1]}")
        keep = np.ones(len(starts), dtype=np.bool_)
        keep[[row for row, _ in repeats]] = False
        return keep if repeats or log.count else None

    def _line_number(self, start: int) -> int:
        """Return the number of the line that starts there, from 1; only complaints need it."""
        count, place, file = 1, 0, self._file.fileno()
        while place < start:
            piece = os.pread(file, min(1 << 20, start - place), place)
            count, place = count + piece.count(b"\n"), place + (len(piece) or start)
        return count

    def _read(self, start: int) -> tuple[str, str]:
        """Return id and contents of the line that starts there; threads and forks may do so at once."""
        line, step = b"", 4096
        while b"\n" not in line and start + len(line) < self._end:
            piece = os.pread(self._file.fileno(), step, start + len(line))
            if not piece:
                break
            line, step = line + piece, step * 2
        try:
            return _row(line.partition(b"\n")[0])
        except ValueError as error:
            raise BadCorpus(f"{self._path} has changed since it was opened: {error}") from error

    def __len__(self) -> int:
        return len(self._starts)

    def documents(self) -> Iterator[tuple[str, str]]:
        return (self._read(int(start)) for start in self._starts)

    def _contents(self, id: str) -> str | None:
        wanted = np.uint64(_hash(_clean(id)))
        place = int(np.searchsorted(self._hashes, wanted))
        while place < len(self._hashes) and self._hashes[place] == wanted:
            found, contents = self._read(int(self._starts[self._order[place]]))
            if found == id:
                return contents
            place += 1
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as the path: what is there is read again."""
        return _reopened, (str(self._path), self._strict)


_EXAMPLE: Final = r'{"id": "7", "contents": "\"Title\"\nText"}'


def _reopened(path: str, strict: bool) -> Passages:
    return Passages.open(path, strict=strict)


def _opened(path: Path) -> BinaryIO:
    """Return the file, open, or say why it cannot be read."""
    if path.is_dir():
        raise BadCorpus(f"{path} is a folder; a corpus is a file of JSON lines such as {_EXAMPLE}")
    try:
        file = path.open("rb")
        head = file.peek(8)
    except OSError as error:
        raise BadCorpus(f"{path} cannot be read: {error.strerror or error}") from error
    if head.startswith(_PACKED):
        file.close()
        raise BadCorpus(f"{path} is packed; unpack it into a file of JSON lines first")
    return file


def _row(line: bytes) -> tuple[str, str]:
    """Return id and contents of a line; ValueError says what is wrong with it."""
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 ({error.reason} at byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        said = getattr(error, "msg", None) or "nested too deeply"
        raise ValueError(f"no JSON ({said}): {line[:60]!r}") from error
    if not isinstance(row, dict):
        raise ValueError(f"a passage is a JSON object such as {_EXAMPLE}; came {type(row).__name__}")
    id, contents = row.get("id", row.get("_id")), row.get("contents")
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if contents is None and isinstance(row.get("title"), str) and isinstance(row.get("text"), str):
        contents = f'"{" ".join(row["title"].splitlines())}"\n{row["text"]}'
    if not isinstance(id, str) or not isinstance(contents, str):
        name, value = ("contents", contents) if isinstance(id, str) else ("id", id)
        came = "nothing" if value is None else type(value).__name__
        raise ValueError(f"{name!r} must be a str; came {came}")
    if not contents.strip():
        raise ValueError("'contents' is empty")
    return _clean(id), _clean(contents)


def _clean(text: str) -> str:
    """Return a text without halves of characters, which JSON can hold and no file or answer can."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _pair(passage: object, number: int) -> tuple[str, str]:
    """Return id and contents of what should be a passage."""
    if isinstance(passage, Passage):
        return _clean(passage.id), _clean(passage.contents)
    if isinstance(passage, tuple | list) and len(passage) == 2 and all(isinstance(part, str) for part in passage):
        return _clean(passage[0]), _clean(passage[1])
    raise BadCorpus(f"passage {number}, from 0, must be a Passage or a pair (id, contents); came {passage!r:.80}")


def _hash(id: str) -> int:
    """Return 64 bits of an id, the same in every process."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "little")


def _add(mark: blake2b, id: str, contents: str) -> None:
    """Add a passage to a fingerprint; lengths keep neighbours apart."""
    for part in (id.encode(), contents.encode()):
        mark.update(len(part).to_bytes(8, "little"))
        mark.update(part)


def scored(passages: Passages, id: str, score: float) -> Passage:
    """Return a passage that a retriever found.

    Raises:
        BadCorpus: the retriever knows an id that the passages do not have.
    """
    found = passages.get(id)
    if found is None:
        raise BadCorpus(f"the retriever found {id!r}, which the passages do not hold: they are of another corpus")
    return replace(found, score=score)
