"""Trajectories on disk: one JSON line each, written as they finish, readable while the run goes on.

The format is by the end of the file's name: ``.jsonl``, ``.jsonl.gz``, ``.jsonl.zst`` (needs zstandard). Every line has
``version`` first. A prompt that extends the sequence before it (prompt and response of the turn before) is stored as
what it adds, so a conversation costs its length and not the square of it.

A process that dies leaves at most one torn line, the last: reading drops it and says so (`TornLine`), appending removes
it. Any other line that cannot be read is an error with its number, since it is no accident of writing.

Left out on purpose: an index and random access. A file is read from the front.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from turnwise.agents.errors import StoreError
from turnwise.agents.trajectory import STOPS, Trajectory, Turn, check_extras

VERSION = 1
"""Of the lines' form. Readers refuse what is newer."""

_BESIDE = ("prompt", "admissible", "extras")
"""Fields of a turn that are stored in a form of their own, or only where there is something to store."""

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in an error of the system: when a write fails, on a full disk say, the system itself does not."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


class TornLine(UserWarning):
    """The last line of a file is not whole: it was dropped."""


def to_json(trajectory: Trajectory) -> str:
    """Return the trajectory as one line of JSON, without the line's end; floats keep every bit."""
    record: dict[str, Any] = {"version": VERSION}
    record |= {name: getattr(trajectory, name) for name in Trajectory.__slots__ if name != "turns"}
    turns = []
    previous: tuple[int, ...] = ()
    for turn in trajectory.turns:
        entry = {name: getattr(turn, name) for name in Turn.__slots__ if name not in _BESIDE}
        extends = bool(previous) and turn.prompt[: len(previous)] == previous
        entry["adds" if extends else "prompt"] = turn.prompt[len(previous) :] if extends else turn.prompt
        if turn.admissible is not None:
            entry["admissible"] = turn.admissible
        if turn.extras:
            entry["extras"] = dict(turn.extras)
        turns.append(entry)
        previous = turn.prompt + turn.response
    return json.dumps(record | {"turns": turns}, separators=(",", ":"))


def from_json(line: str | bytes) -> Trajectory:
    """Return the trajectory of one line.

    Raises:
        StoreError: the line is whole JSON, but no trajectory of a version that is known here.
        ValueError: the line is no JSON (torn).

    """
    record = json.loads(line)
    if not isinstance(record, dict) or "version" not in record:
        raise StoreError('no trajectory: the key "version" was wanted')
    if record["version"] != VERSION:
        raise StoreError(f"version {record['version']!r} of the format is not known here: {VERSION} was wanted")
    try:
        values = {name: record[name] for name in Trajectory.__slots__ if name != "turns"}
        if values["stop"] not in STOPS:
            raise StoreError(f"stop is {values['stop']!r}: one of {', '.join(STOPS)} was wanted")
        return Trajectory(**values, turns=_turns(record["turns"]))
    except KeyError as error:
        raise StoreError(f"no trajectory: the key {error} is missing") from error
    except (TypeError, AttributeError) as error:
        raise StoreError(f"no trajectory: {error}") from error


def _turns(entries: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    previous: tuple[int, ...] = ()
    for entry in entries:
        values = {name: entry[name] for name in Turn.__slots__ if name not in _BESIDE}
        prompt = previous + tuple(entry["adds"]) if "adds" in entry else tuple(entry["prompt"])
        values["response"] = tuple(values["response"])
        values["logprobs"] = tuple(values["logprobs"])
        listed = entry.get("admissible")
        admissible = None if listed is None else tuple(listed)
        turns.append(Turn(prompt=prompt, admissible=admissible, extras=check_extras(entry.get("extras")), **values))
        previous = prompt + values["response"]
    return tuple(turns)


class TrajectoryWriter:
    """Writes trajectories to a file, each as soon as it is there: a context manager.

    >>> with TrajectoryWriter("run/trajectories.jsonl") as writer:   # doctest: +SKIP
    ...     rollout(agent, sampler, tasks, make=make, on_finish=writer.write)
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        """Open the file.

        Args:
            path: its name ends in .jsonl, .jsonl.gz or .jsonl.zst.
            append: go on with a file that is there (a torn last line is removed and said); else it is begun anew.

        Raises:
            StoreError: the ending is unknown, or the file to go on with is damaged before its last line.
            OSError: the file cannot be opened or written.

        """
        self.path = Path(path)
        self.count = 0
        check_suffix(self.path)
        if append and self.path.exists():
            _repair(self.path)
        self._file = _open_to_write(self.path, append)

    def write(self, trajectory: Trajectory) -> None:
        """Write one trajectory and hand it to the system: readers see it, and a kill of the process cannot lose it."""
        with naming(self.path):
            self._file.write(to_json(trajectory).encode() + b"\n")
            self._file.flush()
        self.count += 1

    def close(self) -> None:
        """End the file."""
        with naming(self.path):
            self._file.close()

    def __enter__(self) -> TrajectoryWriter:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the file; if something has gone wrong already, what goes wrong in ending it says no more."""
        try:
            self.close()
        except OSError:
            if kind is None:
                raise


def read_trajectories(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """Yield the trajectories of a file in the order in which they were written; it may still be growing.

    Raises:
        StoreError: a line other than the last is damaged (the message has its number), or the form is unknown.
        OSError: the file cannot be read.

    Warns:
        TornLine: the last line is not whole; it is left out.

    """
    path = Path(path)
    for line in _lines(path):
        try:
            trajectory = from_json(line.text)
        except StoreError as error:
            raise StoreError(f"{path}, line {line.number}: {error}") from error
        except (ValueError, RecursionError) as error:
            if not line.last:
                raise StoreError(f"{path}, line {line.number}: no JSON ({error})") from error
            _say_torn(path, line)
            return
        yield trajectory


def _say_torn(path: Path, line: _Line) -> None:
    message = (
        f"{path}, line {line.number} is not whole ({len(line.text)} bytes; a writer died or still writes): left out"
    )
    warnings.warn(TornLine(message), stacklevel=3)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: bytes
    last: bool


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the lines that are not empty, each with whether it is the last."""
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
    """Yield whole lines, then what is left at the end, if anything is."""
    rest = b""
    number = 0
    try:
        for block in _Blocks(path):
            *lines, rest = (rest + block).split(b"\n")
            number += len(lines)
            yield from lines
    except _broken() as error:
        raise StoreError(f"{path}: the compressed data is damaged after line {number} ({error})") from error
    if rest:
        yield rest


def _broken() -> tuple[type[Exception], ...]:
    # the class of zstandard's errors is there only when zstandard is
    zstandard = sys.modules.get("zstandard")
    return (zlib.error,) if zstandard is None else (zlib.error, zstandard.ZstdError)


class _Blocks:
    """The decoded content of a file, block by block, as far as it was written; ``open_end``: the file is not ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = {".jsonl": None, ".jsonl.gz": _gzip_decoder, ".jsonl.zst": _zstd_decoder}[check_suffix(path)]
        self.open_end = False

    def __iter__(self) -> Iterator[bytes]:
        decoder = None
        with self._path.open("rb") as file:
            while block := file.read(1 << 16):
                if self._new is None:
                    yield block
                    continue
                # a file that was appended to has several members; each ends by itself
                while block:
                    decoder = decoder or self._new()
                    yield decoder.decompress(block)
                    block = decoder.unused_data if decoder.eof else b""
                    decoder = None if decoder.eof else decoder
        self.open_end = decoder is not None


def _gzip_decoder() -> Any:
    return zlib.decompressobj(wbits=31)


def _zstd_decoder() -> Any:
    return _zstandard().ZstdDecompressor().decompressobj()


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise StoreError("files that end in .zst need zstandard: pip install turnwise[train]") from error
    return zstandard


def _repair(path: Path) -> None:
    """Make the file end with a whole line and a whole member, so that what is appended can be read."""
    lines = list(_lines(path))
    torn = False
    if lines:
        try:
            from_json(lines[-1].text)
        except StoreError:
            pass  # whole, though not ours: reading it says so
        except ValueError:
            torn = True
            _say_torn(path, lines.pop())
    if not torn and _ended(path):
        return
    beside = path.with_name("." + path.name)
    with _open_to_write(beside, append=False) as file:
        for line in lines:
            file.write(line.text + b"\n")
    os.replace(beside, path)


def _ended(path: Path) -> bool:
    blocks = _Blocks(path)
    last = b"\n"
    for block in blocks:
        last = block[-1:] or last
    return last == b"\n" and not blocks.open_end


def check_suffix(path: Path) -> str:
    """Return the suffix of a trajectory file, one of `SUFFIXES`.

    Raises:
        StoreError: the name has another suffix.
    """
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return suffix
    raise StoreError(f"{path}: a name that ends in {', '.join(SUFFIXES)} was wanted")


def _open_to_write(path: Path, append: bool) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "ab" if append else "wb"
    kind = check_suffix(path)
    if kind == ".jsonl.gz":
        return cast(IO[bytes], gzip.GzipFile(path, mode))
    if kind == ".jsonl.zst":
        zstandard = _zstandard()
        return cast(IO[bytes], zstandard.ZstdCompressor().stream_writer(path.open(mode), closefd=True))
    return path.open(mode)
