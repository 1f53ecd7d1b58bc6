"""Clusters of similar states, by text or by embedding, independent of the order of rows."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from turncredit.credit.errors import BadTable
from turncredit.credit.steps import Ints, Steps
from turncredit.credit.text_matching import Places, TextBatch, matches_needed, places_of, reaches

PACKED = 16
"""Number of leaders that a text is compared with at once."""


def similar_states(steps: Steps, threshold: float, *, order: str = "sorted") -> Ints:
    """Return the cluster of each row's state, int64 [N]; rows of one task with similar texts share it.

    The distinct texts of a task are taken in sorted order; each joins the first leader with
    `difflib.SequenceMatcher(None, text, leader).ratio() >= threshold`, or becomes a leader itself.

    Args:
        steps: a table whose `state` holds strings.
        threshold: in (0, 1]; 1 merges equal texts only.
        order: "sorted", or "rows" for the order of first appearance, as in other implementations; the clusters then
            depend on the order of rows.

    Raises:
        BadTable: a state is not a string.
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
    """Return the cluster of each row's embedding, int64 [N]; rows of one task with similar embeddings share it.

    As in `similar_states`, the sorted distinct embeddings of a task each join the first leader with a cosine of at
    least the threshold, or become leaders.

    Args:
        steps: a table with `metric`, the embeddings, float64 [N, M].
        threshold: in (0, 1].

    Raises:
        BadTable: an embedding is zero.
    """
    if not len(steps):
        return np.zeros(len(steps), dtype=np.int64)
    vectors = steps.column("metric").reshape(len(steps), -1)
    vectors = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-300)  # avoids overflow
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
    """Return the position of each text's leader; its own if it is a leader.

    Same result as comparing each text with every leader by `SequenceMatcher.ratio`; upper bounds from lengths,
    character counts and the longest common subsequence avoid most comparisons.

    Args:
        texts: distinct texts, in order of clustering.
        threshold: smallest ratio of similar texts.
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
        for rank in _filtered(text, candidates, packs, lengths[leaders], threshold):
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
    """Ranks of the leaders whose ratio can reach the threshold by lengths and character counts."""
    both = lengths[leaders] + lengths[number]
    near = np.flatnonzero(2 * np.minimum(lengths[leaders], lengths[number]) >= threshold * both - 1e-9 * both)
    common = np.minimum(counts[leaders[near]], counts[number]).sum(axis=1)
    both = both[near]
    kept: list[int] = near[2 * common >= threshold * both - 1e-9 * both].tolist()
    return kept


def _filtered(
    text: str, candidates: Sequence[int], packs: Sequence[TextBatch], lengths: Ints, threshold: float
) -> Iterator[int]:
    """The candidates whose longest common subsequence with the text can reach the threshold."""
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
