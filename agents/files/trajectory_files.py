"""Trajectories on disk: one JSON line each, written as they finish, readable while the file grows.

The suffix of the file decides how it is written: ``.jsonl``, ``.jsonl.gz``, ``.jsonl.zst`` (needs zstandard). A prompt
that extends the prompt and response of the turn before is stored as the ids that it adds, so the size of a conversation
is linear in its length.

Images are stored beside the file (see `turncredit.agents.files.image_store`), and turns refer to them.

A process that is killed leaves at most one incomplete line, the last. Reading skips it with a `TornLine` warning, and
appending removes it. Any other line that cannot be read is an error.
"""

from __future__ import annotations

import gzip
import os
import re
import reprlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import StoreError
from turncredit.agents.files.expert_records import experts_of_record, experts_record
from turncredit.agents.files.fresh_file import fresh_file
from turncredit.agents.files.image_store import ImageSource, ImageStore, images_of
from turncredit.agents.token_experts import TurnExperts
from turncredit.agents.trajectory import FINISHES, STOPS, Trajectory, Turn, check_extras
from turncredit.installation import needs
from turncredit.tools.bounded_input import MAX_LINE, DecodedFile, InputError, parse_json, split_lines
from turncredit.tools.visible_text import json_text

VERSION = 1
"""Version of the format; readers refuse others."""

_BESIDE = ("prompt", "admissible", "extras", "finish", "switches", "results", "free", "images", "shown", "experts")
"""Fields of a turn that are stored in a form of their own, or only where there is something to store."""

_STRING = ((str,), "a string")
_STRING_OR_NULL = ((str, type(None)), "a string or null")
_INTEGER = ((int,), "an integer")
_NUMBER = ((int, float), "a number")
_BOOLEAN = ((bool,), "true or false")

_TRAJECTORY_FIELDS = {
    "id": _STRING,
    "task": _STRING,
    "task_type": _STRING_OR_NULL,
    "seed": _INTEGER,
    "stop": _STRING,
    "won": _BOOLEAN,
    "score": _NUMBER,
    "final_state": _STRING,
    "final_observation": _STRING,
    "error": _STRING_OR_NULL,
    "seconds": _NUMBER,
}
_FORK_FIELDS = {"fork_of": _STRING, "fork_turn": _INTEGER}
"""Of a trajectory that began in the middle of another."""
_GROWTH_FIELDS = {
    "fork_tokens": _INTEGER,
    "round": _INTEGER,
    "hint": _STRING,
    "notes": _BOOLEAN,
    "temperature": _NUMBER,
    "teacher": _STRING,
    "trial": _INTEGER,
}
"""Of a trajectory that a group rule or a further trial asked for; stored where they differ from the defaults."""

_TURN_FIELDS = {
    "version": _INTEGER,
    "observation": _STRING,
    "text": _STRING,
    "action": _STRING_OR_NULL,
    "state": _STRING,
    "reward": _NUMBER,
    "valid": _BOOLEAN,
}
_TURN_LISTS = {
    "response": ((int,), "integers"),
    "logprobs": ((int, float), "numbers"),
}

_GZIP_LEVEL = 6
"""Of compression. Python's default, 9, takes three times as long for 1 % less."""

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")

_NO_STORE = ImageStore(Path("images"))


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file to an OSError that lacks it, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


class TornLine(UserWarning):
    """The last line of a file is incomplete and was skipped."""


def to_json(trajectory: Trajectory) -> str:
    """Return the trajectory as one line of JSON without a newline; floats keep every bit."""
    return json_text(to_record(trajectory), compact=True)


def to_record(trajectory: Trajectory) -> dict[str, object]:
    """Return the trajectory as the object that a line holds."""
    record: dict[str, Any] = {"version": VERSION}
    record |= {name: getattr(trajectory, name) for name in _TRAJECTORY_FIELDS}
    if trajectory.fork_of is not None:
        record |= {name: getattr(trajectory, name) for name in _FORK_FIELDS}
    record |= {name: value for name in _GROWTH_FIELDS if (value := getattr(trajectory, name))}
    turns = []
    previous: tuple[int, ...] = ()
    shown: tuple[ImagePart, ...] = ()
    experts: TurnExperts | None = None
    for turn in trajectory.turns:
        entry = {name: getattr(turn, name) for name in Turn.__slots__ if name not in _BESIDE}
        extends = bool(previous) and turn.prompt[: len(previous)] == previous
        entry["adds" if extends else "prompt"] = turn.prompt[len(previous) :] if extends else turn.prompt
        if turn.admissible is not None:
            entry["admissible"] = turn.admissible
        if turn.extras:
            entry["extras"] = dict(turn.extras)
        if turn.finish != "stop":
            entry["finish"] = turn.finish
        if turn.switches:
            entry["switches"] = turn.switches
        if turn.results:
            entry["results"] = turn.results
        if turn.free:
            entry["free"] = turn.free
        if turn.experts is not None:
            entry["experts"] = experts_record(turn.experts, experts)
        experts = turn.experts
        if turn.images:
            entry["images"] = [image.key for image in turn.images]
        if turn.shown != shown + turn.images:
            entry["shown"] = [image.key for image in turn.shown]
        shown = turn.shown
        turns.append(entry)
        previous = turn.prompt + turn.response
    return record | {"turns": turns}


def from_json(line: str | bytes, images: ImageSource = _NO_STORE) -> Trajectory:
    """Return the trajectory of one line; half surrogate pairs, which nothing could print or write, become escapes.

    Args:
        line: as `to_json` wrote it.
        images: where its images are stored.

    Raises:
        StoreError: the line is JSON, but too deep, or not a trajectory of a known version.
        ValueError: the line is not JSON.
    """
    try:
        record = parse_json(line, "the line", max_bytes=MAX_LINE, encodable=True)
    except InputError as error:
        if error.__cause__ is None:  # a limit
            raise StoreError(str(error)) from error
        raise
    return from_record(record, images)


def from_record(record: object, images: ImageSource = _NO_STORE) -> Trajectory:
    """Return the trajectory of the object that a line holds.

    Args:
        record: as `to_record` returned it.
        images: where its images are stored.

    Raises:
        StoreError: it is not a trajectory of a known version.
    """
    if not isinstance(record, dict) or "version" not in record:
        raise StoreError('not a trajectory: the key "version" is missing')
    if record["version"] != VERSION:
        raise StoreError(
            f"version {record['version']!r} of the format is unknown; this release reads version {VERSION}"
        )
    try:
        forked = record.get("fork_of") is not None
        grown = {name: kind for name, kind in _GROWTH_FIELDS.items() if name in record}
        values = _fields(record, _TRAJECTORY_FIELDS | (_FORK_FIELDS if forked else {}) | grown)
        if values["stop"] not in STOPS:
            raise StoreError(f"stop must be one of {', '.join(STOPS)}; got {values['stop']!r}")
        turns = _turns(record["turns"], images)
        if forked and not 0 <= values["fork_turn"] <= len(turns):
            raise StoreError(f"fork_turn must be one of the {len(turns)} turns, got {values['fork_turn']}")
        joined = turns[values["fork_turn"] :][:1] if forked else ()
        begun = values.get("fork_tokens", 0)
        if not 0 <= begun <= min((len(turn.response) for turn in joined), default=begun):
            raise StoreError(f"fork_tokens must be some of the tokens of turn fork_turn, got {begun}")
        return Trajectory(**values, turns=turns)
    except KeyError as error:
        raise StoreError(f"not a trajectory: the key {error} is missing") from error


def _turns(entries: object, images: ImageSource) -> tuple[Turn, ...]:
    if not isinstance(entries, list):
        raise StoreError(f"turns must be a list of objects, got {_shown(entries)}")
    turns: list[Turn] = []
    before: Turn | None = None
    for number, entry in enumerate(entries):
        try:
            before = _turn(entry, before, images)
            turns.append(before)
        except KeyError as error:
            raise StoreError(f"turns[{number}]: the key {error} is missing") from error
        except (StoreError, TypeError) as error:
            raise StoreError(f"turns[{number}]: {error}") from error
    return tuple(turns)


def _turn(entry: object, before: Turn | None, images: ImageSource) -> Turn:
    """Return a turn; its prompt may be stored as what it adds to the prompt and response of the turn before it."""
    if not isinstance(entry, dict):
        raise StoreError(f"a turn must be an object, got {_shown(entry)}")
    values = _fields(entry, _TURN_FIELDS) | {name: _list(entry, name, *kind) for name, kind in _TURN_LISTS.items()}
    added = "adds" if "adds" in entry else "prompt"
    prompt = _list(entry, added, (int,), "integers")
    listed = None if entry.get("admissible") is None else _list(entry, "admissible", (str,), "strings")
    finish = entry.get("finish", "stop")
    if finish not in FINISHES:
        raise StoreError(f"finish must be one of {', '.join(FINISHES)}; got {finish!r}")
    switches = entry.get("switches", [])
    if not (isinstance(switches, list) and all(_is_list(pair, (int,)) and len(pair) == 2 for pair in switches)):
        raise StoreError(f"switches must be a list of pairs of integers, got {_shown(switches)}")
    own, shown = (
        tuple(map(images.image, _list(entry, name, (str,), "strings"))) if name in entry else None
        for name in ("images", "shown")
    )
    previous, earlier = ((), ()) if before is None else (before.prompt + before.response, before.shown)
    return Turn(
        prompt=previous + prompt if added == "adds" else prompt,
        images=own or (),
        shown=earlier + (own or ()) if shown is None else shown,
        admissible=listed,
        extras=check_extras(entry.get("extras")),
        finish=finish,
        switches=tuple((start, version) for start, version in switches),
        results=_list(entry, "results", (str,), "strings") if "results" in entry else (),
        free=_list(entry, "free", (str,), "strings") if "free" in entry else (),
        experts=None
        if "experts" not in entry
        else experts_of_record(entry["experts"], None if before is None else before.experts),
        **values,
    )


def _fields(record: dict[str, Any], fields: dict[str, tuple[tuple[type, ...], str]]) -> dict[str, Any]:
    """Return the values of some keys, which must have the types of the fields; JSON has no others."""
    for name, (kinds, expected) in fields.items():
        if type(record[name]) not in kinds or not _fits(record[name]):
            raise StoreError(f"{name} must be {expected}, got {_shown(record[name])}")
    return {name: record[name] for name in fields}


def _list(record: dict[str, Any], name: str, kinds: tuple[type, ...], expected: str) -> tuple[Any, ...]:
    if not _is_list(record[name], kinds):
        raise StoreError(f"{name} must be a list of {expected}, got {_shown(record[name])}")
    return tuple(record[name])


def _fits(value: object) -> bool:
    """Return whether a value is no integer that 64 bits cannot hold: those are in no vocabulary, and no float."""
    return type(value) is not int or -(1 << 63) <= value < 1 << 63


def _is_list(value: object, kinds: tuple[type, ...]) -> bool:
    if not isinstance(value, list) or not set(map(type, value)) <= set(kinds):
        return False
    integers = [item for item in value if type(item) is int]
    return not integers or (_fits(min(integers)) and _fits(max(integers)))


def _shown(value: object) -> str:
    return reprlib.repr(value)


class TrajectoryWriter:
    """Writes trajectories to a file as they finish; a context manager.

    >>> with TrajectoryWriter("run/trajectories.jsonl") as writer:   # doctest: +SKIP
    ...     rollout(agent, sampler, tasks, make=make, on_finish=writer.write)
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        """Open the file.

        Args:
            path: its name ends in .jsonl, .jsonl.gz or .jsonl.zst.
            append: add to an existing file, after removing an incomplete last line with a warning; else replace it.

        Raises:
            StoreError: the suffix is unknown, or an existing file is damaged before its last line.
            OSError: the file cannot be opened or written.
        """
        self.path = Path(path)
        self.count = 0
        check_suffix(self.path)
        if append and self.path.exists():
            _repair(self.path)
        self._file = _open_to_write(self.path, append)
        self._images = ImageStore.of(self.path)

    def write(self, trajectory: Trajectory) -> None:
        """Write one trajectory and flush it, so that readers see it and a killed process cannot lose it."""
        self._images.add(images_of(trajectory))
        with name_file_in_errors(self.path):
            self._file.write(to_json(trajectory).encode("ascii") + b"\n")
            self._file.flush()
        self.count += 1

    def close(self) -> None:
        """Close the file."""
        with name_file_in_errors(self.path):
            self._file.close()

    def __enter__(self) -> TrajectoryWriter:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the file; an error in closing does not replace an earlier one."""
        try:
            self.close()
        except OSError:
            if kind is None:
                raise


def read_trajectories(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """Yield the trajectories of a file in the order in which they were written; it may still be growing.

    Raises:
        StoreError: a line other than the last is damaged, or the version is unknown; the message has the line number.
        OSError: the file cannot be read.

    Warns:
        TornLine: the last line is incomplete; it is skipped.
    """
    path = Path(path)
    images = ImageStore.of(path)
    for line in _lines(path):
        try:
            trajectory = from_json(line.text, images)
        except StoreError as error:
            raise StoreError(f"{path}, line {line.number}: {error}") from error
        except ValueError as error:
            if not line.last:
                raise StoreError(f"{path}, line {line.number}: {str(error).removeprefix('the line is ')}") from error
            _warn_torn(path, line)
            return
        yield trajectory


def _warn_torn(path: Path, line: _Line) -> None:
    message = (
        f"{path}, line {line.number} is incomplete and was skipped ({len(line.text)} bytes; its writer was killed "
        "or is still writing)"
    )
    warnings.warn(TornLine(message), stacklevel=3)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: bytes
    last: bool


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the nonempty lines; the last one is marked."""
    held: _Line | None = None
    for number, text in enumerate(_split(path), start=1):
        text = text.rstrip(b"\r\n")
        if not text.strip():
            continue
        if held is not None:
            yield held
        held = _Line(number, text, last=False)
    if held is not None:
        yield _Line(held.number, held.text, last=True)


def _split(path: Path) -> Iterator[bytes]:
    """Yield complete lines, then the rest of the file if there is any."""
    check_suffix(path)
    number = 0
    try:
        for line in split_lines(DecodedFile(path), max_line=MAX_LINE, label=str(path)):
            number += 1
            yield line
    except InputError as error:
        raise StoreError(f"{error}; it was read to line {number}") from error


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise StoreError(needs("files ending in .zst need zstandard", "train")) from error
    return zstandard


def _repair(path: Path) -> None:
    """Make the file end with a complete line and a complete member, so that it can be appended to."""
    count, last = 0, None
    for line in _lines(path):
        count, last = count + 1, line
    torn = False
    if last is not None:
        try:
            from_json(last.text)
        except StoreError:
            pass  # complete, though not a trajectory: reading reports it
        except ValueError:
            torn = True
            _warn_torn(path, last)
    if not torn and _is_complete(path):
        return
    beside = path.with_name("." + path.name)
    fresh_file(beside).close()
    with _open_to_write(beside, append=False) as file:
        for line in islice(_lines(path), count - torn):
            file.write(line.text + b"\n")
    os.replace(beside, path)


def _is_complete(path: Path) -> bool:
    file = DecodedFile(path)
    last = b"\n"
    for block in file:
        last = block[-1:] or last
    return last == b"\n" and not file.unfinished


def iteration_files(folder: Path) -> dict[int, Path]:
    """Return the trajectory files of a run's folder by iteration, in order; copies of other names are left out."""
    files = {
        int(match[1]): path
        for path in folder.glob("*")
        if (match := re.fullmatch(r"(\d{6,})\.jsonl(\.gz|\.zst)?", path.name))
    }
    return dict(sorted(files.items()))


def check_suffix(path: Path) -> str:
    """Return the suffix of a trajectory file, one of `SUFFIXES`.

    Raises:
        StoreError: the name has another suffix.
    """
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return suffix
    raise StoreError(
        f"the name of a trajectory file must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {path}"
    )


def _open_to_write(path: Path, append: bool) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "ab" if append else "wb"
    kind = check_suffix(path)
    if kind == ".jsonl.gz":
        return cast(IO[bytes], gzip.GzipFile(path, mode, _GZIP_LEVEL))
    if kind == ".jsonl.zst":
        zstandard = _zstandard()
        return cast(IO[bytes], zstandard.ZstdCompressor().stream_writer(path.open(mode), closefd=True))
    return path.open(mode)
