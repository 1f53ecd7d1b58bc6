from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.curriculum.errors import BadState, CurriculumError
from turncredit.curriculum.task_order import TaskSampler


@given(st.integers(1, 20), st.lists(st.integers(0, 9), max_size=10), st.integers(0, 100))
def test_a_stream_goes_on_where_it_stood(count, draws, cut):
    names = [f"t{k}" for k in range(count)]
    whole = TaskSampler(names, seed=3).next(sum(draws) + cut)
    first = TaskSampler(names, seed=3)
    taken = [name for draw in draws for name in first.next(draw)]
    second = TaskSampler(names, seed=3)
    second.load_state_dict(first.state_dict())
    assert taken + second.next(cut) == whole


@given(st.integers(1, 20), st.integers(1, 5))
def test_every_epoch_visits_each_task_once(count, epochs):
    names = [f"t{k}" for k in range(count)]
    stream = TaskSampler(names, seed=1)
    for _ in range(epochs):
        assert Counter(stream.next(count)) == Counter(names)


def test_orders_differ_by_epoch_and_by_seed():
    names = [f"t{k}" for k in range(30)]
    stream = TaskSampler(names, seed=1)
    first, second = stream.next(30), stream.next(30)
    assert first != second
    assert first != TaskSampler(names, seed=2).next(30)


def test_another_stream_is_refused():
    stream = TaskSampler(["a", "b"], seed=1)
    with pytest.raises(BadState, match="seed 1, but this run has 2"):
        TaskSampler(["a", "b"], seed=2).load_state_dict(stream.state_dict())
    with pytest.raises(BadState, match="count 2, but this run has 3"):
        TaskSampler(["a", "b", "c"], seed=1).load_state_dict(stream.state_dict())
    with pytest.raises(CurriculumError, match="no task"):
        TaskSampler([], seed=1)
