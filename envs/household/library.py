"""Libraries of games: the splits of a folder or packed file, with games by task id.

Opening a library creates or finds a disk cache with one small record per game; `get` reads a record and compiles it.
Only the index and the most recent games are kept in memory.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import secrets
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from turncredit.envs.caching import cache_folder
from turncredit.envs.errors import GameFileError, NoGames, SkippedGames, UnknownOption, UnknownTask
from turncredit.envs.household.game import Game, compile_game
from turncredit.envs.household.game_files import UNMARKED, GameFolder, GameRecord, PackedGames, left_out, source_at
from turncredit.envs.household.grammar import Grammar, read_grammar
from turncredit.envs.household.level import TASK_TYPES
from turncredit.envs.household.pddl import Domain, read_domain
from turncredit.envs.household.record_file import RecordFile, open_records, write_records
from turncredit.registry import suggest

_FORMAT = 2  # version of the records; increase it when they change
_KEPT = 128  # compiled games in memory


class GameLibrary:
    """The games of a folder or packed file; use `GameLibrary.open`."""

    def __init__(self, path: Path, store: RecordFile) -> None:
        self.path = path
        self._store = store
        self._numbers: dict[str, int] = {meta[0]: number for number, (meta, _, _) in enumerate(store.entries)}
        self._ids = sorted(self._numbers)
        self._kept: OrderedDict[tuple[str, int | None], Game] = OrderedDict()
        self._domains: dict[int, Domain] = {}
        self._grammars: dict[int, Grammar] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, cache: bool = True) -> GameLibrary:
        """Return the library at a path; libraries are shared within the process.

        Args:
            path: a folder of original files, or one of its splits, tasks or trials; an original file; a packed file,
                or a folder with one.
            cache: use the disk cache (see `cache_folder`).

        Raises:
            NoGames: there are no games at the path.
            GameFileError: a file is damaged or invalid.

        Warns:
            SkippedGames: some games lack the key that tells whether they can be solved.
        """
        folder = Path(path).expanduser().resolve()
        stamp = (str(folder), folder.stat().st_mtime_ns if folder.exists() else 0, str(cache_folder()) if cache else "")
        shared = _open.get(stamp)
        if shared is None:
            shared = _open[stamp] = cls._read(folder, cache)
        return shared

    @classmethod
    def _read(cls, folder: Path, cache: bool) -> GameLibrary:
        source = source_at(folder)
        name = hashlib.blake2b(str(source.place).encode(), digest_size=8).hexdigest()
        file = cache_folder() / f"household-{name}.games"
        key = f"{_FORMAT} {_version()} {source.key()}"
        store = open_records(file, key) if cache else None
        if store is None:
            head: dict[str, Any] = {"domains": [], "grammars": []}
            store = write_records(file if cache else Path(os.devnull) / "none", key, _compact(source, head), head)
        library = cls(folder, store)
        if not store.entries:
            raise NoGames(f"no playable games in {folder}: {left_out(library.skipped, 0) or 'it is empty'}")
        _warn_of_unmarked(folder, library.skipped, len(library))
        return library

    @property
    def skipped(self) -> dict[str, int]:
        """How many games are left out, by the reason."""
        return dict(self._store.head["skipped"])

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits with games, in the order train, valid_seen, valid_unseen, others."""
        standard = ("train", "valid_seen", "valid_unseen")
        splits = {id.split("/", 1)[0] for id in self._ids}
        return (*(name for name in standard if name in splits), *sorted(splits - set(standard)))

    def ids(self, split: str | None = None, task_types: Sequence[str] | None = None) -> list[str]:
        """Return task ids, sorted.

        Args:
            split: only of this split.
            task_types: only of these task types.

        Raises:
            UnknownOption: there is no such split or task type.
        """
        if split is not None and split not in self.splits:
            raise UnknownOption(f"unknown split {split!r} in {self.path}{suggest(split, self.splits)}")
        types = None if task_types is None else _known_types(task_types)
        return [
            id
            for id in self._ids
            if (split is None or id.startswith(split + "/")) and (types is None or self.task_type(id) in types)
        ]

    def __contains__(self, id: object) -> bool:
        return id in self._numbers

    def __len__(self) -> int:
        return len(self._ids)

    def task_type(self, id: str) -> str | None:
        """Return the task type of a game."""
        kind = self._store.entries[self._number(id)][0][1]
        return None if kind is None else str(kind)

    def _number(self, id: str) -> int:
        number = self._numbers.get(id)
        if number is None:
            raise UnknownTask.of(id, self._ids, str(self.path))
        return number

    def humans(self, id: str) -> list[str]:
        """Return the human annotations of a task."""
        return list(self.record(id)["humans"])

    def get(self, id: str, human: int | None = None) -> Game:
        """Return a game, compiled.

        Args:
            id: the task id.
            human: number of the annotation to use (modulo their number); None: the template's wording.

        Raises:
            UnknownTask: there is no such game, or it has no annotations.
            GameFileError: the game uses something that the engine does not support.
        """
        key = (id, human)
        game = self._kept.pop(key, None) or self._compile(id, human)
        self._kept[key] = game
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return game

    def record(self, id: str) -> dict[str, Any]:
        """Return the record of a game: task, task_type, walkthrough, problem, humans, domain and grammar."""
        record: dict[str, object] = json.loads(self._store.read(self._number(id)))
        return record

    def _compile(self, id: str, human: int | None) -> Game:
        record = self.record(id)
        task = record["task"]
        if human is not None:
            if not record["humans"]:
                raise UnknownTask(
                    f"task {id!r} has no annotations: goals='human' needs traj_data.json files or annotations.jsonl"
                )
            task = record["humans"][human % len(record["humans"])] + "."  # the template ends the sentence
        where = f"{self.path}: {id}"
        return compile_game(
            self._domain(record["domain"]),
            self._grammar(record["grammar"]),
            record["problem"],
            task=task,
            task_type=record["task_type"],
            id=id,
            walkthrough=record["walkthrough"],
            path=where,
        )

    def domain_text(self, id: str) -> str:
        """Return the text of a game's domain."""
        return str(self._store.head["domains"][self.record(id)["domain"]])

    def grammar_text(self, id: str) -> str:
        """Return the text of a game's grammar, with "UNKNOWN GOAL." in place of the task."""
        return str(self._store.head["grammars"][self.record(id)["grammar"]])

    def _domain(self, number: int) -> Domain:
        if number not in self._domains:
            self._domains[number] = read_domain(self._store.head["domains"][number], f"{self.path}: domain")
        return self._domains[number]

    def _grammar(self, number: int) -> Grammar:
        if number not in self._grammars:
            self._grammars[number] = read_grammar(self._store.head["grammars"][number], f"{self.path}: grammar")
        return self._grammars[number]


_open: dict[tuple[str, int, str], GameLibrary] = {}


def _version() -> str:
    try:
        return version("turncredit")
    except PackageNotFoundError:
        return "unknown"


def _warn_of_unmarked(folder: Path, skipped: Mapping[str, int], playable: int) -> None:
    """Warn of games that are left out since nothing says whether they can be solved."""
    if UNMARKED in skipped:
        warnings.warn(SkippedGames(f"{folder}: {left_out(skipped, playable)}"), stacklevel=5)


def _known_types(names: Sequence[str]) -> set[str]:
    for name in names:
        if name not in TASK_TYPES:
            raise UnknownOption(f"unknown task type {name!r}{suggest(name, TASK_TYPES)}")
    return set(names)


def _compact(source: GameFolder | PackedGames, head: dict[str, Any]) -> Iterator[tuple[list[object], bytes]]:
    """Yield the cache's records: (id, task type) for the index, the rest as JSON; domains and grammars by number."""
    numbers: dict[tuple[str, str], int] = {}

    def number(kind: str, text: str) -> int:
        if (kind, text) not in numbers:
            numbers[kind, text] = len(head[kind])
            head[kind].append(text)
        return numbers[kind, text]

    for record in source.records():
        content = {
            "task": record.task,
            "task_type": record.task_type,
            "walkthrough": record.walkthrough,
            "domain": number("domains", record.domain),
            "grammar": number("grammars", record.grammar),
            "humans": record.humans,
            "problem": record.problem,
        }
        yield [record.id, record.task_type], json.dumps(content).encode()
    head["skipped"] = dict(source.skipped)


def pack(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write a folder of original files as one packed file, next to domain.pddl, grammar.twl2 and annotations.jsonl.xz.

    Games whose domain or grammar differs from that of the first one contain their own. Files are written under
    temporary names and renamed.

    Args:
        folder: the folder of the splits, or its parent.
        out: the packed file, ending in ".jsonl" or ".jsonl.xz".

    Returns:
        The number of games.

    Raises:
        NoGames, GameFileError: as `GameLibrary.open`.
        OSError: the files cannot be written.
    """
    target = Path(out)
    if not target.name.endswith((".jsonl", ".jsonl.xz")):
        raise UnknownOption(f"the packed file must end in .jsonl or .jsonl.xz, got {target.name!r}")
    source = source_at(Path(folder).expanduser())
    if isinstance(source, PackedGames):
        raise UnknownOption(f"{folder} is already packed")
    target.parent.mkdir(parents=True, exist_ok=True)
    return _pack(source, target)


def _pack(source: GameFolder, target: Path) -> int:
    games, notes = _AtomicFile(target), _AtomicFile(target.parent / "annotations.jsonl.xz")
    domain = grammar = ""
    count = 0
    try:
        for record in source.records():
            if not count:
                domain, grammar = record.domain, record.grammar
            count += 1
            games.write(_packed_line(record, domain, grammar))
            if record.humans or record.task_type:
                people = [{"task_desc": text} for text in record.humans]
                notes.write({"path": record.id, "task_type": record.task_type, "turk_annotations": {"anns": people}})
        if not count:
            raise NoGames(f"no playable games in {source.place}: {left_out(source.skipped, 0)}")
        for name, text in (("domain.pddl", domain), ("grammar.twl2", grammar)):
            beside = _AtomicFile(target.parent / name)
            beside.file.write(text.encode())
            beside.done()
        notes.done()
        games.done()
    except BaseException:
        games.drop()
        notes.drop()
        raise
    _warn_of_unmarked(source.place, source.skipped, count)
    return count


def _packed_line(record: GameRecord, domain: str, grammar: str) -> dict[str, object]:
    line: dict[str, object] = {
        "path": record.id,
        "task": record.task,
        "solvable": True,
        "walkthrough": record.walkthrough,
    }
    if record.task is None:
        del line["task"]
    if record.domain != domain:
        line["pddl_domain"] = record.domain
    if record.grammar != grammar:
        line["grammar"] = record.grammar
    return {**line, "pddl_problem": record.problem}


class _AtomicFile:
    """A file that gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        packed = path.suffix == ".xz"
        self.file: Any = lzma.open(self.beside, "wb") if packed else self.beside.open("wb")  # noqa: SIM115

    def write(self, data: dict[str, Any]) -> None:
        self.file.write(json.dumps(data, ensure_ascii=False).encode() + b"\n")

    def done(self) -> None:
        self.file.close()
        os.replace(self.beside, self.path)

    def drop(self) -> None:
        self.file.close()
        self.beside.unlink(missing_ok=True)


__all__ = ["GameFileError", "GameLibrary", "pack"]
