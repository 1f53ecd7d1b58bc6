"""Paths on the command line: a run folder, one of its checkpoints, or a file of trajectories.

A run folder holds `run.toml`, `checkpoints/` and `trajectories/`. Files and checkpoints inside a run folder belong to
that run, so commands take its settings as their defaults.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.cli.console import warn
from turnwise.cli.errors import UserError

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


def find_checkpoint(path: Path, players: Iterable[str] = ()) -> Path:
    """Return the checkpoint folder that a path names: the path itself, or the newest intact one of a run folder.

    Args:
        path: a checkpoint folder or a run folder.
        players: other names that would have been accepted, for the error message.

    Raises:
        UserError: the path does not exist or holds no checkpoint.
        CheckpointError: the path is a damaged checkpoint.
    """
    if not path.exists():
        accepted = ", ".join(["the path of a run or checkpoint", *players])
        raise UserError(f"{path} does not exist; expected {accepted}, expert or random")
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
        warn(f"{problem}; an older checkpoint is used")
    raise UserError(f"{path} holds no checkpoint: it has neither config.json nor an intact folder in checkpoints/")


def trajectory_file(path: Path, iteration: int | None = None) -> Path:
    """Return the trajectory file that a path names: the path itself, or one iteration of a run folder.

    Args:
        path: a trajectory file or a run folder.
        iteration: which iteration of the run; None: the newest that has trajectories.

    Raises:
        UserError: the path does not exist, the folder holds no trajectories of that iteration, or an iteration was
            given with a file.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; expected a run folder or a .jsonl file")
    if not path.is_dir():
        if iteration is not None:
            raise UserError(f"--iteration needs a run folder, but {path} is a file")
        return path
    from turnwise.agents.files.trajectory_files import iteration_files

    files = iteration_files(path / "trajectories" if (path / "trajectories").is_dir() else path)
    if not files:
        raise UserError(f"{path} holds no trajectories; expected a run folder or a .jsonl file")
    if iteration is not None and iteration not in files:
        raise UserError(f"{path} has no trajectories of iteration {iteration}; it has {min(files)} to {max(files)}")
    if iteration is not None:
        return files[iteration]
    filled = [number for number, file in files.items() if file.stat().st_size > _EMPTY]
    return files[max(filled or files)]  # the newest is empty if the run was stopped in its first episodes


def resume_command(folder: Path) -> str:
    """Return the command that continues the run in a folder."""
    from turnwise.cli.file_options import needs_trust

    run = run_of(folder)
    trust = ["--trust"] if run is not None and needs_trust(run) else []
    return shlex.join(["turnwise", "train", str(folder), "--resume", *trust])
