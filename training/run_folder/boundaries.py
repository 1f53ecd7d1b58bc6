"""What is saved at its boundaries, where weights and counters belong together: a training loop, or a warm start."""

from typing import Protocol

from turncredit.training.learner.learner import Learner
from turncredit.training.run_folder.checkpoint import Checkpoints
from turncredit.training.types import State


class SavedWork(Protocol):
    """What a checkpoint is made of."""

    learner: Learner
    step: int

    def state(self) -> State:
        """Return what a checkpoint keeps beside weights and learner, as JSON can hold it."""


def start_checkpoint(checkpoints: Checkpoints, work: SavedWork, boundary: State) -> None:
    """Begin to write the checkpoint of a boundary; that of several ranks is written while they go on.

    Args:
        checkpoints: of the run or of its warm start; none of them is being written.
        work: the work that has reached the boundary.
        boundary: its state there.

    Raises:
        CheckpointError: it cannot be written; the other checkpoints are intact.
    """
    learner = work.learner
    parts = learner.weights(), learner.tokenizer, learner.state(), boundary
    checkpoints.start(work.step, *parts, learner.save_shards, background=learner.ranks is not None)
