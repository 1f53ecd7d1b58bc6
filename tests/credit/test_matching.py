"""The short cuts around difflib: the same answers, on short texts, long ones and odd ones."""

from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.credit.text_matching import TextBatch, matches_needed, places_of, reaches

SHORT = st.text(alphabet="abc ", max_size=14)
THRESHOLDS = st.sampled_from([0.0, 0.2, 0.5, 0.75, 0.9, 1.0])
CHARACTERS = np.array(list("aaaabbbcc  defghijklmnopqrstuvwxyz"))


def answer(one, other, threshold):
    return reaches(one, other, places_of(other), matches_needed(threshold, len(one) + len(other)))


def subsequence(one, other):
    """By the table that everybody knows."""
    above = [0] * (len(other) + 1)
    for character in one:
        row = [0]
        for j, letter in enumerate(other):
            row.append(above[j] + 1 if character == letter else max(above[j + 1], row[j]))
        above = row
    return above[-1]


@given(SHORT, SHORT, THRESHOLDS)
@settings(max_examples=300, deadline=None)
def test_the_same_answer_as_difflib(one, other, threshold):
    assert answer(one, other, threshold) == (SequenceMatcher(None, one, other).ratio() >= threshold)


@pytest.mark.parametrize("seed", range(12))
def test_the_same_answer_on_long_texts(seed):
    """From 200 characters on difflib does not look for frequent characters, and finds other blocks."""
    rng = np.random.default_rng(seed)
    other = "".join(rng.choice(CHARACTERS, int(rng.integers(190, 420))))
    edited = list(other)
    for place in sorted(rng.integers(0, len(other), int(rng.integers(0, 90))).tolist(), reverse=True):
        edited[place : place + int(rng.integers(0, 3))] = rng.choice(CHARACTERS, int(rng.integers(0, 4))).tolist()
    one = "".join(edited)
    ratio = SequenceMatcher(None, one, other).ratio()
    for threshold in (ratio, np.nextafter(ratio, 2.0), 0.98 * ratio, min(1.0, 1.02 * ratio), 0.5, 0.9):
        assert answer(one, other, float(threshold)) == (ratio >= threshold)


@pytest.mark.parametrize(("one", "other"), [("", ""), ("", "a"), ("a", ""), ("\U0001f600x", "x\U0001f600")])
def test_odd_texts(one, other):
    for threshold in (0.0, 0.5, 1.0):
        assert answer(one, other, threshold) == (SequenceMatcher(None, one, other).ratio() >= threshold)


@given(st.integers(0, 500), st.floats(0.0, 1.0))
def test_the_fewest_matches_are_the_fewest(length, threshold):
    needed = matches_needed(threshold, length)
    if length:
        assert 2.0 * needed / length >= threshold
        assert needed == 0 or 2.0 * (needed - 1) / length < threshold


@given(st.lists(st.text(alphabet="abc ", max_size=120), max_size=6), st.text(alphabet="abc ", max_size=120), st.data())
@settings(max_examples=200, deadline=None)
def test_a_pack_compares_each_of_its_texts_alone(texts, text, data):
    pack = TextBatch()
    for other in texts:
        pack.add(other)
    assert len(pack) == len(texts)
    longest = [subsequence(text, other) for other in texts]
    needed = {number: longest[number] + data.draw(st.integers(-1, 1)) for number in range(len(texts)) if number != 2}
    assert pack.sharing(text, needed) == [number for number, least in needed.items() if least <= longest[number]]
