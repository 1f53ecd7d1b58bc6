"""ReMax: the outcome of an episode against the outcome of a greedy episode of the same task.

Left out on purpose: the greedy episode itself. Whoever rolls out plays it and writes down what it got.
"""

from turnwise.credit.advantages import Advantages
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps, need


def remax(steps: Steps, *, invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return how much better an episode did than the greedy one, the same for all of its turns.

        A[i, t] = E[i] - b[i]
        E[i] = sum over t of r[i, t]        b[i] = value of the first turn of i: the score of the greedy episode

    The greedy episode is no row of the table. Its score is an estimate of what the first state is worth, and so it is
    read from the column `value`, at each trajectory's first turn; what later turns have there is not looked at. A group
    of one is no exception, since its baseline does not come from siblings. Advantages need not sum to zero.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 0.0],
        ...                            value=[0.25, 0.25])
        >>> remax(steps).values.tolist()
        [0.75, -0.25]

    Args:
        steps: the table; needs `value`. `valid`, if there, brings the penalty.
        invalid_penalty: what an invalid action costs, in units of reward, taken from its turn's reward. The greedy
            score must have been penalised by the same rule.

    Returns:
        Advantages with the parts "episode" (the score E) and "baseline" (minus b), in units of reward.

    Raises:
        MissingColumn: there is no `value`.
        BadOption: an option has an impossible value.

    Source: Li et al. 2023, arXiv 2310.10505. Public code takes the reward from the token on where we take the score;
    the two agree where reward comes at the end.
    """
    options = GroupOptions(invalid_penalty=invalid_penalty)
    need(steps, "remax", "value")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        greedy = table.column("value")[episodes.first]
        parts = {"episode": episodes.score, "baseline": -greedy}
        return episodes.advantages(episodes.score - greedy, parts, episodes.counts)

    return without_copies(steps, estimate)
