"""Credit for the turns of several environments: each has the statistics of its own.

The rewards of two environments have different scales and spreads, and so a mean or a standard deviation over a batch of
both means nothing. Here a rule sees the turns of one environment at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from turncredit.credit.advantages import Advantages
from turncredit.credit.steps import Steps

if TYPE_CHECKING:
    from turncredit.credit.registry import CreditRule

__all__ = ["credit_apart"]


def credit_apart(
    rule: CreditRule, steps: Steps, kinds: npt.NDArray[np.object_], state: object = None, **options: object
) -> Advantages:
    """Return the advantages that a rule gives to the turns of each kind alone.

    A[rows of kind k] = rule(rows of kind k)

    Args:
        rule: the credit rule.
        steps: table of N turns; a copy of a row has the advantage of the original.
        kinds: str [N], such as the environment of each row. All turns of a task are of one kind.
        state: `Advantages.state` of the previous call; None at first.
        options: further options of the rule. A generator `rng` is used for one kind after another, sorted by name.

    Returns:
        Advantages in the order of the table. Numbers of `report` are means over the turns; `state` has the memory of
        each kind.

    >>> steps = Steps.from_columns(task=["t", "u"], trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 5.0])
    >>> credit_apart(lambda steps: Advantages.of(steps, steps.reward - steps.reward.mean()), steps,
    ...              np.array(["x", "y"], dtype=object)).values.tolist()
    [0.0, 0.0]
    """
    copied = steps.column("duplicate_of_row") if "duplicate_of_row" in steps else np.full(len(steps), -1)
    source = np.where(copied < 0, np.arange(len(steps)), copied)
    memories = dict(cast(Mapping[str, object], state or {}))
    pieces, rows = [], []
    for kind in sorted(set(kinds.tolist())):
        own = np.flatnonzero((kinds == kind) & (copied < 0))
        if len(own):
            table = steps.take(own)
            memory = {"state": memories.get(kind)} if getattr(rule, "remembers", False) else {}
            piece = rule(table, **memory, **options)
            memories[kind] = piece.state
            pieces.append(piece.aligned(table.ids("trajectory"), table.turn))
            rows.append(own)
    if not pieces:
        return rule(steps, **({"state": None} if getattr(rule, "remembers", False) else {}), **options)
    joined = _joined(pieces)
    places = np.empty(len(steps), dtype=np.int64)
    places[np.concatenate(rows)] = np.arange(len(joined))
    remembers = any(memory is not None for memory in memories.values())
    return replace(joined.take(places[source]), state=memories if remembers else None)


def _joined(pieces: list[Advantages]) -> Advantages:
    """Return the advantages of several tables one after another."""
    columns = ("task", "trajectory", "turn", "values", "keep", "weight")
    shared = [name for name in pieces[0].parts if all(name in piece.parts for piece in pieces)]
    parts = {name: np.concatenate([piece.parts[name] for piece in pieces]) for name in shared}
    sizes, total = [len(piece) for piece in pieces], sum(map(len, pieces))
    reported = [name for name in pieces[0].report if all(name in piece.report for piece in pieces)]
    report = {
        name: sum(size * piece.report[name] for size, piece in zip(sizes, pieces, strict=True)) / total
        for name in reported
    }
    arrays = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in columns}
    return Advantages(**arrays, parts=parts, report=report)
