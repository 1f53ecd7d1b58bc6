"""Paths that a user names: a run folder, one of its checkpoints, or a file of trajectories.

A run folder holds `run.toml`, `checkpoints/` and `trajectories/`. Files and checkpoints inside a run folder belong to
that run, so its settings are the defaults of what reads them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.agents.errors import StoreError
from turnwise.training.errors import CheckpointError

if TYPE_CHECKING:
    from turnwise.training.config.run import Run

RUN_FILE = "run.toml"
COMMANDS = "commands.txt"
"""The command lines that started and continued a run, one a line."""

_EMPTY = 40
"""Bytes that a compressed file without a trajectory has at most."""


def run_of(path: Path) -> Run | None:
    """Return the run that a file or folder belongs to, or None if it belongs to none.

    The path itself, its parent and its grandparent are searched for `run.toml`.
    """
    from turnwise.training.config.run import Run

    absolute = path.resolve()
    for folder in (absolute, *list(absolute.parents)[:2]):
        if (folder / RUN_FILE).is_file():
            return Run.load(folder / RUN_FILE)
    return None


def find_checkpoint(path: Path, expected: str = "the folder of a run or checkpoint") -> Path:
    """Return the checkpoint folder that a path names: the path itself, or the newest intact one of a run folder.

    Args:
        path: a checkpoint folder or a run folder.
        expected: what would have been accepted, for the error message.

    Raises:
        CheckpointError: the path does not exist, holds no checkpoint, or is a damaged one.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; expected {expected}")
    from turnwise.agents.models.weights import is_adapter
    from turnwise.training.run_folder.checkpoint import Checkpoints, require_whole, verify

    if (path / "config.json").is_file() or is_adapter(path):
        require_whole(path)
        return path
    checkpoints = Checkpoints(path if path.name == "checkpoints" else path / "checkpoints")
    for step in reversed(checkpoints.steps()):
        problem = verify(checkpoints.path(step))
        if problem is None:
            return checkpoints.path(step)
        warnings.warn(f"{problem}; an older checkpoint is used", stacklevel=2)
    raise CheckpointError(
        f"{path} holds no checkpoint: it has neither config.json nor an intact folder in checkpoints/"
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
    from turnwise.agents.files.trajectory_files import iteration_files

    files = iteration_files(path / "trajectories" if (path / "trajectories").is_dir() else path)
    if not files:
        raise StoreError(f"{path} holds no trajectories; expected a run folder or a .jsonl file")
    if iteration is not None and iteration not in files:
        raise StoreError(f"{path} has no trajectories of iteration {iteration}; it has {min(files)} to {max(files)}")
    if iteration is not None:
        return files[iteration]
    filled = [number for number, file in files.items() if file.stat().st_size > _EMPTY]
    return files[max(filled or files)]  # the newest is empty if the run was stopped in its first episodes
