"""ARPO: credit for branched rollouts, path by path (soft) or with shared turns averaged (hard)."""

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Scale, Singleton
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.outcome.grpo import grpo
from turncredit.credit.prefix_tree import PrefixKey, need_paths, paths
from turncredit.credit.steps import Steps


def arpo_soft(
    steps: Steps,
    *,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return each path's score normalised over all paths of its task, for each of its turns.

        A[i, t] = (E[i] - mean) / (std + eps)        over the paths i of one task, branched or not

    This is `grpo` on paths: a turn shared by d paths is d rows, one in each. While the policy is the one that sampled,
    the gradients of these rows add up to d times that of `arpo_hard`'s mean.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 0.0])
        >>> arpo_soft(steps, scale="none").values.tolist()
        [0.5, -0.5]

    Args:
        steps: the table; each path lists all of its turns, including shared ones.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode".

    Source: Dong et al. 2025, arXiv 2507.19849, soft estimation, which is the default there. (Another ARPO, arXiv
    2505.16282, replays successes on a GUI: `arpo_replay`.)
    """
    return grpo(steps, scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)


def arpo_hard(
    steps: Steps,
    *,
    key: PrefixKey = "parent",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the mean normalised score of the paths that share each turn.

        Z[i] = (E[i] - mean) / (std + eps)           over the paths i of one task
        A[i, t] = 1/d * sum of Z over the d paths that share turn t of path i and all turns before it

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], parent=["root", "n1", "root", "n1"])
        >>> arpo_hard(steps, scale="none").values.tolist()
        [0.0, 0.5, 0.0, -0.5]

    Args:
        steps: the table; needs the columns of `key`. Each path lists all of its turns, including shared ones.
        key: what identifies shared turns: "parent", the node of the search tree below which the turn was sampled (the
            last turn of a path is never shared), or an equal "transition", "action" or "next_state" after equal
            histories (`prefix_tree.paths`), which also merges turns that were sampled twice with the same result.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" (Z) and "step" (the change due to sharing); the report has the share
        of turns that several paths share.

    Source: Dong et al. 2025, arXiv 2507.19849, hard estimation. Our reading of the text: the authors' code
    has soft estimation only.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    need_paths(steps, "arpo_hard", key)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        path = options.normalise(episodes.groups)
        tree = paths(table, key)
        values, own = tree.means(path)[tree.after], path[episodes.member]
        shared = float((tree.sharers > 1).mean())
        parts = {"episode": own, "step": values - own}
        return Advantages.of(table, values, parts, {**episodes.counts, "shared": shared})

    return without_copies(steps, estimate)
