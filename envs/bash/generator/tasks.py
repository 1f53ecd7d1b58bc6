"""A task from its id, SPLIT/LEVEL/NUMBER, such as "held_out/small/000012".

The splits are disjoint by construction: each has its own names for the task's folder, which occurs in the statement,
files and commands of every task. Families alternate by number, so any prefix of the ids contains all equally often.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from turncredit.envs.bash.filetree import with_folders
from turncredit.envs.bash.generator import file_families, question_families, text_families
from turncredit.envs.bash.generator.builder import TaskBuilder, TaskDraft
from turncredit.envs.bash.generator.level import FAMILY_NAMES, BashLevel
from turncredit.envs.bash.task import BashTask
from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.registry import suggest

__all__ = ["FAMILIES", "SPLITS", "generate", "task_ids"]

SPLITS: Final = ("train", "held_out")
_FAMILIES: Final[dict[str, Callable[[TaskBuilder], TaskDraft]]] = {
    "archive": file_families.archive,
    "clean": file_families.clean,
    "columns": text_families.columns,
    "compare": text_families.compare,
    "count": question_families.count,
    "find": text_families.find,
    "log": question_families.log,
    "merge": text_families.merge,
    "modes": file_families.modes,
    "move": file_families.move,
    "rename": file_families.rename,
    "replace": text_families.replace,
    "sum": question_families.sum_,
    "tree": file_families.tree,
}
FAMILIES: Final = FAMILY_NAMES
_ID: Final = re.compile(r"(?P<split>[a-z_]+)/(?P<level>[^/]+)/(?P<number>[0-9]{6,12})")
_LEAVE: Final = "Leave all other files as they are."


def task_ids(split: str, level: BashLevel, count: int, start: int = 0) -> list[str]:
    """Return `count` ids, starting with number `start`, without generating the tasks."""
    return [f"{split}/{level.text}/{number:06d}" for number in range(start, start + count)]


@lru_cache(maxsize=64)
def generate(id: str) -> BashTask:
    """Return the generated task with an id.

    Raises:
        UnknownTask: the text is not the id of a generated task.
    """
    match = _ID.fullmatch(id)
    if match is None or match["split"] not in SPLITS:
        raise UnknownTask(f"unknown task {id!r} among generated shell tasks: ids are like 'train/small/000012'")
    number = int(match["number"])
    try:
        level = BashLevel.parse(match["level"])
    except UnknownOption as error:
        raise UnknownTask(f"unknown task {id!r} among generated shell tasks: {error}") from None
    (canonical,) = task_ids(match["split"], level, 1, number)
    if id != canonical:
        raise UnknownTask(f"unknown task {id!r} among generated shell tasks{suggest(id, [canonical])}")
    names = level.families or FAMILIES
    return _build(id, names[number % len(names)], TaskBuilder(f"shell {id}", match["split"], level))


def _build(id: str, family: str, build: TaskBuilder) -> BashTask:
    draft = _FAMILIES[family](build)
    before = with_folders(build.files)
    remaining = {path: node for path, node in build.files.items() if path not in draft.gone}
    statement = draft.statement if draft.answer else f"{draft.statement} {_LEAVE}"
    return BashTask(
        id=id,
        family=family,
        statement=statement,
        before=before,
        after=with_folders({**remaining, **draft.made}),
        commands=draft.commands,
        answer=draft.answer,
        archives=frozenset(draft.archives),
        modes=draft.modes,
    )
