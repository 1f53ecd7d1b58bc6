"""Annotators that need no model: what the texts and tokens of an episode tell."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from turncredit.agents.trajectory import Group
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.annotation import Notes, Place
from turncredit.curriculum.reward_rules.behaviours import repeated_share


def repeated(groups: Sequence[Group]) -> Notes:
    """Return the share of an answer that repeats its tail, for answers that were cut at their limit; else 0.

    Args:
        groups: the episodes.
    """
    values: dict[Place, float] = {
        (member.id, number): repeated_share(turn.response)
        for group in groups
        for member in group.finished
        for number, turn in enumerate(member.turns)
        if turn.finish == "length"
    }
    return Notes({"repeated": values}, {"repeated": 0.0})


def answers(groups: Sequence[Group], *, column: str = "label") -> Notes:
    """Return the last action of each episode, in lower case and with single spaces, as the class of its answer.

    Args:
        groups: the episodes.
        column: where the answers go.
    """
    values: dict[Place, str] = {}
    for group in groups:
        for member in group.finished:
            final = next((turn.action for turn in reversed(member.turns) if turn.action is not None), "")
            text = " ".join(final.lower().split())
            values |= {(member.id, number): text for number in range(len(member.turns))}
    return Notes({column: values}, {column: ""})


def text_vector(groups: Sequence[Group], *, column: str = "metric", size: int = 64, n: int = 3) -> Notes:
    """Return a vector of each episode's answers: counts of their n-grams of characters, hashed into cells.

    Episodes with similar answers have a large cosine. It needs no model, and knows nothing of meaning.

    Args:
        groups: the episodes.
        column: where the vectors go.
        size: number of cells.
        n: characters of an n-gram.
    """
    check_number("size", size, 1, whole=True)
    check_number("n", n, 1, whole=True)
    values: dict[Place, tuple[float, ...]] = {}
    for group in groups:
        for member in group.finished:
            vector = hashed("\n".join(turn.text for turn in member.turns), size, n)
            values |= {(member.id, number): vector for number in range(len(member.turns))}
    return Notes({column: values}, {column: (0.0,) * size})


def hashed(text: str, size: int, n: int) -> tuple[float, ...]:
    """Return the unit vector of a text's n-grams; zeros for a text that is shorter.

    >>> round(float(np.dot(hashed("open the door", 64, 3), hashed("open the door", 64, 3))), 6)
    1.0
    """
    cells = np.zeros(size)
    for start in range(len(text) - n + 1):
        gram = text[start : start + n].encode("utf-8", "surrogatepass")
        cells[int.from_bytes(hashlib.blake2b(gram, digest_size=4).digest(), "big") % size] += 1.0
    length = np.linalg.norm(cells)
    return tuple((cells / length).tolist()) if length else tuple(cells.tolist())
