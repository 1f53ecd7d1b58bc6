"""A task from its id: SPLIT/LEVEL/NUMBER, such as "held_out/small/000012".

Disjoint by construction: each split has names of its own for the folder that a task is about, and the statement, the
files and the commands of every task name that folder. Families go round by number, so that every beginning of a list of
ids holds all of them equally often.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from turnwise.envs.bash.filetree import with_folders
from turnwise.envs.bash.generator import file_families, question_families, text_families
from turnwise.envs.bash.generator.builder import TaskBuilder
from turnwise.envs.bash.generator.draft import TaskDraft
from turnwise.envs.bash.generator.level import FAMILY_NAMES, BashLevel
from turnwise.envs.bash.task import BashTask
from turnwise.envs.errors import UnknownOption, UnknownTask
from turnwise.registry import suggest

__all__ = ["FAMILIES", "SPLITS", "generate", "task_ids"]

SPLITS: Final = ("train", "held_out")
_MAKERS: Final[dict[str, Callable[[TaskBuilder], TaskDraft]]] = {
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
    """Return so many ids from a number on, without making the tasks."""
    return [f"{split}/{level.text}/{number:06d}" for number in range(start, start + count)]


@lru_cache(maxsize=64)
def generate(id: str) -> BashTask:
    """Return the task of an id.

    Raises:
        UnknownTask: the text is no id.
    """
    found = _ID.fullmatch(id)
    if found is None or found["split"] not in SPLITS:
        raise UnknownTask(f"unknown task {id!r} among generated shell tasks: ids are like 'train/small/000012'")
    number = int(found["number"])
    try:
        level = BashLevel.parse(found["level"])
    except UnknownOption as error:
        raise UnknownTask(f"unknown task {id!r} among generated shell tasks: {error}") from None
    (known,) = task_ids(found["split"], level, 1, number)
    if id != known:
        raise UnknownTask(f"unknown task {id!r} among generated shell tasks{suggest(id, [known])}")
    names = level.families or FAMILIES
    return _made(id, names[number % len(names)], TaskBuilder(f"shell {id}", found["split"], level))


def _made(id: str, family: str, scene: TaskBuilder) -> BashTask:
    draft = _MAKERS[family](scene)
    before = with_folders(scene.files)
    kept = {path: node for path, node in scene.files.items() if path not in draft.gone}
    statement = draft.statement if draft.answer else f"{draft.statement} {_LEAVE}"
    return BashTask(
        id=id,
        family=family,
        statement=statement,
        before=before,
        after=with_folders({**kept, **draft.made}),
        commands=draft.commands,
        answer=draft.answer,
        archives=frozenset(draft.archives),
        modes=draft.modes,
    )
