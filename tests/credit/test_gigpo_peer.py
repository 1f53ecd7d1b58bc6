"""The published code's figures, reproduced under the preset; and where our defaults differ from it, with the reason."""

import json
from pathlib import Path

import numpy as np
import pytest
from toys.tables import episode

from turncredit.credit import Steps, discounted_returns, gigpo, grpo

CASES = {c["name"]: c for c in json.loads((Path(__file__).parent / "verl_agent_gigpo.json").read_text())["cases"]}
AGREE = [name for name, case in CASES.items() if case["agrees"]]
TOLERANCE = {"rel": 1e-4, "abs": 1e-4}


def table(name, rows=None):
    case = CASES[name]
    keys = ("task", "trajectory", "turn", "reward", "state")
    made = [dict(zip(keys, row, strict=True)) for row in zip(*(case[key] for key in keys), strict=True)]
    for number, row in enumerate(made):
        row["valid"] = number not in case["invalid"]
    for copy, original in case["copies"].items():
        made[int(copy)]["duplicate_of_row"] = original
    return Steps.from_rows(made if rows is None else [made[row] for row in rows])


def outcome_options(name):
    return {k: v for k, v in CASES[name]["options"].items() if k not in ("gamma", "w", "similarity")}


def test_every_case_is_here():
    assert len(CASES) == 34
    assert len(AGREE) == 33


@pytest.mark.parametrize("name", AGREE)
def test_the_preset_reproduces_the_published_code(name):
    case, steps = CASES[name], table(name)
    result = gigpo(steps, compat="verl-agent", **case["options"])
    expected = case["expected"]
    assert result.values == pytest.approx(expected["advantage"], **TOLERANCE)
    assert result.parts["episode"] == pytest.approx(expected["episode_advantage"], **TOLERANCE)
    assert result.parts["step"] == pytest.approx(expected["step_advantage"], **TOLERANCE)
    assert discounted_returns(steps, case["options"]["gamma"]) == pytest.approx(
        expected["discounted_return"], **TOLERANCE
    )


@pytest.mark.parametrize("name", AGREE)
def test_the_preset_reproduces_its_grpo(name):
    result = grpo(table(name), compat="verl-agent", **outcome_options(name))
    assert result.values == pytest.approx(CASES[name]["expected"]["grpo_advantage"], **TOLERANCE)


@pytest.mark.parametrize("name", [name for name in AGREE if not CASES[name]["copies"] and not CASES[name]["invalid"]])
def test_its_other_statistics_are_our_unit_of_trajectories(name):
    """The published code can count trajectories too, with the raw score for a group of one; no configuration does."""
    result = grpo(table(name), singleton="raw", **outcome_options(name))
    expected = CASES[name]["expected"]["episode_advantage_per_trajectory_stats"]
    assert result.values == pytest.approx(expected, **TOLERANCE)


# From here on: the defaults, where they give another answer than the published code.


def test_copies_that_fill_a_batch_change_nothing():
    """There, rows copied to fill up a batch enter every mean and spread, so that a random draw moves all numbers."""
    name = "copied_rows113"
    originals = [row for row in range(len(CASES[name]["task"])) if str(row) not in CASES[name]["copies"]]
    with_copies, without = gigpo(table(name)).values, gigpo(table(name, originals)).values
    assert with_copies[originals].tolist() == without.tolist()
    for copy, original in CASES[name]["copies"].items():
        assert with_copies[int(copy)] == with_copies[original]
    peer = {"compat": "verl-agent", "scale": "none"}
    assert not np.allclose(gigpo(table(name), **peer).values[originals], gigpo(table(name, originals), **peer).values)


@pytest.mark.parametrize("name", ["single_step_group_mean_norm", "single_step_group_mean_std_norm"])
def test_a_group_of_one_row_gives_nothing(name):
    """There, its raw reward of 10: a push towards whatever was done, with nothing to compare it with."""
    assert CASES[name]["expected"]["advantage"] == pytest.approx([10.0], rel=1e-5)
    assert gigpo(table(name)).values.tolist() == [0.0]


def test_a_one_turn_win_and_a_nine_turn_loss_weigh_the_same():
    """There, statistics over rows make +9 and -1 of them: the longer an episode, the less its result counts."""
    name = "len_bias_mean_norm"
    assert CASES[name]["expected"]["episode_advantage"] == pytest.approx([9.0] + [-1.0] * 9)
    assert gigpo(table(name), scale="none").parts["episode"].tolist() == [5.0] + [-5.0] * 9
    scaled = gigpo(table("len_bias_mean_std_norm")).parts["episode"]
    assert scaled[0] == -scaled[1] == pytest.approx(np.sqrt(0.5), rel=1e-6)


def test_the_turns_of_one_episode_share_its_standing_whatever_was_invalid():
    """There, the penalty comes off the row's own score: within one won episode one turn got -1.5, the next +0.5."""
    name = "penalty_in_mean_mean_std_norm"
    assert CASES[name]["expected"]["episode_advantage"] == pytest.approx([-1.5, 0.5, 0.5, 0.5], rel=1e-4)
    result = gigpo(table(name)).parts["episode"]
    assert result[0] == result[1] == -result[2] == -result[3] == pytest.approx(-np.sqrt(0.5), rel=1e-4)
    # Where no spread may scale a fault of 0.1 up to the size of a lost game, it can enter the advantage itself.
    late = gigpo(table(name), penalty_in="advantage").values
    assert late == pytest.approx([-0.1, 0.0, 0.0, 0.0], abs=1e-12)


def test_a_penalty_reaches_the_turns_that_led_to_it():
    """There, it is taken from the row's return after discounting, so the turn before an invalid one does not see it."""
    rows = [{**row, "valid": row["turn"] == 0 or row["trajectory"] == "b"} for row in
            episode("t", "a", [0.0, 1.0], "xy") + episode("t", "b", [0.0, 1.0], "xy")]  # fmt: skip
    steps = Steps.from_rows(rows)
    assert gigpo(steps, scale="none", compat="verl-agent").parts["step"][0] == 0.0
    assert gigpo(steps, scale="none").parts["step"][0] == pytest.approx(-0.0475, rel=1e-12)


@pytest.mark.parametrize("name", ["single_trajectory_group_mean_norm", "single_trajectory_group_mean_std_norm"])
def test_an_episode_is_not_compared_with_itself(name):
    """There, a lone episode that comes back to a state gets -0.49 on its first and +0.49 on its second visit."""
    assert np.abs(CASES[name]["expected"]["step_advantage"]).max() > 0.4
    assert gigpo(table(name)).values.tolist() == [0.0] * 3


def test_an_episode_that_walks_in_a_circle_does_not_outvote_the_other():
    """Six visits of one episode against one of another: there, the mean is drawn to the circle, 8.12 of 10. Here each
    episode has one vote: (7.81 + 10) / 2 = 8.90, so the straight way stands out less, the late visits more fairly."""
    name = "loop_self_mean_norm"
    returns = np.array([10 * 0.9**k for k in (5, 4, 3, 2, 1, 0)] + [10.0])
    step = gigpo(table(name), gamma=0.9, scale="none").parts["step"]
    assert step == pytest.approx(returns - (returns[:6].mean() + 10.0) / 2, rel=1e-12)
    assert step[:6].mean() + step[6] == pytest.approx(0.0, abs=1e-12)
    peer = gigpo(table(name), gamma=0.9, scale="none", compat="verl-agent").parts["step"]
    assert peer == pytest.approx(returns - returns.mean(), rel=1e-12)


def test_six_equal_winners_get_exactly_zero():
    """There, six equal returns of 10 * 0.95^2 differ in the last bit of float32, and the spread of that noise over 1e-6
    makes -0.466 of each: a push away from what all the winners did."""
    rows = [row for k in range(6) for row in episode("t", k, [0.0, 0.0, 10.0], "xyz")]
    assert gigpo(Steps.from_rows(rows)).values.tolist() == [0.0] * 18


def test_equal_returns_are_equal_where_single_precision_made_a_difference():
    """The one case whose figures are rounding noise: at every state of it the returns are equal, and we say zero."""
    name = "fp32_zero_variance"
    assert np.abs(CASES[name]["expected"]["step_advantage"]).max() > 0.05
    steps = table(name)
    result = gigpo(steps, **CASES[name]["options"])
    returns = discounted_returns(steps, CASES[name]["options"]["gamma"])
    anchors = [set() for _ in range(int(steps.column("state").max()) + 1)]
    for state, value in zip(steps.column("state"), returns, strict=True):
        anchors[state].add(round(float(value), 9))
    equal = [len(anchors[state]) == 1 for state in steps.column("state")]
    assert any(equal)
    assert not result.parts["step"][equal].any()


@pytest.mark.parametrize("name", ["shuffled101", "shuffled102", "shuffled103"])
def test_time_is_the_turn_and_not_the_row(name):
    """There, returns are right only while rows lie in order of time. Here a table may be permuted before anything."""
    order = np.lexsort((CASES[name]["turn"], CASES[name]["trajectory"]))
    assert gigpo(table(name)).values[order].tolist() == gigpo(table(name, order)).values.tolist()


def test_similar_texts_cluster_alike_in_any_order():
    """There, three texts make one cluster or two, by which row comes first; and rows are permuted at random."""
    one, two = "similar_order_abc", "similar_order_bac"
    options = {"similarity": 0.75, "scale": "none"}
    assert CASES[one]["reward"] == [0.0, 1.0, 2.0]
    assert CASES[two]["reward"] == [1.0, 0.0, 2.0]
    first, second = gigpo(table(one), **options).values, gigpo(table(two), **options).values
    assert first[[1, 0, 2]].tolist() == second.tolist()
    peer = {"compat": "verl-agent", **options}
    assert gigpo(table(one), **peer).values[[1, 0, 2]].tolist() != gigpo(table(two), **peer).values.tolist()


def test_a_text_that_says_nothing_is_a_state_only_if_the_table_says_so():
    """There, the observation is the key: "Nothing happens." in two rooms is one state. Here the caller's state is."""
    texts = episode("t", "a", [1.0], ["Nothing happens."]) + episode("t", "b", [0.0], ["Nothing happens."])
    rooms = [{**row, "state": room} for row, room in zip(texts, ("kitchen", "hall"), strict=True)]
    assert gigpo(Steps.from_rows(texts)).parts["step"].any()
    assert not gigpo(Steps.from_rows(rooms)).parts["step"].any()
