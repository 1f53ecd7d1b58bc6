"""PSR, NSR and their weighted form: reinforce right episodes or penalise wrong ones, without a baseline."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import without_copies
from turncredit.credit.outcome.answers import THRESHOLD
from turncredit.credit.steps import Steps

Form = Literal["psr", "nsr", "weighted"]


def psr_nsr(steps: Steps, *, form: Form = "weighted", lam: float = 0.1, threshold: float = THRESHOLD) -> Advantages:
    """Return a constant for episodes that are right and another for those that are wrong.

        psr:       1 if right, else  0
        nsr:       0 if right, else -1
        weighted:  lam if right, else -1

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[1.0, 0.0])
        >>> psr_nsr(steps).values.tolist()
        [0.1, -1.0]

    Args:
        steps: the table.
        form: see above.
        lam: weight of right episodes in the weighted form.
        threshold: episodes with a higher score are right.

    Returns:
        Advantages with the part "episode"; the report has the share of right episodes.

    Source: Zhu et al. 2025, arXiv 2506.01347.
    """
    check_choice("form", form, Form)
    check_number("lam", lam, 0.0)
    check_number("threshold", threshold)
    right_value = {"psr": 1.0, "nsr": 0.0, "weighted": float(lam)}[form]
    wrong_value = 0.0 if form == "psr" else -1.0

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        right = episodes.score > threshold
        report = {"correct": float(right.mean())}
        return episodes.advantages(np.where(right, right_value, wrong_value), report=report)

    return without_copies(steps, estimate)
