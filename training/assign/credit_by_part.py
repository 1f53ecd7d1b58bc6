"""What a credit rule gives the turns of a run, those of each part of a mixture among themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.apart import credit_apart
from turncredit.credit.registry import CreditRule
from turncredit.credit.steps import Steps
from turncredit.envs.parts import part_names
from turncredit.task_ids import part_of

if TYPE_CHECKING:
    from turncredit.training.config.run import Run

__all__ = ["credit_by_part", "parts_of_run"]


def parts_of_run(run: Run) -> tuple[str, ...]:
    """Return the names of the parts of a run's mixture, which need not exist here; () for one environment."""
    return tuple(part_names(run.env.id, run.env.arguments()))


def credit_by_part(rule: CreditRule, steps: Steps, parts: Collection[str], **options: object) -> Advantages:
    """Return the advantages of the turns of an iteration.

    Args:
        rule: the credit rule.
        steps: table of the turns.
        parts: names of the parts of a mixture; empty for one environment.
        options: further options of the rule, such as `state` and `rng`.
    """
    if not parts:
        return rule(steps, **options)
    kinds = np.array([part_of(str(task), parts) for task in steps.ids("task")], dtype=object)
    return credit_apart(rule, steps, kinds, **options)
