"""Names that keys of a run had before: old files and old run folders are read as if they used today's names."""

from collections.abc import Mapping, Sequence
from typing import Any

from turncredit.former_name import current
from turncredit.training.config.toml import Table
from turncredit.training.errors import ConfigError

RENAMED: dict[str, str] = {
    "trajectories": "trajectory_format",
    "project": "loggers.project",
    "env.eval": "evaluation.env",
    "env.in_order": "env.workers.deterministic",
    "env.deterministic": "env.workers.deterministic",
    "env.memory": "env.workers.memory_gib",
    "env.memory_gib": "env.workers.memory_gib",
    "policy.path": "policy.model",
    "policy.checkpointing": "policy.recompute_activations",
    "policy.vocab": "policy.new.vocab",
    "policy.hidden": "policy.new.hidden",
    "policy.layers": "policy.new.layers",
    "policy.heads": "policy.new.heads",
    "sampler.memory": "sampler.kv_cache_gib",
    "cluster.gpus": "cluster.engines.gpus",
    "cluster.timeout": "cluster.engines.timeout",
    "imitation.noise": "imitation.demonstrator.noise",
    "imitation.typos": "imitation.demonstrator.typos",
    "imitation.observations": "imitation.observation_weight",
    "imitation.batch": "imitation.batch_tokens",
    "imitation.target": "imitation.target_loss",
    "objective.kl_estimator": "objective.kl.estimator",
    "objective.kl_in": "objective.kl.where",
    "objective.kl_corrected": "objective.kl.corrected",
    "objective.kl_target": "objective.kl.target",
    "objective.kl_horizon": "objective.kl.horizon",
    "objective.entropy_target": "objective.entropy.target",
    "objective.entropy_step": "objective.entropy.step",
    "objective.norm": "objective.aggregation.norm",
    "objective.old": "objective.old_logprobs",
    "train.steps": "train.iterations",
    "train.tasks": "train.groups",
    "train.group": "train.group_size",
    "train.pool": "train.distinct_tasks",
    "train.repairs": "train.replacements",
    "train.spare": "train.staleness.spare_groups",
    "train.spare_groups": "train.staleness.spare_groups",
    "train.in_order": "train.staleness.deterministic",
    "train.deterministic": "train.staleness.deterministic",
    "train.updates": "train.optimizer_steps",
    "train.warmup": "train.schedule.warmup",
    "train.grad_clip": "train.optimizer.grad_clip",
    "train.micro_tokens": "train.micro_batch.tokens",
    "train.packing": "train.micro_batch.packing",
    "train.weight_decay": "train.optimizer.weight_decay",
    "train.checkpoint_every": "checkpoints.every",
    "train.keep": "checkpoints.keep",
    "train.keep_trajectories": "checkpoints.keep_trajectories",
    "evaluation.during": "evaluation.episodes_during_training",
}
"""Old key -> today's key."""

SHORT: dict[str, str] = {
    "loggers": "names",
    "env.workers": "count",
    "cluster.engines": "count",
    "imitation.demonstrator": "name",
    "objective.aggregation": "name",
    "objective.kl": "coefficient",
    "objective.entropy": "coefficient",
    "train.forks": "where",
    "train.staleness": "updates",
    "train.schedule": "name",
    "train.optimizer": "name",
    "train.micro_batch": "tokens",
}
"""Tables that a plain value abbreviates, and the key that it stands for."""


def with_new_names(table: Mapping[str, object]) -> tuple[Table, dict[str, str]]:
    """Return a copy of the tables of a run with today's keys, and the old keys in it with what they are called now.

    Args:
        table: nested tables, as in the file of a run.

    Raises:
        ConfigError: a key is set under its old name and under its new one.
    """
    result, renamed = _copy(current(table)), dict[str, str]()
    for old, new in RENAMED.items():
        *sections, key = old.split(".")
        owner: Any = result
        for section in sections:
            owner = owner.get(section) if isinstance(owner, dict) else None
        if not isinstance(owner, dict) or key not in owner:
            continue
        put(result, new.split("."), owner.pop(key), f"{old} is now {new}, and both are set", replace=False)
        renamed[old] = new
    return result, renamed


def new_name(keys: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a path of keys in today's words, and the old key in it with what it is called now.

    >>> new_name(["train", "steps"])
    (['train', 'iterations'], {'train.steps': 'train.iterations'})
    """
    for length in range(len(keys), 0, -1):
        old = ".".join(keys[:length])
        if old in RENAMED:
            return [*RENAMED[old].split("."), *keys[length:]], {old: RENAMED[old]}
    return list(keys), {}


def short_name(key: str) -> str:
    """Return a key as a file would write it: the table alone for the key that a plain value stands for.

    >>> short_name("env.workers.count"), short_name("env.workers.deterministic")
    ('env.workers', 'env.workers.deterministic')
    """
    table, _, last = key.rpartition(".")
    return table if SHORT.get(table) == last else key


def put(table: Table, keys: Sequence[str], value: object, problem: str, *, replace: bool = True) -> None:
    """Set a key in nested tables; a value that abbreviates a table on the way becomes that table.

    Args:
        table: changed in place.
        keys: the path of the key.
        value: its value.
        problem: message where a value lies on the path, or where `replace` is False and the key is set already.
        replace: whether the key may be set already.

    Raises:
        ConfigError: with the message of `problem`.
    """
    for depth, key in enumerate(keys[:-1], 1):
        inner = table.setdefault(key, {})
        name = ".".join(keys[:depth])
        if not isinstance(inner, dict) and name in SHORT:
            inner = table[key] = {SHORT[name]: inner}
        if not isinstance(inner, dict):
            raise ConfigError(problem.replace("{value}", name))
        table = inner
    name, last = ".".join(keys), keys[-1]
    if name in SHORT and isinstance(table.get(last), dict) and not isinstance(value, dict):
        table, last = table[last], SHORT[name]
    if last in table and not replace:
        raise ConfigError(problem)
    table[last] = value


def _copy(table: Mapping[str, object]) -> Table:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in table.items()}
