"""Remarks: sentences about settings that are allowed but probably not meant. A run prints them at its start."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

from turncredit.envs import takes
from turncredit.training.config.demonstrators import plays
from turncredit.training.config.run import Run
from turncredit.training.learner.policy import device_of
from turncredit.training.preflight.needs_of_rules import credit_rule
from turncredit.training.tasks.environments import Environments

MANY_REPEATS = 5
"""Demonstrations per task above which a model is likely to memorise the tasks."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark.

    Attributes:
        holds: whether it is worth saying, of a run and the environments of its demonstrations.
        sentence: the remark. {run} stands for the run, and {tasks} for the number of demonstrated tasks.
    """

    holds: Callable[[Run, Environments], bool]
    sentence: str


def remarks(run: Run, demonstrated: Environments) -> list[str]:
    """Return the remarks on a run.

    Args:
        run: the configuration.
        demonstrated: environments of its demonstrations, with the tasks that they are drawn from.
    """
    return [
        remark.sentence.format(run=run, tasks=len(demonstrated.tasks))
        for remark in REMARKS
        if remark.holds(run, demonstrated)
    ]


def multiplies_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices at full speed, as far as torch can tell."""
    import torch

    checks = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return not all(checks) or any(check() for check in checks if check)


def _evaluates_training_split(run: Run, _: Environments) -> bool:
    same = run.evaluation_kwargs() == run.env.arguments()
    names = [part.id for part in run.env.parts()] or [run.env.id]
    return run.evaluation.episodes > 0 and same and any(takes(name, "split") for name in names)


def _repeats_few_tasks(run: Run, demonstrated: Environments) -> bool:
    """Whether a model may memorise the demonstrated tasks, though the environment, which is opened then, has more."""
    count = len(demonstrated.tasks)
    few = run.imitation.episodes > MANY_REPEATS * count and plays(run.imitation, run.env.id)
    if run.train.distinct_tasks or run.imitation.distinct_tasks or not few:
        return False
    env = demonstrated.make()
    try:
        # task_ids() of other packages may take no count: it then lists all tasks
        listing = getattr(env.unwrapped, "task_ids", None)
        return listing is not None and bool(signature(listing).parameters) and len(listing(count + 1)) > count
    finally:
        env.close()


def _is_slow_in_bfloat16(run: Run, _: Environments) -> bool:
    kinds = {run.policy.dtype, run.sampler.dtype}
    return device_of(run.policy.device) == "cpu" and "bfloat16" in kinds and not multiplies_bfloat16()


def _pushes_down_failures(run: Run, _: Environments) -> bool:
    rule = credit_rule(run)
    return run.train.staleness.updates > 0 and rule.options.get("unit") == "trajectory"


def _depends_on_time(run: Run, _: Environments) -> bool:
    in_one_order = run.env.workers.deterministic and not run.env.deadline
    elsewhere = (
        run.sampler.engine != "transformers"
        or bool(run.cluster.address)
        or (run.train.asynchronous and not run.train.staleness.deterministic)
    )  # nothing repeats there in any case
    return run.env.workers.count > 0 and not in_one_order and not elsewhere


REMARKS: tuple[Remark, ...] = (
    Remark(
        _evaluates_training_split,
        'the evaluation uses tasks of the training split; set evaluation.env, for example to {{split = "held_out"}}, '
        "to evaluate on tasks that training has not seen",
    ),
    Remark(
        _repeats_few_tasks,
        "{run.imitation.episodes:,} demonstrations cover only {tasks:,} tasks, which a model may memorise; the "
        "environment has more: train.distinct_tasks={run.imitation.episodes} uses that many different tasks",
    ),
    Remark(
        _is_slow_in_bfloat16,
        "this CPU has no instructions for bfloat16 (AVX512-BF16 or AMX), so bfloat16 is many times slower than float32 "
        "on it; set policy.dtype and sampler.dtype to float32",
    ),
    Remark(
        _pushes_down_failures,
        "failed episodes mostly have more turns, so the mean advantage of a turn is below zero, and samples of older "
        'weights cannot correct what this pushes down, such as end tokens; set credit.options.unit to "turn" '
        "(docs/scale.md)",
    ),
    Remark(
        _depends_on_time,
        "environments in workers answer in an order that depends on time, so the last digits of log-probabilities, and "
        "with them the run, do not repeat bit for bit; env.workers.deterministic = true without env.deadline "
        "makes them repeat",
    ),
)
"""The remarks, in the order in which they are said."""
