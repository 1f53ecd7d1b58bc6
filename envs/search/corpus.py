"""Passages, and files of them in FlashRAG's form: one JSON object a line, {"id": ..., "contents": "\"Title\"\ntext"}.

Records {"id", "title", "text"} are read too. An error names the file and the line; with strict=False what is broken is
left out and counted.

Left out on purpose: ranking (`turnwise.tools.retrieval`), and corpora that do not fit into memory: those belong behind
a retrieval server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.envs.errors import GameFileError, NoGames, UnknownOption

__all__ = ["Corpus", "Passage", "read_records"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage; `score` is the retriever's, where one found it. A title keeps the quotes that its file has."""

    id: str
    title: str
    text: str
    score: float = 0.0

    @property
    def contents(self) -> str:
        """Title and text, as the file has them and as they are indexed."""
        return f"{self.title}\n{self.text}"


class Corpus(Mapping[str, Passage]):
    """Passages by id, in the order of their file."""

    def __init__(self, passages: Iterable[Passage], *, skipped: int = 0) -> None:
        """Keep passages.

        Args:
            passages: of different ids.
            skipped: how many records were left out before.

        Raises:
            UnknownOption: two passages have one id.
        """
        self._passages: dict[str, Passage] = {}
        self.skipped = skipped
        for passage in passages:
            if passage.id in self._passages:
                raise UnknownOption(f"two passages have the id {passage.id!r}: the id of a passage must be its own")
            self._passages[passage.id] = passage

    def __getitem__(self, id: str) -> Passage:
        """Return the passage of an id."""
        return self._passages[id]

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        return iter(self._passages)

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._passages)

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield (id, contents), as an index takes them."""
        return ((passage.id, passage.contents) for passage in self._passages.values())

    def title(self, id: str) -> str:
        """Return the title of a passage."""
        return self[id].title

    def text(self, id: str) -> str:
        """Return the text of a passage."""
        return self[id].text

    def records(self) -> Iterator[dict[str, str]]:
        """Yield the passages as records of FlashRAG's form."""
        return ({"id": passage.id, "contents": passage.contents} for passage in self._passages.values())

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, strict: bool = True) -> Corpus:
        """Return the passages of a file.

        Args:
            path: JSON lines.
            strict: stop at a record that is torn, has no id or no text, or repeats an id; else leave it out and count
                it in `skipped` (of a repeated id the first record stays).

        Raises:
            NoGames: there is no such file, or no passage in it.
            GameFileError: a record is broken (file, line, what).
        """
        found: dict[str, Passage] = {}
        skipped = 0
        for line, record in read_records(path, strict=strict):
            passage = None if record is None else _passage(record)
            problem = "no str or number 'id' with str 'contents' (or 'title' and 'text')" if passage is None else ""
            if passage is not None and passage.id in found:
                problem = f"the id {passage.id!r} a second time"
            if problem and strict:
                raise GameFileError(str(path), line, f"a record with {problem}", "strict=False leaves it out")
            if problem or passage is None:
                skipped += 1
            else:
                found[passage.id] = passage
        if not found:
            raise NoGames(f"no passages in {path}: each line is an object with 'id' and 'contents'")
        return cls(found.values(), skipped=skipped)


def read_records(path: str | os.PathLike[str], *, strict: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield line number and object of each line that is not blank; None for what is no object, where not strict.

    Raises:
        NoGames: the file cannot be opened.
        GameFileError: a line is torn, and strict.
    """
    try:
        with Path(path).open("rb") as file:
            for line, raw in enumerate(file, start=1):
                if not raw.strip():
                    continue
                record, problem = _parse(raw)
                if problem and strict:
                    raise GameFileError(str(path), line, problem, "strict=False leaves such lines out")
                yield line, record
    except (OSError, ValueError) as error:
        raise NoGames(f"{path} cannot be read: {error}") from error


def _parse(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    try:
        record = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return None, f"no JSON object: {error}"
    if not isinstance(record, dict):
        return None, f"no JSON object but {type(record).__name__}"
    return record, ""


def _passage(record: Mapping[str, Any]) -> Passage | None:
    name = record.get("id", record.get("_id"))
    if isinstance(name, bool) or not isinstance(name, str | int):
        return None
    contents = record.get("contents")
    if isinstance(contents, str) and contents.strip():
        title, _, text = contents.partition("\n")
        return Passage(_clean(str(name)), _clean(title), _clean(text))
    head, body = record.get("title"), record.get("text")
    if isinstance(head, str) and isinstance(body, str) and body.strip():
        return Passage(_clean(str(name)), _clean(f'"{head}"'), _clean(body))
    return None


def _clean(text: str) -> str:
    """Return a text without halves of characters, which JSON can hold and no file can."""
    return text if text.isascii() else text.encode(errors="replace").decode()
