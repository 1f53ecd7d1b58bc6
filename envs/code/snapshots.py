"""A code task's episode as data, read back: files that an agent can have made, and shares of tests (see `env`)."""

from __future__ import annotations

from turnwise.envs.code.task import CodeTask, fingerprint
from turnwise.envs.code.workspace import refuse_file
from turnwise.envs.errors import BadSnapshot
from turnwise.envs.snapshot import Fields
from turnwise.tools.sandbox import BadPath
from turnwise.tools.sandbox.files import split_path

__all__ = ["check_task", "files_of", "share_of"]


def check_task(saved: Fields, task: CodeTask) -> None:
    """Refuse a snapshot of a task that reads otherwise here.

    Raises:
        BadSnapshot: it does.
    """
    if fingerprint(task) != saved.get("fingerprint", str):
        raise BadSnapshot(f"the task {task.id!r} is not the same here as in the snapshot")


def files_of(saved: Fields, task: CodeTask) -> dict[str, str]:
    """Return the files of a snapshot, which an agent can have made of the task's.

    Raises:
        BadSnapshot: it cannot have.
    """
    found = saved.get("files", dict)
    if not all(isinstance(text, str) for text in found.values()):
        raise saved.wrong("files", "an object of texts by path")
    known = {path: text for path, text in found.items() if path in task.files}
    for path, text in found.items():
        if task.files.get(path) == text:
            continue
        try:
            split_path(path)
            refuse_file(known, path, text)
        except (LookupError, BadPath) as error:
            raise BadSnapshot(f"the snapshot's files cannot be: {error.args[0]}") from None
        known[path] = text
    return dict(found)


def share_of(saved: Fields, name: str) -> float:
    """Return a share of tests.

    Raises:
        BadSnapshot: it is no number from 0 to 1.
    """
    value = saved.get(name, float)
    if not 0 <= value <= 1 + 1e-9:  # a sum of rises
        raise saved.wrong(name, "a number from 0 to 1")
    return value
