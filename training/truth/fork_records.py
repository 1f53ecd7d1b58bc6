"""The file of forks: one JSON line for each, beside the trajectories that they belong to.

The first line says who played them. Forks are appended as they finish, so a run that is stopped goes on where it was;
an incomplete last line, of a process that was killed, is left out. Rewards and invalid actions are kept turn by turn,
so that discount and penalty can be chosen afterwards.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from turncredit.agents.errors import FolderInUse, StoreError
from turncredit.agents.files.folder_lock import require_plain_files
from turncredit.agents.trajectory import Trajectory
from turncredit.credit.truth.estimates import fork_return
from turncredit.tools.bounded_input import MAX_LINE, DecodedFile, InputError, parse_json, split_lines
from turncredit.tools.visible_text import json_text

__all__ = ["ForkFile", "ForkRecord", "truth_file"]

VERSION = 1


def truth_file(trajectories: Path) -> Path:
    """Return where the forks of a file of trajectories are kept.

    >>> truth_file(Path("trajectories/000030.jsonl.gz")).name
    '000030.truth.jsonl'
    """
    return trajectories.with_name(trajectories.name.partition(".jsonl")[0] + ".truth.jsonl")


@dataclass(frozen=True, slots=True)
class ForkRecord:
    """What is kept of a fork."""

    history: str
    number: int
    turns: int
    """Turns from its beginning to its end."""
    rewards: Mapping[int, float]
    """Rewards that are not zero, by turn from its beginning."""
    invalid: tuple[int, ...]
    """Turns with an answer that was no action, or not admissible."""
    tokens: int
    """Sampled tokens."""

    @classmethod
    def of(cls, history: str, number: int, start: int, trajectory: Trajectory) -> ForkRecord:
        """Return what is kept of a trajectory that began with turn `start` at a history."""
        turns = trajectory.turns[start:]
        first = trajectory.fork_turn or 0
        return cls(
            history,
            number,
            len(turns),
            {at: turn.reward for at, turn in enumerate(turns) if turn.reward},
            tuple(at for at, turn in enumerate(turns) if not turn.valid),
            sum(turn.counted("response_tokens", len(turn.response)) for turn in trajectory.turns[first:]),
        )

    def value(self, gamma: float, invalid_penalty: float) -> float:
        """Return its discounted return, with a penalty for each invalid action."""
        rewards = [self.rewards.get(at, 0.0) for at in range(self.turns)]
        for at in self.invalid:
            rewards[at] -= invalid_penalty
        return fork_return(rewards, gamma)

    def to_json(self) -> str:
        """Return the record as one line."""
        entry = {"history": self.history, "fork": self.number, "turns": self.turns, "tokens": self.tokens}
        rewards = {"rewards": [[at, reward] for at, reward in self.rewards.items()]} if self.rewards else {}
        invalid = {"invalid": list(self.invalid)} if self.invalid else {}
        return json_text({**entry, **rewards, **invalid}, compact=True)

    @classmethod
    def from_json(cls, entry: object) -> ForkRecord:
        """Return the record of a line.

        Raises:
            StoreError: it is not one.
        """
        try:
            if not isinstance(entry, dict):
                raise TypeError
            rewards = {int(at): float(reward) for at, reward in entry.get("rewards", ())}
            invalid = tuple(int(at) for at in entry.get("invalid", ()))
            number, turns, tokens = (int(entry[name]) for name in ("fork", "turns", "tokens"))
            if not all(0 <= at < turns for at in (*rewards, *invalid)):
                raise ValueError
            return cls(str(entry["history"]), number, turns, rewards, invalid, tokens)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"not a fork: {entry!r:.80}") from error


@dataclass(slots=True)
class ForkFile:
    """Forks by history, in memory and, with a path, in a file."""

    path: Path | None
    player: Mapping[str, object]
    """Who plays: compared with that of an existing file."""
    forks: dict[str, dict[int, ForkRecord]] = field(default_factory=dict)
    _size: int = 0
    _handle: BinaryIO | None = None

    @classmethod
    def in_memory(cls) -> ForkFile:
        """Return a place for forks that are not written."""
        return cls(None, {})

    @classmethod
    def open(cls, path: Path, player: Mapping[str, object]) -> ForkFile:
        """Return the forks of a file, which may not exist yet.

        Raises:
            StoreError: the file is damaged, or others played its forks.
        """
        file = cls(path, player)
        if path.exists():
            file._read(path, require_player=True)
        return file

    @classmethod
    def read(cls, path: Path) -> ForkFile:
        """Return the forks of a file, by all their players.

        Raises:
            StoreError: there is no such file, or it is damaged.
        """
        if not path.exists():
            raise StoreError(f"{path} does not exist; `turncredit credit RUN --truth 8` writes it")
        file = cls(path, {})
        file._read(path, require_player=False)
        return file

    def _read(self, path: Path, *, require_player: bool) -> None:
        for number, (entry, end) in enumerate(_entries(path)):
            if number == 0:
                self._read_player(entry, require=require_player)
            else:
                self._keep(ForkRecord.from_json(entry))
            self._size = end

    def _read_player(self, entry: object, *, require: bool) -> None:
        player = entry.get("player") if isinstance(entry, dict) and entry.get("truth") == VERSION else None
        if not isinstance(player, dict):
            raise StoreError(f"{self.path} does not hold the forks of trajectories, or those of another version")
        if require:
            for name in dict.fromkeys((*player, *self.player)):
                mine, theirs = self.player.get(name), player.get(name)
                if mine != theirs:
                    raise StoreError(
                        f"{self.path} holds forks with {name} = {theirs!r}, and these would have {mine!r}; remove it, "
                        "or copy the trajectories elsewhere"
                    )
        self.player = player

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep the file open and locked, so that two commands never write into it at once.

        Raises:
            FolderInUse: another process plays forks into it.
            StoreError: it cannot be written, or its folder holds a link.
        """
        if self.path is None or self._handle is not None:
            yield
            return
        require_plain_files(self.path.parent)
        try:
            self._handle = self.path.open("r+b" if self.path.exists() else "x+b")
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FolderInUse(f"another process plays forks into {self.path}; wait for it") from error
            self._read(self.path, require_player=True)  # what others have added since
            yield
        finally:
            if self._handle is not None:
                self._handle.close()
                self._handle = None
            if not self._size and self.path.exists() and not self.path.stat().st_size:
                self.path.unlink()

    def append(self, record: ForkRecord) -> None:
        """Keep a fork, and write it if there is a path."""
        with self.writing():
            self._keep(record)
            if self._handle is None:
                return
            self._handle.seek(self._size)
            self._handle.truncate()
            if not self._size:
                head = json_text({"truth": VERSION, "player": dict(self.player)}, compact=True)
                self._handle.write(head.encode("ascii") + b"\n")
            self._handle.write(record.to_json().encode("ascii") + b"\n")
            self._handle.flush()
            self._size = self._handle.tell()

    def _keep(self, record: ForkRecord) -> None:
        self.forks.setdefault(record.history, {})[record.number] = record

    def count(self, history: str) -> int:
        """Return how many forks of a history there are."""
        return len(self.forks.get(history, ()))

    def next_number(self, history: str) -> int:
        """Return the number of the next fork of a history."""
        return max(self.forks.get(history, (-1,)), default=-1) + 1

    def values(self, history: str, gamma: float, invalid_penalty: float) -> list[float]:
        """Return the returns of the forks of a history, in the order of their numbers."""
        forks = self.forks.get(history, {})
        return [forks[number].value(gamma, invalid_penalty) for number in sorted(forks)]

    def __len__(self) -> int:
        """Return the number of forks."""
        return sum(map(len, self.forks.values()))


def _entries(path: Path) -> Iterator[tuple[object, int]]:
    """Yield each complete line of a file with the position after it."""
    size, end = os.path.getsize(path), 0
    try:
        for number, line in enumerate(split_lines(DecodedFile(path), max_line=MAX_LINE, label=str(path)), start=1):
            end += len(line) + 1
            if end > size:
                return  # its writer was killed
            yield parse_json(line, f"{path}, line {number}", max_bytes=MAX_LINE), end
    except InputError as error:
        raise StoreError(str(error)) from error
