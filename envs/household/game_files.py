"""Readers of game files: original files, or a packed file; both yield the same records.

As in the original, a game is a folder with game.tw-pddl (traj_data.json is optional here); paths with "movable" or
"Sliced" and games that are not marked solvable are left out, and counted by the reason.

Not included: games of TextWorld that are compiled for an interpreter (.z8, .ulx).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.envs.errors import GameFileError, NoGames
from turncredit.envs.household.grammar import UNKNOWN_GOAL
from turncredit.envs.household.level import TASK_TYPES
from turncredit.tools.bounded_input import InputError, parse_json, read_bytes, read_text
from turncredit.tools.readers import Fields, read_records

GAME_FILE = "game.tw-pddl"
TRIAL_FILE = "traj_data.json"
UNMARKED: Final = "without the key 'solvable'"
"""Reason for which a game is left out; the others are what the original leaves out of its own games."""
_UNSOLVABLE: Final = "marked as not solvable"
_UNSUPPORTED: Final = "with movable receptacles or sliced objects"
_SPLITS: Final = ("train", "valid_seen", "valid_unseen", "valid_train", "held_out")
_COMPILED: Final = (".z8", ".z5", ".ulx", ".ni")
_MOST: Final = 64 << 20
"""Bytes of a game file."""
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
    match = _TASK.search(grammar)
    if match is None or match[2] == UNKNOWN_GOAL:
        return grammar, None
    try:
        sentence = parse_json(f'"{match[2]}"', "the task")
    except ValueError:
        return grammar, None
    return grammar[: match.start(2)] + UNKNOWN_GOAL + grammar[match.end(2) :], sentence


def left_out(skipped: Mapping[str, int], playable: int) -> str:
    """Return how many games are left out and why, as a clause; "" if none is.

    Args:
        skipped: number of games that are left out, by the reason.
        playable: number of the others.
    """
    reasons = [f"{count:,} {reason}" for reason, count in sorted(skipped.items())]
    count = sum(skipped.values())
    return f"{count:,} of {count + playable:,} games are left out ({', '.join(reasons)})" if count else ""


def _left_out(id: str, data: Fields | None) -> str:
    """Return why a game is left out; "" if it is playable. `None` tells from the path alone."""
    if not playable(id):
        return _UNSUPPORTED
    if data is None or data.get("solvable") is True:
        return ""
    return _UNSOLVABLE if "solvable" in data else UNMARKED


class GameFolder:
    """Original files SPLIT/TASK/TRIAL/game.tw-pddl: all, or those of one split, task or trial, or one file.

    The id of a game is its path in the folder of the splits.
    """

    def __init__(self, path: Path) -> None:
        """Find the game files below a folder, or take a single file."""
        self.path = _root_of_file(path) if path.is_file() else _data_root(path)
        self.skipped: Counter[str] = Counter()
        self.place = path if path.is_relative_to(self.path) else self.path  # a part of the tree, or all of it
        self.files = [self._entry(path)] if path.is_file() else sorted(self._find(self.place))
        if not self.files:
            compiled = next((file.name for file in sorted(path.rglob("*")) if file.suffix in _COMPILED), "")
            raise NoGames(
                f"no games in {path}: expected {GAME_FILE} files in SPLIT/TASK/TRIAL folders, "
                "or a packed games.jsonl.xz" + (f"; {_compiled(compiled)}" if compiled else "")
            )

    def _find(self, start: Path) -> Iterator[tuple[str, Path, os.stat_result, os.stat_result | None]]:
        for root, folders, files in os.walk(start):
            folders.sort()
            if GAME_FILE in files:
                yield self._entry(Path(root) / GAME_FILE)

    def _entry(self, game: Path) -> tuple[str, Path, os.stat_result, os.stat_result | None]:
        """Return id, path and state of a game file, and the state of its annotation."""
        named = game.parent if game.name == GAME_FILE else game.with_name(game.name.partition(".")[0])
        trial = game.parent / TRIAL_FILE
        annotated = trial.stat() if trial.is_file() else None
        return named.relative_to(self.path).as_posix(), game, game.stat(), annotated

    def key(self) -> str:
        """Return a digest of all paths, sizes and times."""
        digest = hashlib.blake2b(str(self.path).encode(), digest_size=16)
        for id, _, game, trial in self.files:
            digest.update(f"{id} {game.st_size} {game.st_mtime_ns}".encode())
            if trial is not None:
                digest.update(f"{trial.st_size} {trial.st_mtime_ns}".encode())
        return digest.hexdigest()

    def records(self) -> Iterator[GameRecord]:
        """Yield the playable games, and count the others in `skipped`."""
        self.skipped.clear()
        for id, path, _, trial in self.files:
            reason = _left_out(id, None)
            data = {} if reason else _read_object(path)
            if reason := reason or _left_out(id, data):
                self.skipped[reason] += 1
                continue
            grammar, task = without_task(_text(data, "grammar", str(path)))
            kind, humans = _annotation(_read_object(path.parent / TRIAL_FILE)) if trial is not None else (None, [])
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
    """A file of JSON lines, next to domain.pddl, grammar.twl2 and optional annotations.jsonl; compressed or not."""

    def __init__(self, path: Path) -> None:
        self.path = self.place = path
        self.skipped: Counter[str] = Counter()
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
            status = part.stat()
            digest.update(f"{part.name} {status.st_size} {status.st_mtime_ns}".encode())
            digest.update(hashlib.blake2b(part.read_bytes()).digest())
        return digest.hexdigest()

    def records(self) -> Iterator[GameRecord]:
        """Yield the playable games, and count the others in `skipped`."""
        self.skipped.clear()
        domain, grammar = map(_utf8, self.parts[1:])
        notes = dict(self._notes())
        count = 0
        for number, data in _lines(self.path):
            count += 1
            where = f"{self.path}"
            id = _text(data, "path", where, number)
            if reason := _left_out(id, data):
                self.skipped[reason] += 1
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
    """Return the source of games at a path: a packed file, a folder of original files or a part of it, or one file.

    Raises:
        NoGames: the path does not exist, or holds no games.
    """
    if path.is_file():
        if path.suffix in _COMPILED:
            raise NoGames(_compiled(path.name))
        return GameFolder(path) if path.suffix == ".tw-pddl" else PackedGames(path)
    if not path.is_dir():
        raise NoGames(f"no games at {path}: there is no such file or folder")
    for name in ("games.jsonl.xz", "games.jsonl"):
        if (path / name).is_file():
            return PackedGames(path / name)
    return GameFolder(path)


def _compiled(name: str) -> str:
    return f"{name} is compiled for TextWorld's interpreter; turncredit plays the PDDL games of ALFWorld, {GAME_FILE}"


def _data_root(path: Path) -> Path:
    """Return the folder of the splits, which the original's downloads put into json_2.1.1.

    For a split, a task or a trial in it, it lies above.
    """
    if any((path / name).is_dir() for name in _SPLITS):
        return path
    if below := sorted(path.glob("json_*")):
        return below[-1]
    return _above_splits(path) or path


def _root_of_file(path: Path) -> Path:
    """Return the folder of the splits of a game file; else the one in which its folder, or the file, has a name."""
    return _above_splits(path.parent) or path.parent.parent


def _above_splits(path: Path) -> Path | None:
    """Return the folder above the split that a split, task or trial lies in; None if there is none."""
    return next((split.parent for split in (path, *path.parents[:2]) if split.name in _SPLITS), None)


def _lines(path: Path) -> Iterator[tuple[int, Fields]]:
    try:
        for record in read_records(path):
            if record.problem:
                raise GameFileError(
                    str(path), record.number, "damaged file", f"expected a JSON object: {record.problem}"
                )
            yield record.number, record.fields
    except InputError as error:
        raise GameFileError(str(path), None, "damaged file", f"expected JSON lines: {error}") from None


def _read_object(path: Path) -> Mapping[str, object]:
    try:
        value = parse_json(read_bytes(path, max_bytes=_MOST), "it")
    except InputError as error:
        line = getattr(error.__cause__, "lineno", None)
        raise GameFileError(path, line, "damaged file", f"expected a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise GameFileError(path, None, type(value).__name__, "expected a JSON object")
    return value


def _utf8(path: Path) -> str:
    try:
        return read_text(path, max_bytes=_MOST)
    except InputError as error:
        raise GameFileError(path, None, "damaged file", str(error)) from None


def _text(data: Fields, key: str, path: str, line: int | None = None) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise GameFileError(path, line, f"{key!r}: {type(value).__name__}", f"expected a string under {key!r}")
    return value


def _commands(data: Fields, path: str, line: int | None = None) -> list[str]:
    value = data.get("walkthrough") or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise GameFileError(path, line, "'walkthrough'", "expected a list of commands")
    return value


def _annotation(data: Fields) -> tuple[str | None, list[str]]:
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
