"""V0.5's baseline: by hand, at both ends of the mixture, from a column, and what it remembers of a task."""

import re

import numpy as np
import pytest

from turncredit.credit import BadOption, MissingColumn, Steps, v05


def outcomes(rewards, tasks=None, **columns):
    count = len(rewards)
    return Steps.from_columns(
        task=tasks or ["t"] * count, trajectory=range(count), turn=[0] * count, reward=rewards, **columns
    )


def test_one_win_of_four_where_most_were_expected():
    """m = -1/2, V = 0.6: D2 = 1.21 - 1/4 = 0.96, w = 0.96 / 1.21, baseline = -w/2 + 0.6 (1 - w) = -0.33 / 1.21."""
    result = v05(outcomes([1.0, 0.0, 0.0, 0.0]), prior=0.6)
    assert result.parts["share"].tolist() == pytest.approx([0.96 / 1.21] * 4)
    assert result.values.tolist() == pytest.approx([1 + 0.33 / 1.21, *[-1 + 0.33 / 1.21] * 3])
    assert result.report["correct"] == 0.25


def test_what_chance_explains_leaves_the_prior_and_a_large_surprise_the_mean():
    inside = v05(outcomes([1.0, 0.0, 0.0, 0.0]), prior=-0.25)  # (m - V)^2 = 1/16 < 1/4
    assert inside.parts["share"].tolist() == [0.0] * 4
    assert inside.values.tolist() == [1.25, -0.75, -0.75, -0.75]
    many = v05(outcomes([0.0] * 4000), prior=1.0)
    assert many.parts["baseline"] == pytest.approx(np.full(4000, -1.0), abs=1e-3)


def test_a_group_that_ended_alike_teaches_what_was_not_expected():
    table = outcomes([1.0] * 4)
    assert (v05(table).values > 0).all()
    assert (v05(outcomes([0.0] * 4)).values < 0).all()
    assert not v05(table, prior=1.0).values.any()


def test_the_memory_is_the_record_of_the_task():
    first = v05(outcomes([1.0, 1.0, 1.0, 0.0, 0.0], list("tttuu")))
    assert first.state == {"t": (3, 3), "u": (2, 0)}
    later = v05(outcomes([0.0, 1.0], ["t", "v"]), state=first.state)
    assert later.state == {"t": (4, 3), "u": (2, 0), "v": (1, 1)}
    table = outcomes([1.0, 0.0, 0.0])
    again = v05(table, state=later.state)  # 3 of 4: V = 1/2
    assert again.values.tolist() == v05(table, prior=0.5).values.tolist()


def test_a_column_says_how_likely_the_task_is():
    rewards = [1.0, 0.0, 0.0, 0.0]
    result = v05(outcomes(rewards, value=[0.8] * 4), prior_from="value")
    assert result.values == pytest.approx(v05(outcomes(rewards), prior=0.6).values)
    assert result.state is None
    assert v05(outcomes(rewards, value=[7.0] * 4), prior_from="value").values == pytest.approx(
        v05(outcomes(rewards), prior=1.0).values
    )
    with pytest.raises(MissingColumn, match=r"^v05 needs the column 'value'"):
        v05(outcomes(rewards), prior_from="value")


@pytest.mark.parametrize("state", [{"t": (1, 2)}, {"t": (1.5, 1.0)}, {"t": (1,)}, {"t": (3, -1)}])
def test_a_state_of_something_else_is_refused(state):
    with pytest.raises(
        BadOption, match=re.escape(f"state['t'] must be (episodes, right ones), two integers, got {state['t']}")
    ):
        v05(outcomes([1.0]), state=state)
    with pytest.raises(BadOption, match="state must be the dict that the previous call returned, got list"):
        v05(outcomes([1.0]), state=[state])
