"""Which stored trajectories of a run are kept, where checkpoints.keep_trajectories bounds them.

Training never reads them again: what a resumed run needs of rollouts in play lies in the run's folder "groups".
"""

from collections.abc import Sequence
from pathlib import Path

from turncredit.agents.files.image_store import ImageStore, images_of
from turncredit.agents.files.trajectory_files import iteration_files, read_trajectories


def prune_trajectories(folder: Path, checkpoints: Sequence[int], *, keep: int, oldest: int) -> list[int]:
    """Remove the trajectories of old iterations, and return which ones.

    The newest checkpoints.keep_trajectories iterations stay, counted back from the oldest kept checkpoint: whichever
    of them a run resumes from, so many stay behind it. So does all that an audit can score with weights that are kept,
    those before training included.

    Args:
        folder: folder of the run.
        checkpoints: finished iterations of the checkpoints that are kept.
        keep: checkpoints.keep_trajectories; with 0, nothing is removed.
        oldest: maximum age of a turn that is trained on, in updates.
    """
    if not keep or not checkpoints:
        return []
    last = min(checkpoints) - keep
    first = 1 + oldest  # the last that the weights before training may have played
    files = iteration_files(folder / "trajectories")
    removed = {number: path for number, path in files.items() if first < number <= last}
    _remove_images(list(removed.values()), [path for path in files.values() if path not in removed.values()])
    for path in removed.values():
        path.unlink(missing_ok=True)
    return list(removed)


def _remove_images(removed: Sequence[Path], kept: Sequence[Path]) -> None:
    """Remove the images that only the trajectories of removed files refer to.

    Other files of the run may refer to images that were stored again since then; those stay.
    """
    if not removed or not (store := ImageStore.of(removed[0])).folder.exists():
        return
    needed = {image.key for path in kept for episode in read_trajectories(path) for image in images_of(episode)}
    for path in removed:
        keys = {image.key for episode in read_trajectories(path) for image in images_of(episode)}
        store.remove(keys - needed, before=path.stat().st_mtime)
