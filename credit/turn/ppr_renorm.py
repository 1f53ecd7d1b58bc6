"""PPR: process rewards and the outcome on one scale, then GAE over turns."""

from dataclasses import replace

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadTable
from turncredit.credit.options import INVALID_PENALTY
from turncredit.credit.steps import Floats, Steps, need
from turncredit.credit.turn.gae import gae


def ppr_renorm(
    steps: Steps, *, gamma: float = 0.99, lam: float = 0.9, invalid_penalty: float = INVALID_PENALTY
) -> Advantages:
    """Return GAE over turns of the process reward plus the outcome, both centred at one half.

        o[i] = sum over t of r[i, t]
        q[i, t] = (p[i, t] - 1/2) + (o[i] - 1/2) = p[i, t] + o[i] - 1
        A = gae(q)

    A good step of a failed episode and a bad step of a successful one both come out near zero.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0.0, 1.0],
        ...                            metric=[0.25, 0.75], value=[0.0, 0.0])
        >>> ppr_renorm(steps, gamma=1.0, lam=1.0).values.tolist()
        [1.0, 0.75]

    Args:
        steps: the table; needs `metric`, float64 [N], the score of each step in [0, 1], and `value`, V of the state
            before the turn. The sum of an episode's rewards is its outcome, in [0, 1].
        gamma, lam, invalid_penalty: as in `gae`.

    Returns:
        Advantages with the parts "reward" (q), "return" (the target of the critic) and "value".

    Raises:
        BadTable: `metric` has more than one number per row.

    Source: Xu et al. 2025, arXiv 2509.25598. Our reading of the abstract; the discounts are those of `gae`.
    """
    need(steps, "ppr_renorm", "metric", "value")
    process = _one_number(steps)
    episodes = Episodes.of(steps)
    renormed = process + episodes.score[episodes.member] - 1.0
    result = gae(replace(steps, reward=renormed), gamma=gamma, lam=lam, invalid_penalty=invalid_penalty)
    return replace(result, parts={"reward": renormed[steps.source], **result.parts})


def _one_number(steps: Steps) -> Floats:
    """The column `metric` as float64 [N]."""
    metric = steps.column("metric")
    if metric.ndim == 2 and metric.shape[1] != 1:
        raise BadTable(f"ppr_renorm expects one score per turn in 'metric', got shape {metric.shape}")
    return metric.reshape(len(steps))
