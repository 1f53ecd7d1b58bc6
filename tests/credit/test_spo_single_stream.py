"""SPO (single-stream): the published step, what is remembered, and that nothing else is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import BadOption, BadTable, MissingColumn, Steps, spo_single_stream
from turncredit.credit.outcome.spo_single_stream import offline_trackers, sampling_weights

MANY = settings(max_examples=40, deadline=None)


def outcomes(rewards, tasks, **columns):
    count = len(rewards)
    return Steps.from_columns(task=tasks, trajectory=range(count), turn=[0] * count, reward=rewards, **columns)


def test_published_figures():
    steps = outcomes([1, 0, 1, 0], ["p", "q", "r", "s"], metric=[0.0, 0.01, 0.02, 0.06])
    before = {"p": (4, 4), "q": (2, 6), "r": (0.5, 0.5), "s": (6, 2)}
    result = spo_single_stream(steps, half_life=0.06, rho_min=0.875, rho_max=0.96, ddof=1, eps=1e-8, state=before)
    assert result.values == pytest.approx([0.81649657, -0.40824828, 0.81649657, -1.22474485], abs=1e-7)
    assert result.parts["baseline"].tolist() == [0.5, 0.25, 0.5, 0.75]
    assert result.parts["rho"] == pytest.approx([0.96, 0.89089872, 0.875, 0.875], abs=1e-8)
    after = np.array([result.state[task] for task in "pqrs"])
    assert after[:, 0] == pytest.approx([4.84, 1.78179744, 1.4375, 5.25], abs=1e-8)
    assert after[:, 1] == pytest.approx([3.84, 6.34539231, 0.4375, 2.75], abs=1e-8)


def test_without_the_memory_the_first_baseline_is_one_half():
    result = spo_single_stream(outcomes([1.0, 0.0, 0.0], ["p", "q", "r"]), drift=0.0, eps=0.0, ddof=0)
    # 0.5 -0.5 -0.5: mean -1/6, spread sqrt(2) / 3.
    assert result.values == pytest.approx(np.array([2, -1, -1]) / math.sqrt(2), rel=1e-12)
    assert result.state == {"p": (1.48, 0.48), "q": (0.48, 1.48), "r": (0.48, 1.48)}  # 0.96 / 2 and what came
    assert result.report == {"tasks": 3.0, "tasks_unseen": 3.0}


def test_what_is_remembered_changes_the_next_call_and_only_its_own_task():
    table = outcomes([1.0, 1.0], ["p", "q"])
    first = spo_single_stream(outcomes([1.0], ["p"]), drift=0.06)
    second = spo_single_stream(table, drift=0.06, state=first.state)
    assert second.parts["baseline"].tolist() == pytest.approx([1.4375 / 1.875, 0.5])
    assert second.values[0] < 0 < second.values[1]  # winning where it was expected is the lesser news
    assert second.report["tasks_unseen"] == 1.0
    assert first.state == {"p": (1.4375, 0.4375)}  # the state that was given is not touched
    assert spo_single_stream(outcomes([0.0], ["z"]), drift=0.0, state=second.state).state.keys() == {"p", "q", "z"}


def test_a_task_is_known_by_its_own_id_whatever_its_code():
    first = spo_single_stream(outcomes([1.0, 0.0], ["p", "q"]), drift=0.0)
    swapped = spo_single_stream(outcomes([0.0, 1.0], ["q", "p"]), drift=0.0)
    assert first.state == swapped.state
    numbered = spo_single_stream(outcomes([1.0, 0.0], np.array([7, 3])), drift=0.0)
    assert numbered.state.keys() == {7, 3}
    boards = [np.zeros((2, 2)), np.ones((2, 2))]
    drawn = spo_single_stream(outcomes([1.0, 0.0], boards), drift=0.0)
    again = spo_single_stream(outcomes([1.0], boards[:1]), drift=0.0, state=drawn.state)
    assert again.report["tasks_unseen"] == 0.0


def test_several_episodes_of_a_task_share_one_decay():
    table = [{**row, "metric": 0.06} for row in episode("p", 0, [0.0, 1.0]) + episode("p", 1, [0.0])]
    table += [{**row, "metric": 0.0} for row in episode("p", 2, [1.0])]
    result = spo_single_stream(Steps.from_rows(table), state={"p": (1.0, 3.0)})
    rho = 2 ** (-0.04 / 0.06)  # below the lower bound
    assert rho < 0.875
    assert result.state == {"p": (0.875 * 1 + 2, 0.875 * 3 + 1)}
    assert result.parts["rho"].tolist() == [0.875] * 4
    assert result.values[:2].tolist() == [result.values[0]] * 2  # an episode's turns get the same


def test_a_batch_of_one_teaches_nothing_but_is_remembered():
    result = spo_single_stream(outcomes([1.0], ["p"]), drift=0.0)
    assert result.values.tolist() == [0.0]
    assert result.state["p"][0] > result.state["p"][1]


def test_equal_surprises_give_exactly_nothing():
    state = {"p": (1.0, 3.0), "q": (3.0, 1.0)}
    assert spo_single_stream(outcomes([0.25, 0.75], ["p", "q"]), drift=0.0, state=state).values.tolist() == [0.0, 0.0]


def test_trackers_from_earlier_episodes():
    assert offline_trackers({"p": [1, 1, 0, 0, 0, 0, 0, 0]}) == {"p": (pytest.approx(20 / 9), pytest.approx(52 / 9))}
    assert offline_trackers({"p": []}, rho_min=0.5) == {"p": (1.0, 1.0)}
    start = offline_trackers({"p": [1.0] * 8})
    assert spo_single_stream(outcomes([1.0], ["p"]), drift=0.0, state=start).parts["baseline"][0] == pytest.approx(
        8.5 / 9
    )
    with pytest.raises(BadOption, match="rho_min"):
        offline_trackers({}, rho_min=1.0)


def test_tasks_that_are_neither_sure_nor_hopeless_are_wanted():
    weights = sampling_weights({"half": (2.0, 2.0), "sure": (9.0, 0.0), "some": (1.0, 3.0)})
    assert weights == {"half": 0.55, "sure": 0.05, "some": pytest.approx(math.sqrt(3) / 4 + 0.05)}
    assert sampling_weights(None) == {}


def test_a_checkpoint_can_keep_the_memory():
    memory = pytest.importorskip("turncredit.training.run_folder.state_json")
    state = spo_single_stream(outcomes([1.0, 0.0], [("a", 1), "b"]), drift=0.01).state
    assert memory.from_json(memory.to_json(state)) == state


def test_an_empty_table_leaves_the_memory_as_it_is():
    assert spo_single_stream(Steps.empty()).state is None
    result = spo_single_stream(Steps.empty(), state={"p": (1.0, 2.0)})
    assert len(result) == 0
    assert result.state == {"p": (1.0, 2.0)}


@given(rows(), st.randoms(use_true_random=False))
@MANY
def test_order_means_nothing_to_the_last_bit(table, random):
    table = [{**row, "metric": 0.01 * row["trajectory"]} for row in table]
    state = {f"task {n}": (1.0 + n, 2.0) for n in range(2)}
    order = list(range(len(table)))
    random.shuffle(order)
    one = spo_single_stream(Steps.from_rows(table), state=state)
    two = spo_single_stream(Steps.from_rows([table[row] for row in order]), state=state)
    assert two.values.tolist() == one.values[order].tolist()
    assert two.state == one.state


@given(rows(rewards=st.floats(-1e6, 1e6)), st.integers(1, 4))
@MANY
def test_rewards_beyond_one_stay_finite_and_bounded(table, calls):
    """Beyond [0, 1] the tracker is a moving average of the scores, whose weights never vanish."""
    state = None
    for _ in range(calls):
        result = spo_single_stream(Steps.from_rows(table), drift=0.03, state=state)
        state = result.state
    scores = {}
    for row in table:
        scores[row["task"], row["trajectory"]] = scores.get((row["task"], row["trajectory"]), 0.0) + row["reward"]
    largest = max(map(abs, scores.values())) + 1.0
    assert np.isfinite(result.values).all()
    assert (np.abs(result.parts["baseline"]) <= largest).all()


@given(rows())
@MANY
def test_the_batch_balances_and_copies_follow(table):
    steps = Steps.from_rows(table)
    values = spo_single_stream(steps, drift=0.0).values
    first = [number for number, row in enumerate(table) if row["turn"] == 0]
    assert values[first].sum() == pytest.approx(0.0, abs=1e-6)
    copied = spo_single_stream(Steps.from_rows([*table, {**table[0], "duplicate_of_row": 0}]), drift=0.0)
    assert copied.values.tolist() == [*values, values[0]]
    assert copied.state == spo_single_stream(steps, drift=0.0).state


def test_what_cannot_be_used_is_named():
    steps = outcomes([1.0], ["p"])
    with pytest.raises(MissingColumn, match="spo_single_stream needs the column 'metric'"):
        spo_single_stream(steps)
    with pytest.raises(BadTable, match="differs within one"):
        spo_single_stream(Steps.from_rows([{**row, "metric": row["turn"]} for row in episode("p", 0, [0.0, 1.0])]))
    with pytest.raises(BadTable, match="one number per row in 'metric', got 2"):
        spo_single_stream(outcomes([1.0], ["p"], metric=[[1.0, 2.0]]))
    with pytest.raises(BadTable, match="needs hashable task ids"):
        spo_single_stream(outcomes([1.0], [{"seed": 1}]), drift=0.0)
    with pytest.raises(BadTable, match="1 and True"):
        spo_single_stream(outcomes([1.0, 0.0], [1, True]), drift=0.0)
    for state in ([1], {"p": 3.0}, {"p": (1.0, -2.0)}, {"p": (1.0, float("nan"))}, {"p": ("1", "2")}):
        with pytest.raises(BadOption, match="state"):
            spo_single_stream(steps, drift=0.0, state=state)


def test_a_new_task_may_begin_with_more_weight():
    """(4, 4) and a win without drift: (0.96 * 4 + 1, 0.96 * 4)."""
    found = spo_single_stream(outcomes([1.0, 0.0], ["p", "q"]), drift=0.0, prior=8.0)
    assert found.state["p"] == pytest.approx((4.84, 3.84))
    assert found.parts["baseline"].tolist() == [0.5, 0.5]
