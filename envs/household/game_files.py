"""Readers of game files: a folder of original files, or a packed file; both yield the same records.

As in the original, a game is a folder with game.tw-pddl (traj_data.json is optional here); paths with "movable" or
"Sliced" and games that are not marked solvable are skipped.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from turnwise.envs.errors import GameFileError, NoGames
from turnwise.envs.household.grammar import UNKNOWN_GOAL
from turnwise.envs.household.level import TASK_TYPES

GAME_FILE = "game.tw-pddl"
TRIAL_FILE = "traj_data.json"
_PREFIX = "Your task is to: "
_TASK = re.compile(r'("task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*")' + re.escape(_PREFIX) + r'((?:[^"\\]|\\.)*)(")')


@dataclass(slots=True)
class GameRecord:
    """A game as stored on disk."""

    id: str
    task: str | None
    task_type: str | None
    problem: str
    walkthrough: list[str]
    domain: str
    grammar: str  # with UNKNOWN_GOAL in place of the task, if it was found
    humans: list[str]  # human annotations of the task


def task_type_of(id: str) -> str | None:
    """Return the task type with which the name of a task folder starts."""
    for part in id.split("/"):
        for name in TASK_TYPES:
            if part == name or part.startswith(name + "-"):
                return name
    return None


def playable(id: str) -> bool:
    """Return whether the original's loader accepts a game with this path."""
    return "movable" not in id and "Sliced" not in id


def without_task(grammar: str) -> tuple[str, str | None]:
    """Return the grammar with UNKNOWN_GOAL in place of the task sentence, and the sentence (None if there is none)."""
    found = _TASK.search(grammar)
    if found is None or found[2] == UNKNOWN_GOAL:
        return grammar, None
    try:
        sentence = json.loads(f'"{found[2]}"')
    except ValueError:
        return grammar, None
    return grammar[: found.start(2)] + UNKNOWN_GOAL + grammar[found.end(2) :], sentence


class GameFolder:
    """A folder of original files SPLIT/TASK/TRIAL/game.tw-pddl. The id of a game is its path in the folder."""

    def __init__(self, path: Path) -> None:
        self.path = _data_root(path)
        self.files = sorted(self._find())
        if not self.files:
            raise NoGames(
                f"no games in {path}: expected {GAME_FILE} files in SPLIT/TASK/TRIAL folders, "
                "or a packed games.jsonl.xz"
            )

    def _find(self) -> Iterator[tuple[str, os.stat_result, os.stat_result | None]]:
        for root, folders, files in os.walk(self.path):
            folders.sort()
            if GAME_FILE in files:
                here = Path(root)
                trial = (here / TRIAL_FILE).stat() if TRIAL_FILE in files else None
                yield here.relative_to(self.path).as_posix(), (here / GAME_FILE).stat(), trial

    def key(self) -> str:
        """Return a digest of all paths, sizes and times."""
        digest = hashlib.blake2b(str(self.path).encode(), digest_size=16)
        for id, game, trial in self.files:
            digest.update(f"{id} {game.st_size} {game.st_mtime_ns}".encode())
            if trial is not None:
                digest.update(f"{trial.st_size} {trial.st_mtime_ns}".encode())
        return digest.hexdigest()

    def records(self) -> Iterator[GameRecord]:
        """Yield the playable games."""
        for id, _, trial in self.files:
            if not playable(id):
                continue
            path = self.path / id / GAME_FILE
            data = _object(path.read_bytes(), str(path), None)
            if data.get("solvable") is not True:
                continue
            grammar, task = without_task(_text(data, "grammar", str(path)))
            kind, humans = _trial(path.parent / TRIAL_FILE) if trial is not None else (None, [])
            yield GameRecord(
                id=id,
                task=task,
                task_type=kind or task_type_of(id),
                problem=_text(data, "pddl_problem", str(path)),
                walkthrough=_commands(data, str(path)),
                domain=_text(data, "pddl_domain", str(path)),
                grammar=grammar,
                humans=humans,
            )


class PackedGames:
    """A file of JSON lines (plain or .xz), next to domain.pddl, grammar.twl2 and optional annotations.jsonl[.xz]."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts = [path, path.parent / "domain.pddl", path.parent / "grammar.twl2"]
        for part in self.parts:
            if not part.is_file():
                raise NoGames(f"no {part.name} at {part}: a packed file needs domain.pddl and grammar.twl2 next to it")
        annotations = [path.parent / name for name in ("annotations.jsonl.xz", "annotations.jsonl")]
        self.annotations = next((part for part in annotations if part.is_file()), None)

    def key(self) -> str:
        """Return a digest of the files' contents, sizes and times."""
        digest = hashlib.blake2b(digest_size=16)
        for part in [*self.parts, *([self.annotations] if self.annotations else [])]:
            found = part.stat()
            digest.update(f"{part.name} {found.st_size} {found.st_mtime_ns}".encode())
            digest.update(hashlib.blake2b(part.read_bytes()).digest())
        return digest.hexdigest()

    def records(self) -> Iterator[GameRecord]:
        """Yield the playable games."""
        domain = self.parts[1].read_text(encoding="utf-8")
        grammar = self.parts[2].read_text(encoding="utf-8")
        notes = dict(self._notes())
        count = 0
        for number, data in _lines(self.path):
            count += 1
            where = f"{self.path}"
            id = _text(data, "path", where, number)
            if data.get("solvable") is not True or not playable(id):
                continue
            kind, humans = notes.get(id, (None, []))
            own, task = without_task(data["grammar"]) if isinstance(data.get("grammar"), str) else (grammar, None)
            yield GameRecord(
                id=id,
                task=data.get("task", task),
                task_type=data.get("task_type") or kind or task_type_of(id),
                problem=_text(data, "pddl_problem", where, number),
                walkthrough=_commands(data, where, number),
                domain=data.get("pddl_domain", domain),
                grammar=own,
                humans=humans,
            )
        if not count:
            raise NoGames(f"{self.path} holds no games")

    def _notes(self) -> Iterator[tuple[str, tuple[str | None, list[str]]]]:
        if self.annotations is not None:
            for number, data in _lines(self.annotations):
                yield _text(data, "path", str(self.annotations), number), _annotation(data)


def source_at(path: Path) -> GameFolder | PackedGames:
    """Return the source of games at a path.

    Raises:
        NoGames: the path does not exist, or holds no games.
    """
    if path.is_file():
        return PackedGames(path)
    if not path.is_dir():
        raise NoGames(f"no games at {path}: there is no such file or folder")
    for name in ("games.jsonl.xz", "games.jsonl"):
        if (path / name).is_file():
            return PackedGames(path / name)
    return GameFolder(path)


def _data_root(path: Path) -> Path:
    """Return the folder of the splits, which the original's downloads put into json_2.1.1."""
    below = sorted(path.glob("json_*"))
    return (
        below[-1]
        if below and not any((path / name).is_dir() for name in ("train", "valid_seen", "valid_unseen"))
        else path
    )


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with _opened(path) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _object(line, str(path), number)
        except (EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
            raise GameFileError(str(path), number + 1, "damaged file", f"expected JSON lines: {error}") from None


def _opened(path: Path) -> IO[bytes]:
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")


def _object(data: bytes, path: str, line: int | None) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        at = line if line is not None else getattr(error, "lineno", None)
        raise GameFileError(path, at, "damaged file", f"expected a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise GameFileError(path, line, type(value).__name__, "expected a JSON object")
    return value


def _text(data: dict[str, Any], key: str, path: str, line: int | None = None) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise GameFileError(path, line, f"{key!r}: {type(value).__name__}", f"expected a string under {key!r}")
    return value


def _commands(data: dict[str, Any], path: str, line: int | None = None) -> list[str]:
    value = data.get("walkthrough") or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise GameFileError(path, line, "'walkthrough'", "expected a list of commands")
    return value


def _trial(path: Path) -> tuple[str | None, list[str]]:
    return _annotation(_object(path.read_bytes(), str(path), None))


def _annotation(data: dict[str, Any]) -> tuple[str | None, list[str]]:
    """Return the task type and the human annotations."""
    kind = data.get("task_type")
    turk = data.get("turk_annotations")
    people = turk.get("anns") if isinstance(turk, dict) else None
    texts = (
        [entry.get("task_desc") for entry in people or [] if isinstance(entry, dict)]
        if isinstance(people, list)
        else []
    )
    return kind if isinstance(kind, str) else None, [text for text in texts if isinstance(text, str)]
