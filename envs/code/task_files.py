"""Reads tasks from files, in one of `turncredit.envs.code.formats`, and from folders with pytest files.

A folder contains one folder for each task: statement.md, files/ (the files at the start), visible/ and hidden/
(test_*.py and the files that they use), and optionally solution/. The agent can read the visible tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from turncredit.envs.code.formats import TASK_FORMATS
from turncredit.envs.code.pytest_suites import suites
from turncredit.envs.code.task import MAIN, BadTask, CodeTask
from turncredit.envs.errors import EnvError, GameFileError, NoGames
from turncredit.tools.bounded_input import InputError, read_text
from turncredit.tools.readers import Record, read_records

__all__ = ["read_tasks"]
_MOST: Final = 16 << 20
"""Bytes of a file of a task."""


def read_tasks(path: Path, *, strict: bool = True) -> tuple[list[CodeTask], int]:
    """Return the tasks in a file or folder, and the number of skipped ones.

    Args:
        path: JSON lines, a JSON list, CSV, TSV or Parquet; or a folder.
        strict: raise for an invalid task; False skips and counts it.

    Raises:
        NoGames: there are no tasks.
        GameFileError: a task is invalid; names the file, the line and the problem.
    """
    if (path / "task.toml").is_file() or any(path.glob("*/task.toml")):
        raise NoGames(
            f"{path} has Harbor task folders, which turncredit/Bash-v0 plays, and no tasks of turncredit/Code-v0"
        )
    if path.is_dir():
        entries: Iterator[tuple[str, int | None, Callable[[], CodeTask]]] = _folders(path)
    elif path.is_file():
        entries = _records(path)
    else:
        raise NoGames(f"no tasks at {path}: no such file or folder")
    try:
        tasks, skipped = _made(entries, strict)
    except (InputError, OSError) as error:
        raise NoGames(f"no tasks at {path}: {error}") from error
    if not tasks and not skipped:
        raise NoGames(f"no tasks in {path}: it is empty, or contains no folder with a statement.md")
    return list(tasks.values()), skipped


def _made(
    entries: Iterator[tuple[str, int | None, Callable[[], CodeTask]]], strict: bool
) -> tuple[dict[str, CodeTask], int]:
    """Return the tasks by id, and the number of skipped ones."""
    tasks: dict[str, CodeTask] = {}
    skipped = 0
    for where, line, make in entries:
        try:
            task = make()
            if task.id in tasks:
                raise BadTask(f"duplicate task id {task.id!r}")
            tasks[task.id] = task
        except (EnvError, ValueError, RecursionError) as error:
            if strict:
                raise GameFileError(where, line, str(error)) from None
            skipped += 1
    return tasks, skipped


def _records(path: Path) -> Iterator[tuple[str, int | None, Callable[[], CodeTask]]]:
    for record in read_records(path):
        yield str(path), record.line, lambda record=record: _task(record)  # type: ignore[misc]


def _task(record: Record) -> CodeTask:
    try:
        if record.problem:
            raise BadTask(record.problem)
        return TASK_FORMATS.read(record.fields, str(record.number))
    except (EnvError, ValueError, RecursionError) as error:
        raise BadTask(f"{record.prefix}{error}") from None


def _folders(path: Path) -> Iterator[tuple[str, int | None, Callable[[], CodeTask]]]:
    for statement in sorted(path.glob("*/statement.md")):
        yield str(statement.parent), None, lambda folder=statement.parent: _folder(folder)  # type: ignore[misc]


def _folder(folder: Path) -> CodeTask:
    files, solution = _below(folder / "files"), _below(folder / "solution")
    sources = [name for name in sorted({**solution, **files}) if name.endswith(".py")]
    main = MAIN if MAIN in sources or not sources else sources[0]
    visible, hidden = _below(folder / "visible"), _below(folder / "hidden")
    return CodeTask(
        id=folder.name,
        statement=_read(folder / "statement.md"),
        files={**(files or {main: ""}), **visible},
        visible=suites(visible, {**files, **solution}, "visible"),
        hidden=suites(hidden, {**files, **solution}, "hidden"),
        solution=solution,
        main=main,
        kind="folder",
    )


def _below(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> str:
    try:
        return read_text(path, max_bytes=_MOST)
    except InputError as error:
        raise BadTask(str(error)) from None
