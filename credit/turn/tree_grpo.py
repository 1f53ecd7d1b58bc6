"""Tree-GRPO: leaves of search trees compared within their tree and across the trees of their task."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, divisors, standardise
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.prefix_tree import paths
from turncredit.credit.steps import Ints, Steps, need

Variant = Literal["sum", "inner", "2norm", "per_token"]


def tree_grpo(
    steps: Steps,
    *,
    variant: Variant = "sum",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    margin: float = 0.1,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the leaf's score normalised over its task plus its score normalised over its tree.

        sum:        A[i] = Z_task(E)[i] + Z_tree(E)[i]            Z(x) = (x - mean) / (std + eps)
        inner:      A[i] = Z_tree(E)[i]
        2norm:      A[i] = Z_tree(Z_task(E))[i]
        per_token:  A[i, t] = Z_task(s)[i, t] + Z_tree(s)[i, t]   over all tokens of the leaves' paths, where
                    s[i, t] = (max(m - m' - margin, 0) + m) / sqrt(leaves below turn t),
                    m, m' the mean outcome of the leaves below turn t and below the turn before it

        >>> steps = Steps.from_columns(task=[0] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 1, 1],
        ...                            tree=["a", "a", "b", "b"])
        >>> tree_grpo(steps, scale="none").values.tolist()
        [0.75, -1.25, 0.25, 0.25]

    Args:
        steps: the table, one trajectory per leaf; needs `tree`, constant within a trajectory, and for "per_token" also
            `parent` (see `prefix_tree.paths`) and `tokens`.
        variant: see above.
        margin: smallest improvement over the node above that gives a bonus; "per_token" only.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`; singleton="raw" has no effect in "per_token".

    Returns:
        Advantages with the parts "episode" (across the task; not for "inner") and "step" (within the tree).

    Raises:
        BadTable: a trajectory lies in two trees.

    Source: Ji et al. 2025, arXiv 2509.21240; "sum" is the paper's, the others are options of its code. We differ in
    trees and tasks of one leaf and in zero-variance groups.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    check_choice("variant", variant, Variant)
    check_number("margin", margin, 0.0)
    need(steps, "tree_grpo", "tree", *(["parent", "tokens"] if variant == "per_token" else []))

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        tree = compact(episodes.task, np.asarray(episodes.of_trajectory("tree_grpo", "tree"), dtype=np.int64))
        if variant == "per_token":
            return _per_token(table, episodes, tree, options, margin)
        task_term = options.normalise(episodes.groups)
        score, terms = episodes.score, episodes.size_of_terms
        if variant == "2norm":
            unit = divisors(episodes.groups, scale=scale, ddof=ddof, eps=eps)[episodes.task]
            score, terms = task_term, np.divide(terms, unit, out=np.abs(task_term), where=unit > 0.0)
        tree_term = options.normalise(Groups(score, tree, size_of_terms=terms))
        parts = {"step": tree_term} if variant == "inner" else {"episode": task_term, "step": tree_term}
        values = task_term + tree_term if variant == "sum" else tree_term
        return episodes.advantages(values, parts, episodes.counts)

    return without_copies(steps, estimate)


def _per_token(table: Steps, episodes: Episodes, tree: Ints, options: GroupOptions, margin: float) -> Advantages:
    """The variant "per_token": turns have scores, and every token counts."""
    tokens = table.column("tokens")
    branches = paths(table, "parent")
    mean = branches.means(episodes.score)
    gain = np.maximum(mean[branches.after] - mean[branches.before] - margin, 0.0)
    worth = (gain + mean[branches.after]) / np.sqrt(branches.sharers)
    counted = tokens > 0
    parts = {}
    for name, key in (("episode", episodes.task), ("step", tree)):
        groups = Groups(worth[counted], compact(key[episodes.member][counted]), tokens[counted].astype(np.float64))
        parts[name] = np.zeros(len(table))
        parts[name][counted] = standardise(groups, scale=options.scale, ddof=options.ddof, eps=options.eps)
    return Advantages.of(table, parts["episode"] + parts["step"], parts, episodes.counts)
