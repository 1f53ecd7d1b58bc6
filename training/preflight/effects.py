"""Which keys of a run have an effect, declared in one table.

A key that is set and has no effect is probably a mistake, and is refused before any work. Two exceptions: the keys of a
section that its own switch turns off (`imitation.episodes = 0`, `evaluation.episodes = 0`) are left alone.
"""

import copy
from collections.abc import Callable, Iterator, Mapping

from turncredit.training.config.demonstrators import plays
from turncredit.training.config.renamed import short_name
from turncredit.training.config.run import Run
from turncredit.training.config.section_tables import Section
from turncredit.training.config.toml import Table, render
from turncredit.training.errors import ConfigError

Condition = Callable[[Run], bool]


def _new_policy(run: Run) -> bool:
    return not run.policy.model


def _has_example(run: Run) -> bool:
    from turncredit.agents.agent import Agent

    return bool(Agent.from_options(template=run.agent.template).prompt.template.example)


def _can_err(run: Run) -> bool:
    from turncredit.envs import demonstrators

    return run.imitation.demonstrator.name in {"expert", *demonstrators(run.env.id)}


def _plays(run: Run) -> bool:
    return plays(run.imitation, run.env.id)


def _aggregation(run: Run) -> str:
    from turncredit.training.objectives import get

    return run.objective.aggregation.name or get(run.objective.name).function.aggregation


def _whole_sequences(run: Run) -> bool:
    from turncredit.training.objectives import Objective

    return Objective.from_section(run.objective).together in {"sequence", "turn", "batch"}


def _has_kl(run: Run) -> bool:
    return run.objective.kl.coefficient > 0


def _on_cluster(run: Run) -> bool:
    return bool(run.cluster.address)


def _forks(run: Run) -> bool:
    return bool(run.train.forks.where)


def _takes_turns_on_a_gpu(run: Run) -> bool:
    beside = run.sampler.engine == "vllm" and not run.cluster.address and run.policy.device != "cpu"
    return beside and not run.train.staleness.updates


NEEDS: dict[str, tuple[Condition, str]] = {
    **{
        f"policy.new.{key}": (
            _new_policy,
            "the model of policy.model has its own size (policy.new={} leaves out those of a file)",
        )
        for key in ("vocab", "hidden", "layers", "heads")
    },
    "agent.example": (_has_example, "agent.template has no worked turn"),
    "imitation.env": (_plays, "the demonstrations come from a file"),
    "imitation.distinct_tasks": (_plays, "the demonstrations come from a file"),
    "imitation.demonstrator.noise": (_can_err, "the demonstrations come from a file or a model"),
    "imitation.demonstrator.typos": (_can_err, "the demonstrations come from a file or a model"),
    "policy.attention": (lambda run: not _new_policy(run), "a new model uses the implementation of transformers"),
    "sampler.url": (lambda run: run.sampler.engine != "transformers", "the engine transformers is no server"),
    **{
        f"cluster.{key}": (_on_cluster, "cluster.address is empty")
        for key in ("engines.count", "engines.gpus", "engines.timeout", "learners", "cpus")
    },
    **{
        f"env.workers.{key}": (lambda run: run.env.workers.count > 0, "env.workers is 0")
        for key in ("deterministic", "memory_gib")
    },
    "train.optimizer.offload": (
        _takes_turns_on_a_gpu,
        "no engine of vLLM takes turns with the learner on its GPU",
    ),
    "train.forks.roots": (_forks, "train.forks.where is empty"),
    "train.forks.shared": (
        lambda run: _forks(run) or bool(run.sampling.groups),
        "train.forks.where and sampling.groups are empty",
    ),
    "train.staleness.deterministic": (
        lambda run: run.train.staleness.updates > 0 and not run.train.staleness.spare_groups,
        "it needs train.staleness > 0 and train.staleness.spare_groups = 0",
    ),
    **{
        f"sampling.{key}": (lambda run: bool(run.sampling.groups), "sampling.groups is empty")
        for key in ("max_rounds", "max_drops")
    },
    "checkpoints.keep_trajectories": (
        lambda run: bool(run.trajectory_format),
        "trajectory_format is empty, so none are stored",
    ),
    "evaluation.episodes_during_training": (lambda run: run.evaluation.every > 0, "evaluation.every is 0"),
    "objective.aggregation.norm": (
        lambda run: "norm" in _aggregation(run).split("-"),
        "the aggregation does not divide by norm",
    ),
    "objective.sequence": (_whole_sequences, "neither the objective nor its correction looks at whole sequences"),
    "objective.kl.estimator": (_has_kl, "objective.kl is 0"),
    "objective.kl.where": (_has_kl, "objective.kl is 0"),
    "objective.kl.corrected": (
        lambda run: _has_kl(run) and run.objective.kl.where == "loss",
        "there is no KL term in the loss",
    ),
    "objective.kl.target": (_has_kl, "objective.kl is 0"),
    "objective.kl.horizon": (
        lambda run: _has_kl(run) and run.objective.kl.target > 0,
        "objective.kl.target is 0",
    ),
    "objective.entropy.target": (
        lambda run: run.objective.entropy.coefficient != 0 or run.objective.entropy.step > 0,
        "objective.entropy and objective.entropy.step are 0",
    ),
    "objective.entropy.step": (lambda run: run.objective.entropy.target > 0, "objective.entropy.target is 0"),
}
"""Key -> when it has an effect, and what to say where it has none. Keys that are missing here always have an effect."""


def ineffective(run: Run) -> dict[str, str]:
    """Return the keys that have no effect in a run, whether set or not, and why."""
    off = {name for name in ("imitation", "evaluation") if getattr(run, name).episodes == 0}
    return {
        key: reason
        for key, (effective, reason) in NEEDS.items()
        if key.partition(".")[0] not in off and not effective(run)
    }


def check_effects(run: Run) -> None:
    """Refuse a run in which a key was set that has no effect.

    Raises:
        ConfigError: it names the keys and says why they have no effect.
    """
    if set_without_effect(run):
        raise ConfigError(without_effect(run))


def set_without_effect(run: Run) -> dict[str, list[str]]:
    """Return the keys that were set and have no effect, by the reason why they have none."""
    reasons = ineffective(run)
    keys: dict[str, list[str]] = {}
    for key in _set_keys(run):
        if key in reasons:
            keys.setdefault(reasons[key], []).append(short_name(key))
    return keys


def without_effect(run: Run) -> str:
    """Return a sentence that names the keys that were set and have no effect, and says why."""
    clauses = [
        f"{', '.join(keys)} {'have' if keys[1:] else 'has'} no effect: {reason}"
        for reason, keys in set_without_effect(run).items()
    ]
    return "; ".join(clauses)


def effective_keys(run: Run) -> Table:
    """Return the run as nested tables, defaults included, without the keys that have no effect in it."""
    return dict(_without(run, ineffective(run)))


def _without(section: Section, unused: Mapping[str, str], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the keys of a section and their values without those in `unused`; a table without keys is left out."""
    for name in type(section).model_fields:
        value = getattr(section, name)
        if not isinstance(value, Section):
            if prefix + name not in unused:
                yield name, _plain(value)
        elif table := dict(_without(value, unused, f"{prefix}{name}.")):
            yield name, table


def _plain(value: object) -> object:
    """Return a value of a key, with tables in place of the sections of a list."""
    if isinstance(value, list):
        return [item.model_dump() if isinstance(item, Section) else copy.deepcopy(item) for item in value]
    return copy.deepcopy(value)


def effective_toml(run: Run) -> str:
    """Return `effective_keys` as the text of a TOML file, which `Run.load` reads back as the same run."""
    return "".join(render(effective_keys(run)))


def _set_keys(section: Section, prefix: str = "") -> Iterator[str]:
    for name in type(section).model_fields:
        if name in section.model_fields_set:
            value = getattr(section, name)
            if isinstance(value, Section):
                yield from _set_keys(value, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}"
