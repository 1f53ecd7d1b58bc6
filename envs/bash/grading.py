"""Grading of file-system tasks: compares the files at the end, read from outside the sandbox, and the answer.

A required file must be a regular file with the right contents; in files that the task changes, one newline more or
less at the end is accepted. A symbolic link does not count as a file. All other paths must be unchanged, and no file
may be added. Folders are compared only if the task asks for them.

`BashGrade.intercode` is InterCode's reward:

    0.01 + 0.33 (1 - erf(n)) + 0.33 h + 0.33 a

n: number of paths changed by only one of agent and reference. h: fraction of the paths changed by both that are right,
1 if there are none. a: similarity of the answers, 1 if there is no question.

`BashGrade.partial` is the part of the way from that reward for doing nothing to 1: 0 for doing nothing, and for less.

Source: InterCode (Yang et al. 2023, arXiv:2306.14898), `bash_env.py`. Differences: the submitted answer is compared,
not the last output; the similarity is the cosine of word counts, without TF-IDF weights; nothing is rounded; the value
is 1 exactly when the task is solved.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.envs.bash.file_rules import path_is_right, same_answer
from turncredit.envs.bash.filetree import FileNode
from turncredit.envs.bash.task import BashTask
from turncredit.tools.sandbox import SandboxError
from turncredit.tools.sandbox.untrusted_archives import read_archive

__all__ = ["BashGrade", "grade", "same_answer"]

_MOST: Final = 16 << 20  # maximum size of an archive's contents in bytes
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class BashGrade:
    """Result of grading a task.

    Args:
        wrong: paths whose final state is wrong, sorted.
        answered: whether the answer is right; True if the task asks no question.
        intercode: InterCode's reward, in [0.01, 1].
        idle: InterCode's reward for doing nothing and giving no answer.
    """

    wrong: tuple[str, ...]
    answered: bool
    intercode: float
    idle: float

    @property
    def won(self) -> bool:
        """Whether files and answer are all right."""
        return self.answered and not self.wrong

    @property
    def partial(self) -> float:
        """What the reward is above that for doing nothing, in [0, 1]; 1 exactly when the task is solved."""
        return max(0.0, self.intercode - self.idle) / (1 - self.idle)


def grade(task: BashTask, tree: Mapping[str, FileNode], answer: str) -> BashGrade:
    """Return the grade of the final files and the submitted answer."""
    paths = sorted(task.after.keys() | tree.keys() | task.before.keys())
    wrong = tuple(path for path in paths if not _right(task, path, tree.get(path)))
    answered = not task.answer or same_answer(answer, task.answer)
    measure = 1.0 if answered and not wrong else _intercode(task, tree, answer)
    return BashGrade(wrong, answered, measure, _intercode(task, task.before, ""))


def _intercode(task: BashTask, tree: Mapping[str, FileNode], answer: str) -> float:
    """Return InterCode's reward for files and an answer that are not all right."""
    paths = task.after.keys() | tree.keys() | task.before.keys()
    ours = {path for path in paths if _differ(task, task.before.get(path), tree.get(path))}
    theirs = {path for path in paths if _differ(task, task.before.get(path), task.after.get(path))}
    both = ours & theirs
    share = sum(_right(task, path, tree.get(path)) for path in both) / len(both) if both else 1.0
    right = not task.answer or same_answer(answer, task.answer)
    alike = 1.0 if right else min(0.99, _similarity(answer, task.answer))
    return min(0.99, 0.01 + 0.33 * (1 - math.erf(len(ours ^ theirs))) + 0.33 * share + 0.33 * alike)


def _differ(task: BashTask, node: FileNode | None, other: FileNode | None) -> bool:
    """Return whether two states of a path differ in a way that matters."""
    if node is None or other is None:
        here = node or other
        return here is not None and here.kind != "folder"
    if node.kind == other.kind == "file" and not task.modes:
        return node.data != other.data
    return node != other if node.kind != "folder" else other.kind != "folder"


def _right(task: BashTask, path: str, node: FileNode | None) -> bool:
    return path_is_right(
        node,
        task.after.get(path),
        task.before.get(path),
        modes=task.modes,
        contents=_archive_contents if path in task.archives else None,
    )


def _archive_contents(data: bytes) -> dict[str, bytes] | None:
    """Return the files in a tar archive, gzipped or not; None if the data is not one or holds links."""
    try:
        if data[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(_MOST)
        entries = read_archive(data)
    except (SandboxError, OSError, EOFError, zlib.error):
        return None
    if any(entry.kind == "link" for entry in entries):
        return None
    return {entry.path: entry.data for entry in entries if entry.kind == "file"}


def _similarity(text: str, other: str) -> float:
    a, b = Counter(_WORD.findall(text.lower())), Counter(_WORD.findall(other.lower()))
    size = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return sum(a[word] * b[word] for word in a) / size if size else 0.0
