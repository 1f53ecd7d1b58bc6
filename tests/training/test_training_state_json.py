"""What a credit rule remembers comes back as it was, through text."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.training.errors import TrainingError
from turncredit.training.run_folder.state_json import from_json, to_json

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
keys = st.recursive(plain, lambda inner: st.tuples(inner, inner), max_leaves=4)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.frozensets(keys, max_size=4)
        | st.sets(keys, max_size=4)
    ),
    max_leaves=12,
)


def through_text(value):
    return from_json(json.loads(json.dumps(to_json(value))))


@given(values)
def test_any_value_comes_back(value):
    back = through_text(value)
    assert back == value
    assert repr(type(back)) == repr(type(value))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "<U5"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arrays_come_back_bit_by_bit(dtype, shape):
    array = np.asarray(np.arange(np.prod(shape)).reshape(shape) / 3).astype(dtype)
    back = through_text({"array": array})["array"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    back[...] = 1  # it can be written on


def test_scalars_of_numpy_and_numbers_that_are_not_finite():
    back = through_text([np.float32(0.1), float("inf"), -0.0])
    assert type(back[0]) is np.float32
    assert back[0] == np.float32(0.1)
    assert str(back[1:]) == "[inf, -0.0]"


def test_later_changes_do_not_reach_what_was_frozen():
    value = {"mean": np.zeros(2), "seen": [1]}
    frozen = to_json(value)
    value["mean"][0] = 9.0
    value["seen"].append(2)
    assert from_json(frozen)["seen"] == [1]
    assert from_json(frozen)["mean"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [object(), {"a": [Exception()]}, np.array([object()])])
def test_what_cannot_be_kept_is_refused(value):
    with pytest.raises(TrainingError, match=r"cannot keep the credit rule's state, because it contains a \w+"):
        to_json(value)
