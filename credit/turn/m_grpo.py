"""M-GRPO: a main agent and its sub-agents, each compared with its own kind."""

from dataclasses import replace

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, group_sums
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.roles import need_role, rows_of_role
from turncredit.credit.steps import Floats, Ints, Steps, need


def m_grpo(
    steps: Steps,
    *,
    main: object = "main",
    align: int | None = None,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
    rng: np.random.Generator | None = None,
) -> Advantages:
    """Return the normalised scores of main rollouts and of sub-trajectories, each among those of its task.

        E[j] = sum of the rewards of rollout or sub-trajectory j
        A[j] = (E[j] - mean) / (std + eps)      over the main rollouts of the task, or over all its sub-trajectories

    A sub-trajectory is the turns of one role in one trajectory. Ideally, every call of a sub-agent is its own
    trajectory.

    With `align`, each rollout enters the update with the same number of sub-trajectories: surplus ones are dropped at
    random (`keep`), and missing ones are replaced by counting others again (`weight`). To get rows instead of weights:

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a.1", "a.2", "a.3"], turn=[0] * 4,
        ...                            role=["main"] + ["sub"] * 3, parent=["a"] * 4, reward=[1.0, 0.0, 0.5, 1.0])
        >>> result = m_grpo(steps, align=2, scale="none", rng=np.random.default_rng(0))
        >>> result.values.tolist(), result.weight.tolist()
        ([0.0, -0.5, 0.0, 0.5], [1.0, 0.0, 1.0, 1.0])
        >>> np.repeat(np.arange(len(steps)), result.weight.astype(int)).tolist()
        [0, 2, 3]

    Args:
        steps: the table; needs `role`, and `parent` for `align`: the key of the rollout that called the sub-agent.
        main: the role of the main agent; every other role is a sub-agent.
        align: number of sub-trajectories per rollout; None does not align. A rollout without any stays as it is.
        rng: draws the sub-trajectories to drop and to repeat.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode", computed before the alignment; the report counts rollouts and
        sub-trajectories.

    Raises:
        BadTable: no row has the role `main`.
        BadOption: `align` is given without `rng`.

    Source: Hong et al. 2025, arXiv 2511.13288. Our reading of the paper's text; no code of the advantages is public.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    if align is not None:
        check_number("align", align, 1, whole=True)
        need(steps, "m_grpo", "parent")
        if rng is None and len(steps):
            raise BadOption("m_grpo with align needs a random generator; pass rng=numpy.random.default_rng(seed)")
    need(steps, "m_grpo", "role")
    need_role(steps, "m_grpo", main)

    def estimate(table: Steps) -> Advantages:
        own = replace(table, trajectory=compact(table.trajectory, table.column("role")))
        played = Episodes.of(own, reward=options.penalised_reward(table))
        leads = rows_of_role(table, main)[played.first]
        level = compact(played.task, leads.astype(np.int64))
        value = options.normalise(Groups(played.score, level, size_of_terms=played.size_of_terms))
        times = np.ones(len(played))
        if align is not None and rng is not None:
            rollout = compact(played.task, table.column("parent")[played.first])
            times[~leads] = _times(compact(rollout[~leads]), align, rng)
        report = {"main_rollouts": float(leads.sum()), "sub_trajectories": float((~leads).sum())}
        values, weight = value[played.member], times[played.member]
        parts = {"episode": values.copy()}
        return Advantages.of(table, values, parts, report, keep=weight > 0.0, weight=weight)

    return without_copies(steps, estimate)


def _times(rollout: Ints, size: int, rng: np.random.Generator) -> Floats:
    """How often each sub-trajectory counts so that every rollout has `size`, float64 [subs]."""
    count = np.bincount(rollout)
    start = np.cumsum(count) - count
    shuffled = np.lexsort((rng.random(len(rollout)), rollout))
    rank = np.arange(len(rollout)) - np.repeat(start, count)
    missing = np.maximum(size - count, 0)
    again = np.repeat(start, missing) + np.floor(rng.random(missing.sum()) * np.repeat(count, missing)).astype(np.int64)
    times = np.zeros(len(rollout))
    times[shuffled] = (rank < size) + group_sums(again, np.ones(len(again)), len(rollout))
    return times
