"""HiMAC: plans are compared with plans, and episodes with those that follow the same plan."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, group_sums, groups_of
from turncredit.credit.option_checks import check_choice
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.roles import need_role, rows_of_role
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need

Phase = Literal["both", "macro", "micro"]


def himac(
    steps: Steps,
    *,
    phase: Phase = "both",
    macro: object = "macro",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the plan's normalised score for planning turns, and the episode's for acting turns.

        S[p] = mean over the episodes i that follow plan p of E[i]         E[i] = sum over t of r[i, t]
        A[i, t] = norm(S[p] over the plans of the task)                    for turns of the role `macro`
        A[i, t] = norm(E[i] over the episodes that follow the plan)        for the other turns
        norm(x) = (x - mean) / (std + eps)

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=[0, 0, 1, 1], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], role=["macro", "micro"] * 2)
        >>> result = himac(steps, phase="macro", scale="none")
        >>> result.values.tolist(), result.keep.tolist()
        ([0.5, 0.0, -0.5, 0.0], [True, False, True, False])

    Args:
        steps: the table; needs `role`. `parent` is the plan that a trajectory follows; without it each trajectory
            has its own plan, and all episodes of a task are compared with each other. A trajectory that only plans does
            not enter the score of its plan, unless there is no other.
        phase: the turns to train: "macro" or "micro", between which the paper alternates, or "both".
        macro: the role of planning turns.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "macro" and "micro"; `keep` is False and the value zero for turns of the other kind.

    Raises:
        BadTable: `parent` differs within a trajectory, or phase="macro" and no row has the role `macro`.

    Source: Jin et al. 2026, arXiv 2603.00977. Our reading of a secondary description; no code was available.
    phase="both" is our addition.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    check_choice("phase", phase, Phase)
    need(steps, "himac", "role")
    if phase == "macro":
        need_role(steps, "himac", macro)

    def estimate(table: Steps) -> Advantages:
        episodes, planning = Episodes.of(table, reward=options.penalised_reward(table)), rows_of_role(table, macro)
        acts = np.bincount(episodes.member, ~planning, len(episodes)) > 0.0
        plan, peers = _plans(episodes)
        parts = {
            "macro": np.where(planning, _of_plans(episodes, plan, acts, options)[episodes.member], 0.0),
            "micro": np.where(planning, 0.0, _of_followers(episodes, peers, acts, options)[episodes.member]),
        }
        keep = np.ones(len(table), dtype=np.bool_) if phase == "both" else planning == (phase == "macro")
        values = np.where(keep, parts["macro"] + parts["micro"], 0.0)
        report = {"plans": float(groups_of(plan)), "planning_turns": float(planning.sum())}
        return Advantages.of(table, values, parts, report, keep=keep)

    return without_copies(steps, estimate)


def _plans(episodes: Episodes) -> tuple[Ints, Ints]:
    """The plan of each trajectory, and the group for its acting turns, compact int64 [J] each."""
    if "parent" not in episodes.steps:
        return np.arange(len(episodes)), episodes.task
    plan = compact(episodes.task, episodes.of_trajectory("himac", "parent").astype(np.int64, copy=False))
    return plan, plan


def _of_plans(episodes: Episodes, plan: Ints, acts: Bools, options: GroupOptions) -> Floats:
    """Score of each trajectory's plan normalised over the plans of its task, float64 [J]."""
    count = groups_of(plan)
    followed = np.bincount(plan, acts, count) > 0.0
    counts = np.where(followed[plan], acts, True).astype(np.float64)
    order = np.lexsort((episodes.score, plan))  # a fixed order of addition
    number = group_sums(plan, counts, count)
    mean = group_sums(plan[order], (counts * episodes.score)[order], count) / number
    terms = np.zeros(count)
    np.maximum.at(terms, plan, counts * episodes.size_of_terms)
    task = np.zeros(count, dtype=np.int64)
    task[plan] = episodes.task
    return options.normalise(Groups(mean, task, size_of_terms=terms))[plan]


def _of_followers(episodes: Episodes, peers: Ints, acts: Bools, options: GroupOptions) -> Floats:
    """Score of each acting trajectory normalised over those with the same plan, float64 [J]."""
    normalised = np.zeros(len(episodes))
    terms = episodes.size_of_terms[acts]
    normalised[acts] = options.normalise(Groups(episodes.score[acts], compact(peers[acts]), size_of_terms=terms))
    return normalised
