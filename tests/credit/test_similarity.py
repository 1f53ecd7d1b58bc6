"""Clusters of similar texts: the rule, its freedom from the order of rows, the same result as comparing all pairs."""

from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.credit import BadTable, Steps
from turncredit.credit.similarity import follow_leaders, similar_states

TEXTS = st.lists(st.text(alphabet="abc ", max_size=8), min_size=1, max_size=12)
THRESHOLDS = st.sampled_from([0.3, 0.5, 0.75, 0.8, 0.95, 1.0])


def table(texts, tasks=None):
    return Steps.from_columns(
        task=tasks or ["t"] * len(texts), trajectory=range(len(texts)), turn=[0] * len(texts),
        reward=[0.0] * len(texts), state=texts,
    )  # fmt: skip


def compared(texts, threshold):
    """Every text with every leader, in order."""
    leaders, out = [], []
    for number, text in enumerate(texts):
        alike = (k for k in leaders if SequenceMatcher(None, text, texts[k]).ratio() >= threshold)
        out.append(next(alike, number))
        if out[-1] == number:
            leaders.append(number)
    return out


@given(TEXTS, THRESHOLDS)
@settings(max_examples=150, deadline=None)
def test_bounds_skip_work_but_change_nothing(texts, threshold):
    distinct = sorted(set(texts))
    assert follow_leaders(distinct, threshold) == compared(distinct, threshold)


def test_long_texts_too():
    """difflib treats frequent characters apart from 200 characters on; the bounds must hold there as well."""
    rng = np.random.default_rng(0)
    base = "".join(rng.choice(list("abcdefgh "), 260))
    texts = sorted({base[:cut] + tail + base[cut + 3 :] for cut in (5, 60, 140, 250) for tail in ("", "x", "zzzz")})
    assert follow_leaders(texts, 0.97) == compared(texts, 0.97)


@given(TEXTS, THRESHOLDS, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_order_of_rows_and_repetitions_mean_nothing(texts, threshold, random):
    shuffled = texts + texts[:2]
    random.shuffle(shuffled)
    one = dict(zip(texts, similar_states(table(texts), threshold).tolist(), strict=True))
    two = dict(zip(shuffled, similar_states(table(shuffled), threshold).tolist(), strict=True))
    for a in texts:
        for b in texts:
            assert (one[a] == one[b]) == (two[a] == two[b])


def test_threshold_one_means_equal_texts():
    texts = ["ab", "ba", "ab", ""]
    clusters = similar_states(table(texts), 1.0)
    assert clusters[0] == clusters[2]
    assert len(set(clusters.tolist())) == 3


def test_tasks_are_never_mixed():
    clusters = similar_states(table(["same", "same"], ["t", "u"]), 0.5)
    assert clusters[0] != clusters[1]


def test_the_rule_in_rows():
    """Sorted: aaaa leads, aaab joins it (0.75), aabb does not (0.5) and leads. By rows aaab leads and takes all."""
    texts = ["aaab", "aaaa", "aabb"]
    first, second, third = similar_states(table(texts), 0.75).tolist()
    assert first == second != third
    assert len(set(similar_states(table(texts), 0.75, order="rows").tolist())) == 1


@pytest.mark.parametrize("state", [3, None, ["a"], b"a"])
def test_only_texts_can_be_similar(state):
    with pytest.raises(BadTable, match="similarity compares texts"):
        similar_states(table(["a", state]), 0.9)


def test_codes_without_texts_cannot_be_similar():
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(BadTable, match="codes without names"):
        similar_states(Steps(task=one, trajectory=one, turn=one, reward=np.zeros(1), extra={"state": one}), 0.9)


def test_an_empty_table_has_no_clusters():
    steps = Steps.from_columns(task=[], trajectory=[], turn=[], reward=[], state=[])
    assert similar_states(steps, 0.9).tolist() == []
