"""Episodes that are worth what plays on from inside them: PPPO, MOTIF and MRT."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, exact_sums, groups_of, positions
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need

Worth = Literal["all", "own"]


def continuations(
    steps: Steps,
    *,
    worth: Worth = "all",
    bonus: float = 0.0,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the worth of each episode that began with a reset, normalised over these, and a bonus for progress.

        A[i, t] = (E[i] - mean) / (std + eps) + bonus * (V[i, after] - V[i, before])
        E[i]: mean score of i and of all that were forked from it ("all"), or the score of i ("own")
        V[i, after], V[i, before]: mean score of the forks of i at the next place after turn t, and at the last one up
                                   to it; after the last place, the score of i; before the first, the mean of the task

    Forks have an advantage of 0 and are not kept.

        >>> steps = Steps.from_columns(task=[0] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 0],
        ...                            tree=["a", "a", "b", "b"], forked=[0, 1, 0, 1], fork_turn=[0] * 4)
        >>> continuations(steps, scale="none").values.tolist()
        [0.25, 0.0, -0.25, 0.0]

    Args:
        steps: the table; needs `tree`, constant within a trajectory, and `forked`, 1 for a fork; for a bonus also
            `fork_turn`, the number of turns before the place of a fork.
        worth: see above.
        bonus: per unit of reward.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode", and "step", the change in V, where there is a bonus.

    Source: Our reading of three methods. PPPO (arXiv 2512.15274) counts the wins of an episode and of its n
    continuations, n + 1 times their mean; MOTIF (Mitra and Ulukus 2025, arXiv 2507.02851) takes the mean; the progress
    is that of MRT (Qu et al. 2025, arXiv 2503.07572), where a place inside a turn counts as one before it.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    check_choice("worth", worth, Worth)
    check_number("bonus", bonus, 0.0)
    need(steps, "continuations", "tree", "forked", *(["fork_turn"] if bonus else []))

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        tree = compact(episodes.task, np.asarray(episodes.of_trajectory("continuations", "tree"), dtype=np.int64))
        root: Bools = np.asarray(episodes.of_trajectory("continuations", "forked") == 0, dtype=np.bool_)
        score, terms = episodes.score, episodes.size_of_terms
        if worth == "all":
            count = np.bincount(tree)
            score = Groups(score, tree, size_of_terms=terms).mean()[tree]
            terms = (exact_sums(tree, terms, len(count)) / count)[tree]
        normalised = np.zeros(len(episodes))
        if root.any():
            groups = Groups(score[root], compact(episodes.task[root]), size_of_terms=terms[root])
            normalised[root] = options.normalise(groups)
        values, parts = normalised[episodes.member], {"episode": normalised[episodes.member]}
        rooted = root[episodes.member]
        if bonus:
            parts["step"] = np.where(rooted, _progress(table, episodes, tree, root), 0.0)
            values = values + bonus * parts["step"]
        return Advantages.of(table, values, parts, episodes.counts, keep=rooted)

    return without_copies(steps, estimate)


def _progress(table: Steps, episodes: Episodes, tree: Ints, root: Bools) -> Floats:
    """The change in V from the place before each turn to that after it, float64 [N]."""
    turn, place = positions(table), np.asarray(episodes.of_trajectory("continuations", "fork_turn"), dtype=np.int64)
    far = 1 + max(int(turn.max(initial=0)), int(place.max(initial=0)))
    key, order = np.unique(tree[~root] * far + place[~root], return_inverse=True)
    value = Groups(episodes.score[~root], compact(order.astype(np.int64))).mean() if len(key) else np.zeros(0)
    start = np.zeros(groups_of(episodes.task))
    if root.any():
        present, code = np.unique(episodes.task[root], return_inverse=True)
        start[present] = Groups(episodes.score[root], code.astype(np.int64)).mean()
    owner = tree[episodes.member]
    at = np.searchsorted(key, owner * far + turn, side="right")
    before, after = start[episodes.task[episodes.member]], episodes.score[episodes.member]
    if len(key):
        earlier, later = np.maximum(at - 1, 0), np.minimum(at, len(key) - 1)
        before = np.where((at > 0) & (key[earlier] // far == owner), value[earlier], before)
        after = np.where((at < len(key)) & (key[later] // far == owner), value[later], after)
    return after - before
