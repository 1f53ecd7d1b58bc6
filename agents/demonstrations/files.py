"""Reads files of demonstrations: trajectories of this program, and conversations of others."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import iteration_files, read_trajectories
from turncredit.agents.interchange.chat_records import DEMONSTRATION_FORMATS, read_record
from turncredit.agents.interchange.conversations import Demonstration, with_actions
from turncredit.agents.interchange.imported_folder import IMITATED, mistakes_of
from turncredit.agents.interchange.records import IMAGES
from turncredit.agents.prompts.parsing import Parsed
from turncredit.agents.trajectory import Trajectory
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Record, read_records

__all__ = ["read_demonstrations"]


def read_demonstrations(
    path: str | os.PathLike[str], parse: Callable[[str], Parsed], count: int | None = None
) -> list[Demonstration]:
    """Return the demonstrations in a file: trajectories, or conversations in one of `DEMONSTRATION_FORMATS`.

    Args:
        path: the file, or a folder of a run or an import.
        parse: returns the action in an answer, for conversations, which have answers only.
        count: number of demonstrations to read at most; None for all.

    Warns:
        UserWarning: images of conversations are left out.

    Raises:
        StoreError: a record is invalid, or no answer contains an action.
        OSError: the file cannot be read.
    """
    path = Path(path)
    try:
        demonstrations = [with_actions(item, parse) for item in islice(_read(path), count)]
    except InputError as error:
        raise StoreError(str(error)) from error
    if images := sum(IMAGES in item.left_out for item in demonstrations):
        warnings.warn(f"{path}: the images of {images:,} demonstrations are left out", stacklevel=2)
    answers = [turn for item in demonstrations if not item.stored for turn in item.trajectory.turns]
    if answers and all(turn.action is None for turn in answers):
        raise StoreError(
            f"none of the {len(answers):,} answers in {path} contains an action in the form of agent.parser; the first "
            f"is {answers[0].text[:80]!r}: {parse(answers[0].text).why}"
        )
    return demonstrations


def _read(path: Path) -> Iterator[Demonstration]:
    if path.is_dir() and (files := iteration_files(path / "trajectories")):
        for file in files.values():
            yield from map(_stored, read_trajectories(file))
        return
    first = next(read_records(path), None)
    if first is None or first.problem or _is_trajectory(first):
        yield from map(_stored, read_trajectories(path))
        return
    for record in read_records(path):
        yield read_record(path, record)


def _stored(trajectory: Trajectory) -> Demonstration:
    """Return the demonstration of a stored episode; one that was imported from a conversation is read as that."""
    imported = any(IMITATED in turn.extras for turn in trajectory.turns)
    return Demonstration(trajectory, mistakes_of(trajectory), stored=not imported)


def _is_trajectory(record: Record) -> bool:
    """Whether a record is a trajectory, perhaps a damaged one; conversations may have a version or turns as well."""
    conversation = any(candidate.recognises(record.fields) for candidate in DEMONSTRATION_FORMATS.formats)
    return bool({"turns", "version"} & record.fields.keys()) and not conversation
