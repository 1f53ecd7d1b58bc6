"""The score itself as the advantage, for rewards that are advantages already."""

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.options import without_copies
from turncredit.credit.steps import Steps


def raw(steps: Steps) -> Advantages:
    """Return the score of each episode as it is: no baseline, no scale, no threshold.

        A[i, t] = E[i]        E[i] = sum over t of r[i, t]

    A reward of 0 is neutral. Episodes whose column `keep` is False are not trained on.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=range(3), turn=[0] * 3, reward=[1.0, -1.0, 0.0],
        ...                            keep=[True, True, False])
        >>> result = raw(steps)
        >>> result.values.tolist(), result.keep.tolist()
        ([1.0, -1.0, 0.0], [True, True, False])

    Args:
        steps: the table.

    Returns:
        Advantages with the part "episode".

    Source: Jia et al. 2025 (Writing-Zero, BRPO), arXiv 2506.00103, where a preference is the advantage. Our
    reading of a note and a public reimplementation; `keep` is ours.
    """

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        return episodes.advantages(episodes.score, report=episodes.counts)

    return without_copies(steps, estimate)
