"""Training: the configuration of a run, batches, objectives, the learner, checkpoints and the loop.

Importing this package is cheap: torch and transformers are imported when a name that needs them is first used. Every
objective can be imported from here, as in `from turncredit.training import gspo`.
"""

from importlib import import_module
from typing import Any

from turncredit.installation import needs
from turncredit.training.config.run import Run
from turncredit.training.errors import (
    CheckpointError,
    ConfigError,
    RunExists,
    TrainingError,
    VocabularyMismatch,
)

_OBJECTIVES = (
    "a_lol", "a_lol_ref_free", "a_lol_seq", "aepo", "ampo", "asymre", "cispo", "clip_cov", "dcpo", "decoupled", "dhpo",
    "disco", "dppo_tv", "dro", "drpo", "etr", "gmpo", "grao", "gspo", "gspo_token", "hapo", "kl_cov", "kl_penalty",
    "llds", "opmd", "otr", "p3o", "pacs", "ppo_clip", "rec", "reg_grpo", "reinforce", "rl_plus", "rover", "sapo",
    "self_imitation", "sspo", "ter", "vespo",
)  # fmt: skip
_LAZY = {
    **dict.fromkeys(_OBJECTIVES, "objectives"),
    "Batch": "batch.batch",
    "Checkpoints": "run_folder.checkpoint",
    "Objective": "objectives",
    "Learner": "learner.learner",
    "LoadedAgent": "engine.loaded_agent",
    "TaskSampler": "turncredit.curriculum.task_order",
    "UpdatePlan": "learner.gradient",
    "imitate": "imitation.imitation",
    "load_agent": "engine.loaded_agent",
    "pack": "batch.batch",
    "steps_of": "turncredit.agents.steps",
    "train": "training_run",
}

__all__ = [
    *_OBJECTIVES,
    "Batch",
    "CheckpointError",
    "Checkpoints",
    "ConfigError",
    "Learner",
    "LoadedAgent",
    "Objective",
    "Run",
    "RunExists",
    "TaskSampler",
    "TrainingError",
    "UpdatePlan",
    "VocabularyMismatch",
    "imitate",
    "load_agent",
    "objectives",
    "pack",
    "steps_of",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used."""
    if name not in (*_LAZY, "objectives"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = _LAZY.get(name, name)
    try:
        module = import_module(path if path.startswith("turncredit.") else f"turncredit.training.{path}")
    except ModuleNotFoundError as error:
        if error.name in {"torch", "transformers", "tokenizers", "safetensors"}:
            raise TrainingError(needs(f"training needs {error.name}", "train")) from error
        raise
    return getattr(module, name) if name in _LAZY else module
