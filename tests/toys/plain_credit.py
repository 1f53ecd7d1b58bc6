"""GRPO and GiGPO written out with dictionaries and loops, from the definitions: the oracle of the vectorised ones.

Left out on purpose: speed, copies, similarity. Standard library only, and exact sums by `math.fsum`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def paid(row: Row, penalty: float) -> float:
    """Reward of a row less what its invalid action costs."""
    return row["reward"] - (0.0 if row.get("valid", True) else penalty)


def returns(rows: list[Row], gamma: float, penalty: float = 0.0) -> list[float]:
    """Discounted sum of rewards from each row on, going backwards in time."""
    out = [0.0] * len(rows)
    later: dict[Any, float] = {}
    for number in sorted(range(len(rows)), key=lambda i: -rows[i]["turn"]):
        row = rows[number]
        key = (row["task"], row["trajectory"])
        out[number] = later[key] = paid(row, penalty) + gamma * later.get(key, 0.0)
    return out


def norm(pairs: Iterable[tuple[float, float]], scale: str, ddof: int, eps: float) -> tuple[float, float, float]:
    """Mean, divisor and count of (weight, value) pairs."""
    pairs = list(pairs)
    count = math.fsum(w for w, _ in pairs)
    mean = math.fsum(w * x for w, x in pairs) / count
    if scale == "none" or count < 1.5:
        return mean, 1.0, count
    variance = math.fsum(w * (x - mean) ** 2 for w, x in pairs) / (count - ddof)
    return mean, math.sqrt(variance) + eps, count


def relative(values: list[float], groups: list[Any], members: list[Any], *, unit: str, scale: str, ddof: int = 1,
             eps: float = 1e-6) -> list[float]:  # fmt: skip
    """Each value relative to its group; a group of one gives zero."""
    cells: dict[Any, int] = defaultdict(int)
    for group, member in zip(groups, members, strict=True):
        cells[group, member] += 1
    pairs = defaultdict(list)
    for value, group, member in zip(values, groups, members, strict=True):
        pairs[group].append((1.0 / cells[group, member] if unit == "trajectory" else 1.0, value))
    measured = {group: norm(found, scale, ddof, eps) for group, found in pairs.items()}
    out = []
    for value, group in zip(values, groups, strict=True):
        mean, divisor, count = measured[group]
        out.append((value - mean) / divisor if count > 1.5 else 0.0)
    return out


def grpo(
    rows: list[Row], *, scale: str = "std", unit: str = "trajectory", penalty: float = 0.0, **kwargs: Any
) -> list[float]:
    """Score of each row's episode relative to its task."""
    score: dict[Any, float] = defaultdict(float)
    for row in rows:
        score[row["task"], row["trajectory"]] += paid(row, penalty)
    members = [(row["task"], row["trajectory"]) for row in rows]
    return relative(
        [score[member] for member in members], [row["task"] for row in rows], members, unit=unit, scale=scale, **kwargs
    )


def gigpo(rows: list[Row], *, gamma: float = 0.95, w: float = 1.0, scale: str = "std", unit: str = "trajectory",
          penalty: float = 0.1, **kwargs: Any) -> list[float]:  # fmt: skip
    """Episode term plus w times the step term."""
    episode = grpo(rows, scale=scale, unit=unit, penalty=penalty, **kwargs)
    step = relative(
        returns(rows, gamma, penalty),
        [(row["task"], row["state"]) for row in rows],
        [(row["task"], row["trajectory"]) for row in rows],
        unit=unit,
        scale=scale,
        **kwargs,
    )
    return [a + w * b for a, b in zip(episode, step, strict=True)]
