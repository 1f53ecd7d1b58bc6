"""TEMPO on turns: the outcome, plus what each turn changed in the mean outcome of those who came this far together.

Left out on purpose: tokens, on which the paper has it; they are in `tokens.tempo`.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Scale, Singleton, divisors
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turnwise.credit.outcome.grpo import episode_term
from turnwise.credit.steps import Steps, need
from turnwise.credit.trie import PrefixKey, need_paths, paths


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
    """Return the episode's standing within its task plus the turn's temporal difference in the tree of prefixes.

        V(p) = mean outcome of the trajectories of the task whose first turns are p          V(no turn yet) = mean
        A[i, t] = ((E[i] - mean) + V(first t + 1 turns of i) - V(first t turns of i)) / (std + eps)

    Once a trajectory shares its past with no other, the second term is zero for ever: it tells the turns apart at which
    siblings part ways, and only those.

        >>> steps = Steps.from_columns(task=[0] * 4, trajectory=[0, 0, 1, 1], turn=[0, 1, 0, 1], reward=[0, 1.0, 0, 0],
        ...                            action=["go", "eat", "go", "cry"])
        >>> tempo(steps, key="action", scale="none").parts["step"].tolist()
        [0.0, 0.5, 0.0, -0.5]

    Args:
        steps: the table; needs the columns of `key`. `valid`, if there, brings the penalty.
        key: what makes two turns with equal pasts equal: "transition" (action and next state), "action", "next_state",
            or "parent", the nodes of the search that made the trajectories, where V of a tree's root is the mean over
            that tree. `trie.paths` says what stands in for an absent `next_state`.
        scale: "std", "none" (differences alone) or "mad" (median over median absolute deviation).
        singleton: a task with one trajectory gives "zero" or its "raw" score.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward; taken from that turn's reward.

    Returns:
        Advantages with the parts "episode" and "step"; the report has the share of turns that siblings share.

    Raises:
        MissingColumn: a column of the key is absent.
        BadOption: an option has an impossible value.

    Source: Tran et al. 2025, arXiv 2509.18314, where symbols are tokens. Our reading is the step from tokens to turns;
    the published code gives no number for a group of one.
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
