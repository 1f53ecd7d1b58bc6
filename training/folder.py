"""The folder of a run: who may write in it, what says which run it is, and where things lie.

    RUN/run.toml            the configuration, defaults included, less what has no effect in the run
    RUN/meta.json           versions of packages, platform
    RUN/panel.json          the tasks of evaluation, by id
    RUN/metrics.jsonl       one line an event
    RUN/before.json         evaluation after the warm start          RUN/after.json    after training
    RUN/evaluations/        all evaluations, by iteration            RUN/trajectories/ what was played, by iteration
    RUN/checkpoints/        see turnwise.training.checkpoint         RUN/.lock         held while a process trains

Left out on purpose: removing a run; that is a person's decision.
"""

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from turnwise.agents.store import name_file_in_errors
from turnwise.training.config import Run
from turnwise.training.errors import ConfigError, FolderInUse, RunExists, TrainingError

PACKAGES = ("turnwise", "torch", "transformers", "tokenizers", "numpy", "gymnasium")
MAY_CHANGE = (
    "output",
    "threads",
    "tensorboard",
    "train.steps",
    "train.checkpoint_every",
    "train.keep",
    "evaluation.every",
)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and hold it: a second process is refused, and the system lets go when this one dies.

    Raises:
        FolderInUse: another process holds it.
        TrainingError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise TrainingError(f"the run's folder {folder} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise FolderInUse(
                f"another process (id {holder}) trains in {folder}; wait for it or choose another output"
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write JSON beside and rename it, so that the name is never half a file."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text beside and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with name_file_in_errors(path), part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def begin(folder: Path, run: Run) -> None:
    """Start a run in its folder: write down what it is.

    Raises:
        RunExists: a run is there already, or what is left of one.
    """
    if (folder / "run.toml").exists():
        raise RunExists(f"{folder} already holds a run: --resume goes on with it, or choose another output")
    _refuse_remains(folder)
    write_json(folder / "meta.json", describe())
    write_text(folder / "run.toml", run.to_toml(effective=True))


def continued(folder: Path, run: Run) -> None:
    """Check that a run in its folder may go on under this configuration, and write that down.

    Raises:
        RunExists: there is none to go on with.
        ConfigError: a key has changed that would make it another run.
    """
    if not (folder / "run.toml").exists():
        _refuse_remains(folder)
        raise RunExists(f"{folder} holds no run to go on with; start it without --resume")
    changed = [key for key in differences(Run.load(folder / "run.toml"), run) if key not in MAY_CHANGE]
    if changed:
        raise ConfigError(
            f"{', '.join(changed)} changed since the run in {folder} was started; it can only go on as it was "
            f"(what may change: {', '.join(MAY_CHANGE)})"
        )
    write_text(folder / "run.toml", run.to_toml(effective=True))


def _refuse_remains(folder: Path) -> None:
    """Refuse a folder with metrics and no run.toml: nobody knows which run it was, so it is neither gone on with nor
    written over.
    """
    if (folder / "metrics.jsonl").exists():
        raise RunExists(f"{folder} holds the metrics of a run and no run.toml; choose another output, or clear it")


def differences(one: Run, other: Run) -> list[str]:
    """Give the dotted names of keys in which two runs differ."""
    mine, yours = _flat(one.model_dump()), _flat(other.model_dump())
    return sorted(key for key in mine.keys() | yours.keys() if mine.get(key) != yours.get(key))


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def describe() -> dict[str, Any]:
    """Give the versions of what computes."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": versions}
