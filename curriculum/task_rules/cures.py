"""Tasks by the spread of their outcomes, and more episodes where it is larger."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.group_sizes import proportional
from turncredit.curriculum.picking import weighted
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id


def cures(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    rng: Generator,
    tau: float = 0.5,
    least: int = 4,
    most: int = 16,
) -> TaskDraw:
    """Return tasks drawn without replacement by the spread of their outcomes, and sizes proportional to it.

        probability ~ exp(s / tau)      size = count group s / sum of s over the draw, by largest remainders
        s = sqrt(p (1 - p))             p = (1 + wins) / (2 + episodes)

    The sizes add up to count * group; bounds that this does not allow are widened. A task that was never played has
    p = 1/2. Groups differ in size, which a credit rule with `unit = "trajectory"` expects.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group, on average.
        rng: of the draw.
        tau: temperature, above 0; a small one draws tasks near p = 1/2 only.
        least, most: bounds of a size, episodes.

    Source: CurES, 2025, arXiv 2510.01037. There the evidence begins anew with each of 15 parts of the data, after four
        episodes of each task; here it is that of the whole run. The released code divides by (wins + 1) / 0.01 in
        place of tau.
    """
    check_number("tau", tau, 0.0, open_low=True)
    check_number("least", least, 1, whole=True)
    check_number("most", most, least, whole=True)
    pool = by_id(records)
    p = (1 + pool.wins) / (2 + pool.episodes)
    spread = np.sqrt(p * (1 - p))
    rows = weighted(rng, spread / tau, count)
    sizes = proportional(count * group, spread[rows], least=least, most=most)
    return TaskDraw(tuple(pool.tasks[row] for row in rows), tuple(sizes.tolist()))
