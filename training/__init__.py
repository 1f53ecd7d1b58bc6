"""Training: a run's configuration, batches, objectives, the update, checkpoints and the loop.

Importing this package is cheap: torch and transformers are loaded when a name that needs them is first used. Every
objective is a name of it, `from turnwise.training import gspo`; `objectives` is their package, with more of each.
Left out on purpose: distributed training and weight transfer to other processes.
"""

from importlib import import_module
from typing import Any

from turnwise.training.config import Run
from turnwise.training.errors import (
    CheckpointError,
    ConfigError,
    FolderInUse,
    RunExists,
    TrainingError,
    VocabularyMismatch,
)

_OBJECTIVES = (
    "a_lol", "a_lol_ref_free", "a_lol_seq", "asymre", "cispo", "clip_cov", "dcpo", "decoupled", "dhpo", "dppo_tv",
    "dro", "etr", "gmpo", "gspo", "gspo_token", "hapo", "kl_cov", "kl_penalty", "llds", "opmd", "ppo_clip", "reinforce",
    "sapo", "self_imitation", "sspo", "vespo",
)  # fmt: skip
_LAZY = {
    **dict.fromkeys(_OBJECTIVES, "objectives"),
    "Batch": "batch",
    "Checkpoints": "checkpoint",
    "Objective": "objectives",
    "TaskSampler": "tasks",
    "imitate": "imitation",
    "pack": "batch",
    "steps_of": "steps",
    "train": "loop",
    "update": "update",
}

__all__ = [
    *_OBJECTIVES,
    "Batch",
    "CheckpointError",
    "Checkpoints",
    "ConfigError",
    "FolderInUse",
    "Objective",
    "Run",
    "RunExists",
    "TaskSampler",
    "TrainingError",
    "VocabularyMismatch",
    "imitate",
    "objectives",
    "pack",
    "steps_of",
    "train",
    "update",
]


def __getattr__(name: str) -> Any:
    """Load the module that holds a public name when the name is first asked for."""
    if name not in (*_LAZY, "objectives"):
        raise AttributeError(f"turnwise.training has no name {name!r}; it has {', '.join(__all__)}")
    try:
        module = import_module(f"turnwise.training.{_LAZY.get(name, name)}")
    except ModuleNotFoundError as error:
        if error.name in {"torch", "transformers", "tokenizers", "safetensors"}:
            raise TrainingError(f"training needs {error.name}: pip install turnwise[train]") from error
        raise
    return getattr(module, name) if name in _LAZY else module
