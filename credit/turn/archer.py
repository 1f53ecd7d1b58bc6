"""ArCHer: the advantage of an utterance from the critics that were trained on utterances."""

from turncredit.credit.advantages import Advantages
from turncredit.credit.options import without_copies
from turncredit.credit.steps import Steps, need


def archer(steps: Steps) -> Advantages:
    """Return how much better each turn's action is than what the policy does there, by the critics' estimates.

        A[i, t] = min over critics of Q(s, a)  -  V(s)

    The rewards are not read: they are in the critics already. The minimum keeps one critic's overestimate out.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0.0, 1.0],
        ...                            metric=[[0.5, 0.75], [1.0, 0.875]], value=[0.25, 0.875])
        >>> archer(steps).values.tolist()
        [0.25, 0.0]

    Args:
        steps: the table; needs `metric`, float64 [N] or [N, M], the estimates Q(s, a) of one or more critics, and
            `value`, float64 [N], the estimate V(s) (with two critics the smaller of theirs), both in units of reward.

    Returns:
        Advantages with the parts "q" (the minimum) and "value".

    Source: Zhou et al. 2024, arXiv 2402.19446, after its public code.
    """
    need(steps, "archer", "metric", "value")

    def estimate(table: Steps) -> Advantages:
        metric, value = table.column("metric"), table.column("value")
        q = metric if metric.ndim == 1 else metric.min(axis=1)
        return Advantages.of(table, q - value, {"q": q, "value": value})

    return without_copies(steps, estimate)
