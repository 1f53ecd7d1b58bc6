"""How far an unfinished warm start was saved, as its folder tells it; nothing heavy is imported for that."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from turncredit.tools.bounded_input import InputError, read_json, read_lines
from turncredit.training.types import State

FOLDER = "imitation"
"""Name of the folder in that of the run."""
DEMONSTRATIONS = "demonstrations.jsonl"
"""Name of the file in it that holds the demonstrations which were played."""


def checkpoint_folders(parent: Path) -> list[Path]:
    """Return the folders of checkpoints in a folder, oldest first; one may still turn out to be incomplete.

    An empty folder is none, whatever its name.
    """
    if not parent.is_dir():
        return []
    named = [path for path in parent.iterdir() if re.fullmatch(r"\d{6,}", path.name)]
    named = [path for path in named if path.is_dir() and any(path.iterdir())]
    return sorted(named, key=lambda path: int(path.name))


@dataclass(frozen=True, slots=True)
class WarmStartProgress:
    """How far the warm start of a run was saved.

    Attributes:
        step: number of finished optimizer steps; 0 while demonstrations are collected.
        steps: number of all of them; 0: not known.
        demonstrations: those that were played.
    """

    step: int = 0
    steps: int = 0
    demonstrations: int = 0

    @classmethod
    def of(cls, state: State) -> Self:
        """Return the progress at a checkpoint, from its state."""
        return cls(int(state["step"]), int(state["steps"]))

    def __str__(self) -> str:
        if self.step:
            return f"step {self.step:,}" + (f" of {self.steps:,}" if self.steps else "")
        return f"{self.demonstrations:,} demonstration{'' if self.demonstrations == 1 else 's'}"


def find_progress(folder: Path) -> WarmStartProgress | None:
    """Return how far the unfinished warm start of a run was saved; None if nothing of it is kept.

    Args:
        folder: folder of the run.
    """
    checkpoints, demonstrations = checkpoint_folders(folder / FOLDER), folder / FOLDER / DEMONSTRATIONS
    if checkpoints:
        try:
            return WarmStartProgress.of(read_json(checkpoints[-1] / "state.json"))
        except (OSError, InputError, KeyError, TypeError, ValueError):  # it is damaged, which loading it says
            return WarmStartProgress(int(checkpoints[-1].name))
    try:
        played = sum(1 for _ in read_lines(demonstrations)) if demonstrations.is_file() else 0
    except (OSError, InputError):
        return None
    return WarmStartProgress(demonstrations=played) if played else None
