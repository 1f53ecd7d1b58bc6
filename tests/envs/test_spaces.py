"""The space of texts."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from gymnasium.spaces import Dict
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs import Text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_holds_any_text_within_its_length(text: str):
    assert text in Text()
    assert (text in Text(max_length=3)) == (len(text) <= 3)


@pytest.mark.parametrize("other", [7, None, b"look", ["look"], np.array("look"), "lone surrogate \ud800"])
def test_holds_nothing_else(other: object):
    assert other not in Text()


def test_length_counts_code_points_not_bytes():
    assert "語🙂" in Text(max_length=2)


@given(st.integers(0, 200), st.integers(0, 2**32 - 1))
def test_samples_are_members_and_follow_the_seed(length: int, seed: int):
    one, other = Text(length, seed=seed), Text(length)
    other.seed(seed)
    samples = [one.sample() for _ in range(3)]
    assert samples == [other.sample() for _ in range(3)]
    assert all(sample in one for sample in samples)


def test_samples_differ():
    space = Text(seed=0)
    assert len({space.sample() for _ in range(20)}) > 15


def test_sampling_takes_no_mask():
    with pytest.raises(ValueError, match="mask"):
        Text().sample(mask=np.ones(3, dtype=np.int8))  # type: ignore[arg-type]


def test_a_negative_length_holds_nothing_and_is_refused():
    with pytest.raises(ValueError, match="-1"):
        Text(max_length=-1)


def test_equality_hash_and_repr_follow_the_bound():
    assert Text(5) == Text(5, seed=1)
    assert hash(Text(5)) == hash(Text(5))
    assert Text(5) != Text(6)
    assert Text(5) != "Text(max_length=5)"
    assert eval(repr(Text(5))) == Text(5)


def test_pickle_and_copy_keep_the_bound_and_the_generator():
    space = Text(9, seed=4)
    space.sample()
    for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert again == space
        assert again.sample() == copy.deepcopy(space).sample()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_json_there_and_back(texts: list[str]):
    space = Text()
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(texts)))) == texts


def test_goes_into_gymnasiums_composite_spaces():
    both = Dict({"text": Text(10), "more": Text(10)}, seed=1)
    assert both.sample() in both
    assert {"text": "x" * 11, "more": ""} not in both
    assert not Text().is_np_flattenable
