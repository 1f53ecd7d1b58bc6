"""Validates the fields of a restored code episode: the task, the files and the fractions of passed tests."""

from __future__ import annotations

from turncredit.envs.code.task import CodeTask, fingerprint
from turncredit.envs.code.workspace import refuse_file
from turncredit.envs.errors import BadSnapshot
from turncredit.envs.snapshot import Fields
from turncredit.tools.sandbox import BadPath
from turncredit.tools.sandbox.files import split_path

__all__ = ["check_task", "files_of", "share_of"]


def check_task(saved: Fields, task: CodeTask) -> None:
    """Raise BadSnapshot if the snapshot's task differs from the one here."""
    if fingerprint(task) != saved.get("fingerprint", str):
        raise BadSnapshot(f"task {task.id!r} differs from the one in the snapshot")


def files_of(saved: Fields, task: CodeTask) -> dict[str, str]:
    """Return the files in a snapshot.

    Raises:
        BadSnapshot: an agent could not have produced these files.
    """
    files = saved.get("files", dict)
    if not all(isinstance(text, str) for text in files.values()):
        raise saved.wrong("files", "an object that maps paths to strings")
    present = {path: text for path, text in files.items() if path in task.files}
    for path, text in files.items():
        if task.files.get(path) == text:
            continue
        try:
            split_path(path)
            refuse_file(present, path, text)
        except (LookupError, BadPath) as error:
            raise BadSnapshot(f"the snapshot has invalid files: {error.args[0]}") from None
        present[path] = text
    return dict(files)


def share_of(saved: Fields, name: str) -> float:
    """Return a fraction of passed tests.

    Raises:
        BadSnapshot: the value is not a number in [0, 1].
    """
    value = saved.get(name, float)
    if not 0 <= value <= 1 + 1e-9:  # a sum with rounding errors
        raise saved.wrong(name, "a number in [0, 1]")
    return value
