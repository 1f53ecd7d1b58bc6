"""Near-identical texts, or embeddings, as one state: clusters that do not depend on the order of rows.

Left out on purpose: making embeddings, and other distances. Whoever has clusters writes their ids into `state`, and
needs no similarity here.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from turnwise.credit.errors import BadTable
from turnwise.credit.matching import Places, TextBatch, matches_needed, places_of, reaches
from turnwise.credit.steps import Ints, Steps

PACKED = 16
"""How many leaders a text is compared with at once: more would be compared in vain when an early one takes it."""


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
    pairs = np.stack([steps.task, steps.column("state")], axis=1)
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


def similar_vectors(steps: Steps, threshold: float) -> Ints:
    """Return the cluster of each row's embedding, int64 [N]; two rows of one task share it when they point alike.

    The rule is that of `similar_states`: the distinct embeddings of a task, sorted by their numbers, each join the
    first leader with a cosine of at least the threshold, or lead.

    Args:
        steps: a table with `metric`, the embeddings, float64 [N, M].
        threshold: from above 0 to 1.

    Raises:
        BadTable: an embedding is zero, and so points nowhere.
    """
    if not len(steps):
        return np.zeros(len(steps), dtype=np.int64)
    vectors = steps.column("metric").reshape(len(steps), -1)
    vectors = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-300)  # so that no square overflows
    length = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    if (length == 0.0).any():
        raise BadTable(f"row {int(np.argmin(length))} has an embedding of zeros in 'metric', which has no direction")
    keyed = np.column_stack([steps.task, vectors / length])
    distinct, inverse = np.unique(keyed, axis=0, return_inverse=True)
    cluster = np.arange(len(distinct))
    starts = np.flatnonzero(np.diff(distinct[:, 0], prepend=-1.0))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(distinct)], strict=True):
        leaders: list[int] = []
        for number in range(start, stop):
            near = distinct[leaders, 1:] @ distinct[number, 1:] >= threshold - 1e-12
            if near.any():
                cluster[number] = leaders[int(np.argmax(near))]
            else:
                leaders.append(number)
    return cluster[inverse.reshape(-1)]


def follow_leaders(texts: Sequence[str], threshold: float) -> list[int]:
    """Return, for each of distinct texts, the position of its leader (its own when it leads).

    Same result as comparing each text with every leader by `SequenceMatcher.ratio`; the lengths, the counts of
    characters and the longest common subsequence bound the ratio from above, so that most comparisons are never made.

    Args:
        texts: distinct texts in the order in which they choose.
        threshold: smallest ratio that counts as similar.
    """
    counts = _character_counts(texts)
    lengths = np.asarray([len(text) for text in texts], dtype=np.int64)
    leaders = np.zeros(len(texts), dtype=np.int64)
    packs: list[TextBatch] = []
    places: list[Places] = []
    chosen: list[int] = []
    for number, text in enumerate(texts):
        found = number
        candidates = _candidates(number, leaders[: len(places)], counts, lengths, threshold)
        for rank in _worth_a_look(text, candidates, packs, lengths[leaders], threshold):
            other = texts[leaders[rank]]
            if reaches(text, other, places[rank], matches_needed(threshold, len(text) + len(other))):
                found = int(leaders[rank])
                break
        if found == number:
            leaders[len(places)] = number
            if len(places) % PACKED == 0:
                packs.append(TextBatch())
            packs[-1].add(text)
            places.append(places_of(text))
        chosen.append(found)
    return chosen


def _candidates(number: int, leaders: Ints, counts: Ints, lengths: Ints, threshold: float) -> list[int]:
    """Ranks of the leaders, in order, whose ratio with the text can reach the threshold by lengths and characters."""
    both = lengths[leaders] + lengths[number]
    near = np.flatnonzero(2 * np.minimum(lengths[leaders], lengths[number]) >= threshold * both - 1e-9 * both)
    common = np.minimum(counts[leaders[near]], counts[number]).sum(axis=1)
    both = both[near]
    kept: list[int] = near[2 * common >= threshold * both - 1e-9 * both].tolist()
    return kept


def _worth_a_look(
    text: str, candidates: Sequence[int], packs: Sequence[TextBatch], lengths: Ints, threshold: float
) -> Iterator[int]:
    """Those of the candidates whose longest common subsequence with the text reaches the threshold as well."""
    for packed, ranks in groupby(candidates, key=lambda rank: rank // PACKED):
        needed = {rank % PACKED: matches_needed(threshold, len(text) + int(lengths[rank])) for rank in ranks}
        for number in packs[packed].sharing(text, needed):
            yield packed * PACKED + number


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
        raise BadTable(f"similarity compares texts, but a state is {came}; use string states or omit similarity")
    return name
