"""Methods with memory: SPEAR's recalibration and the replay of stored successes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import BadOption, BadTable, Steps, arpo_replay, get, grpo, spear, spear_replay
from turncredit.credit.turn.arpo_replay import Replacement, replacements, stored
from turncredit.training.run_folder.state_json import from_json, to_json

MANY = settings(max_examples=50, deadline=None)


def table(*scores, task="t"):
    """Episodes a, b, c ... of one task with one turn each."""
    return Steps.from_rows([row for k, score in enumerate(scores) for row in episode(task, "abcdef"[k], [score])])


def memory(means, stds=None, calls=1):
    return {"means": np.array(means), "stds": np.zeros(len(means)) if stds is None else np.array(stds), "calls": calls}


def test_spear_reference_numbers():
    """The middle of 0.2, 0.4, 0.5, 0.9 is 0.45."""
    result = spear_replay(table(1.0, 0.0, 0.5), state=memory([0.2, 0.4, 0.9, 0.5]))
    assert result.values == pytest.approx([0.55, -0.45, 0.05], abs=1e-12)
    assert result.keep.tolist() == [True, False, True]
    assert result.report["baseline"] == pytest.approx(0.45)


def test_spear_replay_options():
    state = memory([0.0, 1.0], [0.5, 1.5], calls=50)
    middling = spear_replay(table(1.0), state=state, percentile=100.0)
    assert (middling.values.tolist(), middling.keep.tolist()) == ([0.0], [True])  # not below it
    assert spear_replay(table(1.0), state=state, scale="std", eps=0.5).values == pytest.approx([0.5 / (1.0 + 0.5)])
    # a quarter of the way: (1 - cos(pi / 4)) / 2
    quarter = (1.0 - np.sqrt(0.5)) / 2.0
    assert spear_replay(table(1.0), state=state, weight=2.0).weight == pytest.approx([2.0 * quarter])
    assert spear_replay(table(1.0), state=state, warmup=50).weight.tolist() == [1.0]
    assert spear_replay(table(1.0), state=state, warmup=0, weight=0.5).weight.tolist() == [0.5]


@given(rows(), st.sampled_from(["none", "std"]))
@MANY
def test_without_a_bonus_spear_is_grpo(table, scale):
    steps = Steps.from_rows(table)
    assert spear(steps, scale=scale).values.tolist() == grpo(steps, scale=scale).values.tolist()


def test_spear_remembers_the_latest_groups():
    steps = Steps.from_rows(episode("t", 0, [1.0]) + episode("t", 1, [0.0]) + episode("u", 0, [4.0]))
    first = spear(steps)
    assert first.state["means"].tolist() == [0.5, 4.0]
    assert first.state["stds"] == pytest.approx([np.sqrt(0.5), 0.0])
    second = spear(table(3.0, 5.0), state=first.state, history=2)
    assert second.state["means"].tolist() == [4.0, 4.0]
    assert second.state["calls"] == 2
    assert first.state["means"].tolist() == [0.5, 4.0]  # the state that went in is as it was
    assert spear(Steps.empty(), state=first.state).state["calls"] == 1
    kept = from_json(to_json(second.state))
    assert spear_replay(table(5.0), state=kept).values.tolist() == [1.0]


def test_the_bonus_for_turns_fades_out():
    """Half way through four calls: (cos(pi / 2) + 1) / 2 = 1/2. One turn brings 0.05, twenty turns bring 0.5."""
    steps = Steps.from_rows(episode("t", 0, [0.0] * 20) + episode("t", 1, [0.0]))
    result = spear(steps, bonus_calls=4, state=memory([], calls=2))
    assert result.parts["bonus"][[0, 20]] == pytest.approx([0.5, 0.05])
    assert result.values[[0, 20]] == pytest.approx([0.225, -0.225])
    assert result.state["means"].tolist() == [0.0]  # of the scores alone
    assert not spear(steps, bonus_calls=4, state=memory([], calls=4)).values.any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: spear(table(1.0), state={"means": [1.0]}), "must be what spear returned"),
        (lambda: spear(table(1.0), state=memory([1.0, 2.0], [0.0])), "equally many means and stds"),
        (lambda: spear(table(1.0), state=memory([np.nan])), "finite"),
        (lambda: spear(table(1.0), history=0), "history"),
        (lambda: spear(table(1.0), bonus_calls=-1), "bonus_calls"),
        (lambda: spear_replay(table(1.0), state=None), "at least one group"),
        (lambda: spear_replay(table(1.0), state=memory([1.0]), scale="mad"), "got 'mad'"),
        (lambda: spear_replay(table(1.0), state=memory([1.0]), percentile=101), "percentile"),
    ],
)
def test_spear_refuses(call, words):
    with pytest.raises(BadOption, match=words):
        call()


def test_a_failed_group_gets_a_stored_success():
    """Scores 0 0 0 with a stored 0.9 for the first: mean 0.3, so 0.6 for the success and -0.3 for the failures."""
    rng = np.random.default_rng(0)
    first = arpo_replay(table(0.0, 0.9), scale="none", rng=rng)
    assert first.values == pytest.approx([-0.45, 0.45])
    assert replacements(first) == []
    assert stored(first.state) == [("t", 0, "b")]
    second = arpo_replay(table(0.0, 0.0, 0.0), scale="none", rng=rng, state=first.state)
    assert second.keep.tolist() == [False, True, True]
    assert second.values == pytest.approx([0.0, -0.3, -0.3])
    (new,) = replacements(second)
    assert new == Replacement("t", "a", 0, "b", pytest.approx(0.6))
    assert second.report["replaced"] == 1.0
    assert stored(second.state) == [("t", 0, "b")]  # it may be wanted again
    third = arpo_replay(table(0.0, 0.0, task="u"), scale="none", rng=rng, state=second.state)
    assert third.keep.all()  # no success of that task
    assert replacements(third) == []


def test_what_counts_as_failed():
    """The spread (ddof 0) of 0 and 0.1 is 0.05, of 0 and 0.09 below it; a mean of 0.2 is no failure."""
    state = arpo_replay(table(1.0, 0.0), rng=np.random.default_rng(0)).state

    def replaced(*scores, **options):
        return len(replacements(arpo_replay(table(*scores), state=state, rng=np.random.default_rng(0), **options)))

    assert replaced(0.0, 0.09) == 1
    assert replaced(0.0, 0.1) == 0
    assert replaced(0.0, 0.1, low_std=0.06) == 1
    assert replaced(0.2, 0.2) == 0
    assert replaced(0.2, 0.2, low_mean=0.3) == 1
    assert replaced(0.0) == 0  # alone, there is nothing to compare the success with


def test_each_task_keeps_its_latest_successes():
    state, rng = None, np.random.default_rng(0)
    for call in range(3):
        state = arpo_replay(table(0.5, 0.1, 1.0), capacity=3, state=state, rng=rng).state
        assert stored(state)[-2:] == [("t", call, "a"), ("t", call, "c")]
    assert stored(state) == [("t", 1, "c"), ("t", 2, "a"), ("t", 2, "c")]
    backwards = Steps.from_rows(episode("t", "b", [1.0]) + episode("t", "a", [1.0]))
    assert stored(arpo_replay(backwards, rng=rng).state) == [("t", 0, "a"), ("t", 0, "b")]
    assert from_json(to_json(state)) == state


def test_every_stored_success_is_drawn():
    state = arpo_replay(table(0.5, 0.75, 1.0), rng=np.random.default_rng(0)).state
    rng = np.random.default_rng(1)
    drawn = [replacements(arpo_replay(table(0.0, 0.0), state=state, rng=rng))[0].stored for _ in range(60)]
    assert {name: drawn.count(name) >= 10 for name in "abc"} == dict.fromkeys("abc", True)


@given(rows(rewards=st.sampled_from([0.0] * 12 + [1.0])), st.randoms(use_true_random=False), st.integers(0, 9))
@MANY
def test_the_order_of_rows_changes_neither_draws_nor_memory(table, random, seed):
    winners = [row for task in range(3) for k in range(4) for row in episode(f"task {task}", k, [0.5 + k])]
    state = arpo_replay(Steps.from_rows(winners), rng=np.random.default_rng(0)).state
    kept = to_json(state)
    order = list(range(len(table)))
    random.shuffle(order)
    one = arpo_replay(Steps.from_rows(table), state=state, rng=np.random.default_rng(seed))
    shuffled = Steps.from_rows([table[k] for k in order])
    two = arpo_replay(shuffled, state=state, rng=np.random.default_rng(seed))
    assert two.values.tolist() == one.values[order].tolist()
    assert two.keep.tolist() == one.keep[order].tolist()
    assert replacements(two) == replacements(one)
    assert two.state["stored"] == one.state["stored"]
    assert to_json(state) == kept  # the state that went in is as it was


@given(rows())
@MANY
def test_without_a_memory_the_replay_is_grpo(table):
    steps = Steps.from_rows(table)
    assert arpo_replay(steps, rng=np.random.default_rng(0)).values.tolist() == grpo(steps).values.tolist()


def test_the_replay_refuses():
    with pytest.raises(BadOption, match="needs a random generator"):
        arpo_replay(table(1.0))
    assert len(arpo_replay(Steps.empty())) == 0
    with pytest.raises(BadOption, match="must be the state that arpo_replay returned"):
        arpo_replay(table(1.0), state=[1], rng=np.random.default_rng(0))
    with pytest.raises(BadTable, match="needs hashable ids"):
        arpo_replay(Steps.from_rows(episode("t", [0], [1.0])), rng=np.random.default_rng(0))
    for option, value in {"low_std": -1.0, "low_mean": None, "success": -0.1, "capacity": 0}.items():
        with pytest.raises(BadOption, match=f"{option} must be"):
            get("arpo_replay", **{option: value})


def test_the_registry_knows_memory_and_chance():
    assert get("spear").remembers
    assert not get("spear").draws
    assert get("arpo_replay").remembers
    assert get("arpo_replay").draws
    assert get("m_grpo").draws
    assert not get("m_grpo").remembers
    assert not {"state", "rng"} & (get("arpo_replay").options.keys() | get("m_grpo").options.keys())
