"""The learner of a run: its model as the `[policy]` section wants it held, and how it is trained."""

from pathlib import Path
from typing import Any

from turnwise.agents.models.lora_folders import attach
from turnwise.agents.models.model_folder import ModelFolder, find_model, load_model
from turnwise.agents.models.weights import is_adapter
from turnwise.training.config.sections import PolicySection
from turnwise.training.errors import ConfigError
from turnwise.training.events import Reporter
from turnwise.training.learner.learner import Learner
from turnwise.training.learner.lora import LoraOptions, add_adapter
from turnwise.training.learner.memory import MemoryNeeds, require_memory
from turnwise.training.learner.threads import SMALL_MODEL, use_threads
from turnwise.training.setup import PreparedRun


def make_learner(prepared: PreparedRun, model: Any, tokenizer: Any, report: Reporter) -> Learner:
    """Return the learner of a run around a model.

    Args:
        prepared: the run.
        model: from `load_trainable` or `load_trained`, or a new one.
        tokenizer: its tokenizer.
        report: receives a note where memory is scarce.

    Raises:
        NotEnoughMemory: the device cannot hold what training needs.
    """
    run = prepared.run
    use_threads(run.threads, model)
    if sum(weights.numel() for weights in model.parameters()) >= SMALL_MODEL:
        note = require_memory(model.config, memory_needs(prepared), prepared.device)
        if note:
            report.event("note", 0, text=note)
    options: dict[str, Any] = {
        "lr": run.train.lr,
        "weight_decay": run.train.optimizer.weight_decay,
        "optimizer": run.train.optimizer.name,
        "bfloat16": run.policy.dtype == "bfloat16",
        "checkpointing": run.policy.recompute_activations,
        "packing": run.train.packing,
    }
    learner: Learner
    if prepared.leader is None:
        learner = Learner(model, tokenizer, device=prepared.device, **options)
    else:
        from turnwise.training.learner.distributed_learner import DistributedLearner

        learner = DistributedLearner(model, tokenizer, leader=prepared.leader, **options)
    learner.limit.note = lambda text: report.event("note", 0, text=text)
    return learner


def memory_needs(prepared: PreparedRun) -> MemoryNeeds:
    """Return what decides how much memory a run needs, at most as many cached tokens as episodes can have."""
    run = prepared.run
    groups = run.train.groups * (run.train.staleness + 1) + run.train.spare_groups
    episodes = min(run.train.concurrency, groups * run.train.group_size)
    here = run.sampler.engine == "transformers" and not run.cluster.address
    dtype = run.sampler.dtype or run.policy.dtype
    copied = bool(run.train.staleness) or dtype != held_dtype(run.policy)
    return MemoryNeeds(
        tokens=run.train.micro_tokens,
        length=run.policy.context,
        dtype=run.policy.dtype,
        lora=run.policy.lora,
        optimizer=run.train.optimizer.name,
        checkpointing=run.policy.recompute_activations,
        packing=run.train.packing,
        attention=run.policy.attention,
        reference=prepared.needs_reference,
        ranks=prepared.leader.ranks.size if prepared.leader else 1,
        engine=dtype if here and copied else "",
        cached=episodes * run.policy.context if here else 0,
    )


def held_dtype(section: PolicySection) -> str:
    """Return the dtype of the weights that are loaded: float32 where they are trained, policy.dtype where frozen."""
    return section.dtype if section.lora else "float32"


def load_trainable(section: PolicySection, folder: ModelFolder) -> Any:
    """Return the model of policy.model, with a new adapter if the run trains one.

    Raises:
        ConfigError: the folder holds an adapter, and another one would be put on top of it.
        ModelError: the model cannot be read.
    """
    if not section.lora:
        return load_model(folder.path, attention=section.attention)
    name = folder.name.partition("@")[0] if folder.revision else str(folder.path.resolve())
    model = _load_base(section, folder)
    return add_adapter(model, LoraOptions.of(section.lora), base=name, revision=folder.revision)


def load_trained(section: PolicySection, checkpoint: Path) -> Any:
    """Return the model of a checkpoint; an adapter is put beside the model of policy.model, and stays trainable.

    Raises:
        ModelError: the model cannot be read, or the adapter belongs to another base.
    """
    if not section.lora:
        return load_model(checkpoint, attention=section.attention)
    return attach(_load_base(section, find_model(section.model)), checkpoint, trainable=True)


def _load_base(section: PolicySection, folder: ModelFolder) -> Any:
    if is_adapter(folder.path):
        raise ConfigError(
            f"policy.model is the adapter {folder.path}, but policy.lora needs a whole model: use the folder final/ of "
            "the run that trained it"
        )
    return load_model(folder.path, dtype=held_dtype(section), attention=section.attention)
