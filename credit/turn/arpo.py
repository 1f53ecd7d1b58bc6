"""ARPO's two ways to credit paths that branch off from each other: each path alone, or shared turns by all who share.

Left out on purpose: where to branch. The sampler decides that from the entropy after a tool's answer.
"""

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Scale, Singleton, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.outcome.grpo import grpo
from turnwise.credit.steps import Steps
from turnwise.credit.trie import PrefixKey, need_paths, paths


def arpo_soft(
    steps: Steps,
    *,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the path's standing among all paths of its task, for each of its turns; shared turns are nothing special.

        A[i, t] = (E[i] - mean) / (std + eps)        over the paths i of one task, branched or not

    A turn that d paths share is d rows, one in each path. As long as the policy is the one that sampled, the gradients
    of these rows add up to d times that of `arpo_hard`'s mean, which is why the soft way is enough: it is `grpo` on
    paths.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 0.0])
        >>> arpo_soft(steps, scale="none").values.tolist()
        [0.5, -0.5]

    Args:
        steps: the table; each path lists all of its turns, shared ones too. `valid`, if there, brings the penalty.
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation).
        singleton: a task with one path gives "zero" or its "raw" score.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward; taken from that turn's reward.

    Returns:
        Advantages with the part "episode".

    Raises:
        BadOption: an option has an impossible value.

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
    """Return the mean standing of the paths that share a turn; a turn that is the path's own gets its path's.

        Z[i] = (E[i] - mean) / (std + eps)           over the paths i of one task
        A[i, t] = 1/d * sum of Z over the d paths that share turn t of path i and all turns before it

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], parent=["root", "n1", "root", "n1"])
        >>> arpo_hard(steps, scale="none").values.tolist()
        [0.0, 0.5, 0.0, -0.5]

    Args:
        steps: the table; needs the columns of `key`. Each path lists all of its turns, shared ones too. `valid`, if
            there, brings the penalty.
        key: how shared turns are known: "parent", the node of the search tree below which the turn was sampled (the
            last turn of a path is its own), or equal "transition", "action" or "next_state" after equal pasts
            (`trie.paths`), which also finds turns that were sampled twice and came out the same.
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation).
        singleton: a task with one path gives "zero" or its "raw" score.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward; taken from that turn's reward.

    Returns:
        Advantages with the parts "episode" (Z) and "step" (what sharing changes); the report has the share of turns
        that several paths have.

    Raises:
        MissingColumn: a column of the key is absent.
        BadOption: an option has an impossible value.

    Source: Dong et al. 2025, arXiv 2507.19849, hard estimation. Our reading of the text: the authors' code has the soft
    way only.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    need_paths(steps, "arpo_hard", key)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        path = standardise(episodes.groups, scale=scale, ddof=ddof, eps=eps, singleton=singleton)
        tree = paths(table, key)
        values, own = tree.means(path)[tree.after], path[episodes.member]
        shared = float((tree.sharers > 1).mean())
        return Advantages.of(
            table, values, {"episode": own, "step": values - own}, {**episodes.counts, "shared": shared}
        )

    return without_copies(steps, estimate)
