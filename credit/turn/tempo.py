"""TEMPO on turns: the outcome plus temporal differences in the tree of common prefixes."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Scale, Singleton, divisors
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.outcome.grpo import episode_term
from turncredit.credit.prefix_tree import PrefixKey, need_paths, paths
from turncredit.credit.steps import Steps, need


def tempo(
    steps: Steps,
    *,
    key: PrefixKey = "transition",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's normalised score plus the turn's temporal difference in the prefix tree of its task.

        V(p) = mean outcome of the trajectories of the task whose first turns are p          V(no turn yet) = mean
        A[i, t] = ((E[i] - mean) + V(first t + 1 turns of i) - V(first t turns of i)) / (std + eps)

    The second term is zero once a trajectory shares its prefix with no other: it credits the turns at which siblings
    diverge.

        >>> steps = Steps.from_columns(task=[0] * 4, trajectory=[0, 0, 1, 1], turn=[0, 1, 0, 1], reward=[0, 1.0, 0, 0],
        ...                            action=["go", "eat", "go", "cry"])
        >>> tempo(steps, key="action", scale="none").parts["step"].tolist()
        [0.0, 0.5, 0.0, -0.5]

    Args:
        steps: the table; needs the columns of `key`.
        key: what identifies equal turns after equal prefixes: "transition" (action and next state), "action",
            "next_state", or "parent", the nodes of a tree search, where V of a root is the mean over its tree.
            `prefix_tree.paths` describes tables without `next_state`.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" and "step"; the report has the share of turns shared by siblings.

    Source: Tran et al. 2025, arXiv 2509.18314, on tokens. Our reading: the step from tokens to turns.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    need(steps, "tempo")
    need_paths(steps, "tempo", key)

    def estimate(table: Steps) -> Advantages:
        episode, report = episode_term(table, options)
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        tree = paths(table, key)
        step = tree.differences(episodes.groups.centred())
        divisor = divisors(episodes.groups, scale=scale, ddof=ddof, eps=eps)[episodes.task][episodes.member]
        step = np.divide(step, divisor, out=np.zeros(len(table)), where=divisor > 0.0)
        report["shared"] = float((tree.sharers > 1).mean())
        return combined(table, options, {"episode": episode, "step": step}, report)

    return without_copies(steps, estimate)
