"""What a user can cause in training, as exceptions; each message is one sentence that says what to do.

    TrainingError
    ├── ConfigError          a key or value of the run's file
    ├── FolderInUse          another process trains in this folder
    ├── RunExists            the folder already holds a run
    ├── CheckpointError      a checkpoint that cannot be written or read
    │   └── VocabularyMismatch
    └── NoDemonstrations     imitation found nothing to imitate

Programming errors (wrong shapes) are ValueErrors and are not in this tree.
"""

import difflib
from collections.abc import Iterable


class TrainingError(Exception):
    """Root of what a user can cause in training."""


class ConfigError(TrainingError):
    """A key that is unknown, that nothing read, or whose value cannot be."""


class FolderInUse(TrainingError):
    """Another live process trains in the run's folder."""


class RunExists(TrainingError):
    """The run's folder already holds a run, and resuming was not asked for (or cannot be)."""


class CheckpointError(TrainingError):
    """A checkpoint could not be written, or none could be read."""


class VocabularyMismatch(CheckpointError):
    """A checkpoint speaks another vocabulary than the one it should continue with."""


class NoDemonstrations(TrainingError):
    """Imitation was asked for, and no usable demonstration came."""


def near(name: str, choices: Iterable[str]) -> str:
    """Say which of the choices may have been meant, as the end of a sentence.

    Args:
        name: what came.
        choices: what would have been understood.

    Returns:
        "; did you mean 'x'?" when one is near, else "; choices: a, b, c".
    """
    known = list(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; choices: {', '.join(sorted(known))}"
