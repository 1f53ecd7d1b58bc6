"""Exceptions of training that a user can cause; each message is one sentence that says what to do.

    TrainingError
    ├── ConfigError          an unknown key, an invalid value, or a key without effect
    ├── RunExists            the folder already holds a run
    ├── CheckpointError      a checkpoint cannot be written or read
    │   └── VocabularyMismatch
    ├── NotEnoughMemory      the model or a micro-batch does not fit into memory
    ├── EngineMismatch       the engine does not compute with the weights of the learner
    ├── RankLost             a process that trains with others has ended, or cannot be reached
    ├── RanksDisagree        the processes were started with different configurations
    └── NoDemonstrations     there is no demonstration that can be imitated

Programming errors, such as wrong shapes, are ValueErrors and are not part of this tree. What a rule of the curriculum
does wrong is a `turncredit.curriculum.errors.CurriculumError`.
"""


class TrainingError(Exception):
    """Base class of all exceptions of training."""


class ConfigError(TrainingError):
    """A key of a run is unknown, invalid, or without effect."""


class RunExists(TrainingError):
    """The output folder already holds a run, or holds none to resume."""


class CheckpointError(TrainingError):
    """A checkpoint cannot be written, or none can be read."""


class VocabularyMismatch(CheckpointError):
    """A checkpoint has another vocabulary than the run."""


class NotEnoughMemory(TrainingError):
    """The model, or a micro-batch of one sequence, does not fit into memory."""


class EngineMismatch(TrainingError):
    """The engine does not compute with the weights of the learner."""


class RankLost(TrainingError):
    """A rank has ended, or cannot be reached."""


class RanksDisagree(TrainingError):
    """The ranks were started with different configurations."""


class NoDemonstrations(TrainingError):
    """No demonstration can be imitated."""
