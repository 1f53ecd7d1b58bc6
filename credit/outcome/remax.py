"""ReMax: the outcome of an episode minus the outcome of a greedy episode of the same task."""

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps, need


def remax(steps: Steps, *, invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return the episode's score minus that of the greedy episode, for all of its turns.

        A[i, t] = E[i] - b[i]
        E[i] = sum over t of r[i, t]        b[i] = value of the first turn of i: the score of the greedy episode

    The greedy episode is not in the table: its score is the `value` of each trajectory's first turn. Values of later
    turns are not read.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 0.0],
        ...                            value=[0.25, 0.25])
        >>> remax(steps).values.tolist()
        [0.75, -0.25]

    Args:
        steps: the table; needs `value`.
        invalid_penalty: see `GroupOptions`; the greedy score must include the same penalty.

    Returns:
        Advantages with the parts "episode" (the score E) and "baseline" (minus b), in units of reward.

    Source: Li et al. 2023, arXiv 2310.10505. Public code uses the reward from each token on instead of the score;
    both agree for rewards at the end.
    """
    options = GroupOptions(invalid_penalty=invalid_penalty)
    need(steps, "remax", "value")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        greedy = table.column("value")[episodes.first]
        parts = {"episode": episodes.score, "baseline": -greedy}
        return episodes.advantages(episodes.score - greedy, parts, episodes.counts)

    return without_copies(steps, estimate)
