"""Which stored trajectories of a run are kept, where train.keep_trajectories bounds them.

Training never reads them again: what a resumed run needs of rollouts in play lies in the run's folder "groups".
"""

from collections.abc import Sequence
from pathlib import Path

from turnwise.agents.files.trajectory_files import iteration_files
from turnwise.training.config.sections import TrainSection


def prune_trajectories(folder: Path, section: TrainSection, checkpoints: Sequence[int]) -> list[int]:
    """Remove the trajectories of old iterations, and return which ones.

    The newest train.keep_trajectories iterations stay, counted back from the oldest checkpoint that is kept: whichever
    of them a run resumes from, so many stay behind it. So does all that an audit can score with weights that are kept,
    those before training included.

    Args:
        folder: folder of the run.
        section: the `[train]` section; with keep_trajectories = 0, nothing is removed.
        checkpoints: finished iterations of the checkpoints that are kept.
    """
    if not section.keep_trajectories or not checkpoints:
        return []
    last = min(checkpoints) - section.keep_trajectories
    first = 1 + section.oldest  # the last that the weights before training may have played
    files = iteration_files(folder / "trajectories")
    removed = {number: path for number, path in files.items() if first < number <= last}
    for path in removed.values():
        path.unlink(missing_ok=True)
    return list(removed)
