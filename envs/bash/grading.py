"""Whether a task is done: the files at the end, seen from outside the box, and the answer, against what was asked for.

A file counts when it is a plain file with the right contents (a missing or added line end at the end of the file is
forgiven in files that were to be changed). A link is not a file, wherever it points. Every other path of the task has
to be as it was, and nothing may lie there besides; folders count only where they were asked for.

`partial` gives the share of InterCode's reward (Yang and others, 2023, arXiv 2306.14898; `bash_env.py`):

    0.01 + 0.33 (1 - erf(n)) + 0.33 h + 0.33 a

n: paths that only the agent or only the expert changed. h: of the paths that both changed, the share that is right; 1
where there is none. a: similarity of the answers, 1 where nothing was asked. Where we differ: the answer is what was
submitted, and not the last output; the similarity is the cosine of the counts of words, without weights for rare words,
which two texts give no measure of; nothing is rounded; and it is 1 exactly when the task is done, else below.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from turnwise.envs.bash.filetree import FileNode
from turnwise.envs.bash.task import BashTask

__all__ = ["BashGrade", "grade", "same_answer"]

_MOST: Final = 16 << 20  # bytes of an archive's contents
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class BashGrade:
    """What became of a task.

    Args:
        wrong: paths that are not as they have to be, sorted.
        answered: the answer is right, or none was asked for.
        partial: InterCode's reward, from 0.01 to 1.
    """

    wrong: tuple[str, ...]
    answered: bool
    partial: float

    @property
    def won(self) -> bool:
        """The whole task is done."""
        return self.answered and not self.wrong


def grade(task: BashTask, tree: Mapping[str, FileNode], answer: str) -> BashGrade:
    """Return the verdict on the files that are there at the end, and on an answer."""
    paths = sorted(task.after.keys() | tree.keys() | task.before.keys())
    wrong = tuple(path for path in paths if not _right(task, path, tree.get(path)))
    answered = not task.answer or same_answer(answer, task.answer)
    if not wrong and answered:
        return BashGrade(wrong, answered, 1.0)
    ours = {path for path in paths if _apart(task, task.before.get(path), tree.get(path))}
    theirs = {path for path in paths if _apart(task, task.before.get(path), task.after.get(path))}
    both = ours & theirs
    share = sum(path not in wrong for path in both) / len(both) if both else 1.0
    alike = 1.0 if answered else min(0.99, _likeness(answer, task.answer))
    score = 0.01 + 0.33 * (1 - math.erf(len(ours ^ theirs))) + 0.33 * share + 0.33 * alike
    return BashGrade(wrong, answered, min(score, 0.99))


def _apart(task: BashTask, one: FileNode | None, other: FileNode | None) -> bool:
    """Return whether a path was changed, as far as that counts."""
    if one is None or other is None:
        here = one or other
        return here is not None and here.kind != "folder"
    if one.kind == other.kind == "file" and not task.modes:
        return one.data != other.data
    return one != other if one.kind != "folder" else other.kind != "folder"


def _right(task: BashTask, path: str, found: FileNode | None) -> bool:
    wanted = task.after.get(path)
    if wanted is None:
        return found is None or found.kind == "folder"
    if wanted.kind == "folder":
        asked = path not in task.before
        return found.kind == "folder" if found else not asked
    if found is None or found.kind != wanted.kind:
        return False
    if task.modes and found.mode != wanted.mode:
        return False
    if path in task.archives:
        return (contents := _packed(found.data)) is not None and contents == _packed(wanted.data)
    if found.data == wanted.data:
        return True
    return task.before.get(path) != wanted and found.data.removesuffix(b"\n") == wanted.data.removesuffix(b"\n")


def _packed(data: bytes) -> dict[str, bytes] | None:
    """Return what a tar archive holds, compressed by gzip or not; None for anything else."""
    found: dict[str, bytes] = {}
    try:
        if data[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(_MOST)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    continue
                inner = tar.extractfile(member) if member.isfile() else None
                if inner is None:
                    return None
                found[member.name.removeprefix("./")] = inner.read(_MOST)
    except (tarfile.TarError, OSError, EOFError, ValueError, KeyError, zlib.error):
        return None
    return found


def same_answer(given: str, wanted: str) -> bool:
    """Return whether an answer is the wanted one: white space, quotes around it and the spelling of numbers aside.

    >>> same_answer(" `1,200` ", "1200"), same_answer("12 files", "12")
    (True, False)
    """
    given = " ".join(given.split()).strip("`'\"").removeprefix("./").strip()
    if given == wanted:
        return True
    number = _number(wanted)
    return number is not None and _number(given.replace(",", "")) == number


def _number(text: str) -> Decimal | None:
    if len(text) > 40 or not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _likeness(one: str, other: str) -> float:
    a, b = Counter(_WORD.findall(one.lower())), Counter(_WORD.findall(other.lower()))
    size = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return sum(a[word] * b[word] for word in a) / size if size else 0.0
