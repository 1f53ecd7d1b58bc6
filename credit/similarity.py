"""Near-identical texts as one state: clusters that depend on the texts alone, not on the order of rows.

Left out on purpose: embeddings and other distances. Whoever has them writes cluster ids into `state` and needs no
similarity here.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from turnwise.credit.errors import BadTable
from turnwise.credit.steps import Ints, Steps


def similar_states(steps: Steps, threshold: float, *, order: str = "sorted") -> Ints:
    """Return the cluster of each row's state, int64 [N]; two rows of one task share it when their texts are similar.

    The rule: the distinct texts of a task are taken in sorted order; each joins the first leader with
    `difflib.SequenceMatcher(None, text, leader).ratio() >= threshold`, or becomes a leader itself. How often a text
    occurs, and in which row, has no influence.

    Args:
        steps: a table with `state`, every state a text.
        threshold: from above 0 to 1; 1 keeps only equal texts together.
        order: "sorted", or "rows" for the first appearance in the table, which other implementations use and which
            makes the clusters depend on the order of rows.

    Raises:
        BadTable: a state is not a text.
    """
    assert steps.state is not None
    pairs = np.stack([steps.task, steps.state], axis=1)
    distinct, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    names = steps.names.get("state", ())
    texts = [_text(names, int(code)) for code in distinct[:, 1]]
    rank = first.tolist() if order == "rows" else texts
    by_task: dict[int, list[int]] = {}
    for number in sorted(range(len(texts)), key=lambda item: rank[item]):
        by_task.setdefault(int(distinct[number, 0]), []).append(number)
    cluster = np.zeros(len(texts), dtype=np.int64)
    for members in by_task.values():
        leaders = follow_leaders([texts[number] for number in members], threshold)
        cluster[members] = [members[leader] for leader in leaders]
    return cluster[inverse.reshape(-1)]


def follow_leaders(texts: Sequence[str], threshold: float) -> list[int]:
    """Return, for each of distinct texts, the position of its leader (its own when it leads).

    Same result as comparing each text with every leader by `SequenceMatcher.ratio`; the lengths and the counts of
    characters bound the ratio from above, so that most comparisons are never made.

    Args:
        texts: distinct texts in the order in which they choose.
        threshold: smallest ratio that counts as similar.
    """
    counts = _character_counts(texts)
    lengths = np.asarray([len(text) for text in texts], dtype=np.int64)
    leaders: list[int] = []
    matchers: dict[int, SequenceMatcher[str]] = {}
    chosen: list[int] = []
    for number, text in enumerate(texts):
        found = number
        for leader in _candidates(number, np.asarray(leaders, dtype=np.int64), counts, lengths, threshold):
            matcher = matchers[leader]
            matcher.set_seq1(text)
            if matcher.ratio() >= threshold:
                found = leader
                break
        if found == number:
            leaders.append(number)
            matchers[number] = SequenceMatcher(None, "", text)
        chosen.append(found)
    return chosen


def _candidates(number: int, leaders: Ints, counts: Ints, lengths: Ints, threshold: float) -> list[int]:
    """Leaders, in order, whose ratio with the text can reach the threshold."""
    if not len(leaders):
        return []
    both = lengths[leaders] + lengths[number]
    near = leaders[2 * np.minimum(lengths[leaders], lengths[number]) >= threshold * both - 1e-9 * both]
    common = np.minimum(counts[near], counts[number]).sum(axis=1)
    both = lengths[near] + lengths[number]
    kept: list[int] = near[2 * common >= threshold * both - 1e-9 * both].tolist()
    return kept


def _character_counts(texts: Sequence[str]) -> Ints:
    """int64 [texts, distinct characters]: how often each character occurs."""
    alphabet = {character: column for column, character in enumerate(sorted(set().union(*texts)))} if texts else {}
    counts = np.zeros((len(texts), max(len(alphabet), 1)), dtype=np.int64)
    for row, text in enumerate(texts):
        columns, times = np.unique([alphabet[character] for character in text], return_counts=True)
        counts[row, columns.astype(np.int64)] = times
    return counts


def _text(names: Sequence[object], code: int) -> str:
    name = names[code] if code < len(names) else None
    if not isinstance(name, str):
        came = f"a {type(name).__name__}" if code < len(names) else "a table of codes without names"
        raise BadTable(f"similarity compares texts, but a state is {came}; make the states texts or leave it off")
    return name
