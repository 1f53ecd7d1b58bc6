"""Paths that a user names: a run folder, one of its checkpoints, or a file of trajectories.

A run folder holds `run.toml`, `checkpoints/` and `trajectories/`. Files and checkpoints inside a run folder belong to
that run, so its settings are the defaults of what reads them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.errors import StoreError
from turncredit.training.errors import CheckpointError, ConfigError
from turncredit.training.run_folder.warm_start_progress import find_progress

if TYPE_CHECKING:
    from turncredit.training.config.run import Run

RUN_FILE = "run.toml"
COMMANDS = "commands.txt"
"""The command lines that started and continued a run, one a line."""

_EMPTY = 40
"""Bytes that a compressed file without a trajectory has at most."""


def run_of(path: Path) -> Run | None:
    """Return the run that a file or folder belongs to, or None if it belongs to none.

    The path itself, its parent and its grandparent are searched for `run.toml`.
    """
    from turncredit.training.config.run import Run

    absolute = path.resolve()
    for folder in (absolute, *list(absolute.parents)[:2]):
        if (folder / RUN_FILE).is_file():
            return Run.load(folder / RUN_FILE)
    return None


def find_checkpoint(path: Path, expected: str = "the folder of a run or checkpoint") -> Path:
    """Return the checkpoint folder that a path names: the path itself, or the newest intact one of a run folder.

    Evaluations, players and `policy.model` follow this one rule.

    Args:
        path: a checkpoint folder or a run folder.
        expected: what would have been accepted, for the error message.

    Raises:
        CheckpointError: the path does not exist, holds no checkpoint, or is a damaged one.
    """
    from turncredit.agents.models.weights import is_adapter
    from turncredit.training.run_folder.checkpoint import require_whole, verify

    if not path.exists():
        folder = _run_around(path)
        raise CheckpointError(f"{path} does not exist; {_choices(folder) if folder else f'expected {expected}'}")
    if (path / "config.json").is_file() or is_adapter(path):
        require_whole(path)
        return path
    for checkpoint in _checkpoints(path):
        problem = verify(checkpoint)
        if problem is None:
            return checkpoint
        warnings.warn(f"checkpoint {checkpoint} is damaged: {problem}; an older checkpoint is used", stacklevel=2)
    if (path / RUN_FILE).is_file():
        raise CheckpointError(_choices(path))
    raise CheckpointError(
        f"{path} holds no checkpoint: it has neither config.json nor an intact folder in checkpoints/"
    )


def with_checkpoint(run: Run, *, resume: bool = False) -> Run:
    """Return a run whose `policy.model` names a model; the folder of a run there means its newest intact checkpoint.

    Args:
        run: the configuration.
        resume: whether the run goes on, with the checkpoint that it began with.

    Raises:
        ConfigError: `policy.model` lies in the folder of a run, which holds no such model, or an adapter alone where
            `policy.lora` needs a whole model; the message says what there is.
    """
    from turncredit.agents.models.weights import is_adapter
    from turncredit.training.config.run import Run

    path = Path(run.policy.model).expanduser()
    if not run.policy.model or not (_holds_checkpoints(path) or (not path.exists() and _run_around(path))):
        return run
    begun = run.folder / RUN_FILE
    recorded = Run.load(begun).policy.model if resume and begun.is_file() else ""
    if recorded and path.resolve() in Path(recorded).expanduser().resolve().parents:
        model = Path(recorded)
    else:
        try:
            model = find_checkpoint(path)
        except CheckpointError as error:
            raise ConfigError(f"policy.model: {error}") from error
    if run.policy.lora and is_adapter(model):
        final = path / "final"
        remedy = f"set policy.model={final}" if final.is_dir() else f"finish that run, which writes {final}"
        raise ConfigError(
            f"policy.model: {model} is an adapter, and policy.lora needs a whole model: {remedy}, or leave out "
            "policy.lora, which merges the adapter"
        )
    return run.model_copy(update={"policy": run.policy.model_copy(update={"model": str(model)})})


def _holds_checkpoints(path: Path) -> bool:
    """Whether a folder is that of a run, or its folder of checkpoints."""
    return (path / RUN_FILE).is_file() or (path.name == "checkpoints" and (path.parent / RUN_FILE).is_file())


def _run_around(path: Path) -> Path | None:
    """Return the folder of the run that a path without a file points into; None if there is none."""
    folder = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    return folder if (folder / RUN_FILE).is_file() else None


def _checkpoints(path: Path) -> list[Path]:
    """Return the checkpoints in the folder of a run or in its folder of checkpoints, the newest first."""
    from turncredit.training.run_folder.checkpoint import Checkpoints

    checkpoints = Checkpoints(path if path.name == "checkpoints" else path / "checkpoints")
    return [checkpoints.path(step) for step in reversed(checkpoints.steps())]


def _choices(folder: Path) -> str:
    """Return a sentence about the checkpoints of a run that can be used, and how to name them."""
    from turncredit.training.run_folder.checkpoint import verify

    checkpoints = _checkpoints(folder)
    intact = [checkpoint for checkpoint in checkpoints if verify(checkpoint) is None]
    if not checkpoints:
        progress = find_progress(folder)
        at = "was not finished" if progress is None else f"is at {progress}"
        return f"{folder} holds no checkpoint yet: its warm start {at} (turncredit train {folder} --resume)"
    if not intact:
        return f"{folder} holds no intact checkpoint; damaged: {', '.join(path.name for path in checkpoints)}"
    names = [f"{path.name}{' (the warm start)' if int(path.name) == 0 else ''}" for path in intact]
    return (
        f"{folder} holds the checkpoints {', '.join(names)}, newest first: name one of them, such as {intact[-1]}, or "
        f"{folder} for the newest"
    )


def trajectory_file(path: Path, iteration: int | None = None) -> Path:
    """Return the trajectory file that a path names: the path itself, or one iteration of a run folder.

    Args:
        path: a trajectory file or a run folder.
        iteration: number of the iteration; None: the newest that has trajectories.

    Raises:
        StoreError: the path does not exist, the folder holds no trajectories of that iteration, or an iteration was
            given with a file.
    """
    if not path.exists():
        raise StoreError(f"{path} does not exist; expected a run folder or a .jsonl file")
    if not path.is_dir():
        if iteration is not None:
            raise StoreError(f"--iteration needs a run folder, but {path} is a file")
        return path
    from turncredit.agents.files.trajectory_files import iteration_files

    files = iteration_files(path / "trajectories" if (path / "trajectories").is_dir() else path)
    if not files:
        progress = find_progress(path)
        reason = "expected a run folder or a .jsonl file" if progress is None else f"its warm start is at {progress}"
        raise StoreError(f"{path} holds no trajectories; {reason}")
    if iteration is not None and iteration not in files:
        raise StoreError(f"{path} has no trajectories of iteration {iteration}; it has {min(files)} to {max(files)}")
    if iteration is not None:
        return files[iteration]
    filled = [number for number, file in files.items() if file.stat().st_size > _EMPTY]
    return files[max(filled or files)]  # the newest is empty if the run was stopped in its first episodes
