"""HGPO's published code reproduced under the preset; and where our defaults differ from it, with the reason."""

import json
from pathlib import Path

import numpy as np
import pytest
from toys.tables import episode

from turncredit.credit import Steps, discounted_returns, hgpo

CASES = {c["name"]: c for c in json.loads((Path(__file__).parent / "verl_agent_hgpo.json").read_text())["cases"]}
AGREE = [name for name, case in CASES.items() if case["agrees"]]
TOLERANCE = {"rel": 1e-4, "abs": 1e-4}
PEER = {"compat": "verl-agent", "scale": "none"}


def table(name):
    case = CASES[name]
    keys = ("task", "trajectory", "turn", "reward", "state")
    made = [dict(zip(keys, row, strict=True)) for row in zip(*(case[key] for key in keys), strict=True)]
    for number, row in enumerate(made):
        row["valid"] = number not in case["invalid"]
    for copy, original in case["copies"].items():
        made[int(copy)]["duplicate_of_row"] = original
    return Steps.from_rows(made)


def test_every_case_is_here():
    assert len(CASES) == 27
    assert len(AGREE) == 25


@pytest.mark.parametrize("name", AGREE)
def test_the_preset_reproduces_the_published_code(name):
    case, steps = CASES[name], table(name)
    result = hgpo(steps, compat="verl-agent", **case["options"])
    assert result.values == pytest.approx(case["expected"]["advantage"], **TOLERANCE)
    if case["options"]["base"]:
        assert result.parts["episode"] == pytest.approx(case["expected"]["episode_advantage"], **TOLERANCE)
    expected = case["expected"]["discounted_return"]
    assert discounted_returns(steps, case["options"]["gamma"]) == pytest.approx(expected, **TOLERANCE)


def test_the_preset_takes_rows_for_time_and_copies_for_rows():
    """As the published code does: states x y and x y, two rows exchanged, and a copy of the second row."""
    first = episode("t", "a", [0.0, 1.0], "xy") + episode("t", "b", [0.0, 0.0], "xy")
    in_time = hgpo(Steps.from_rows(first), history=1, gamma=1.0, **PEER).values
    assert in_time == pytest.approx([0.5, 0.5, -0.5, -0.5], abs=1e-6)
    # With b's rows exchanged its history at x is y x: a shares only single states with it.
    back = hgpo(Steps.from_rows([first[0], first[1], first[3], first[2]]), history=1, gamma=1.0, **PEER)
    assert not back.parts["history 1"].any()
    # A copy of a's y lengthens a's history: y after y is a state that nobody shares, y itself has three returns.
    copied = hgpo(Steps.from_rows([*first, {**first[1], "duplicate_of_row": 1}]), history=1, gamma=1.0, **PEER)
    assert copied.parts["history 0"] == pytest.approx([0.5, 1 / 3, -0.5, -2 / 3, 1 / 3])
    assert copied.parts["history 1"] == pytest.approx([0.0, 0.5, 0.0, -0.5, 0.0])


# From here on: the defaults, where they give another answer than the published code.


@pytest.mark.parametrize("scale", ["none", "std"])
def test_an_equal_standing_is_no_reason_to_forget_it(scale):
    """H1. Returns at x: 10 and 10 on the way from s, 4 from t. Among those from s all are equal, the better comparison;
    there it is dropped and the coarse one counts alone, 2.0 where (2*2 + 3*0) / 5 = 0.8 is what the levels say."""
    name = "zero_dropped_mean_std_norm"
    steps = table(name)
    peer = hgpo(steps, compat="verl-agent", **{**CASES[name]["options"], "scale": scale}).values
    ours = hgpo(steps, history=1, scale=scale).values
    if scale == "none":
        assert peer[1] == pytest.approx(2.0)
        assert ours[1] == pytest.approx(0.8)
    coarse = hgpo(steps, history=0, scale=scale).values
    assert ours[1] == pytest.approx(coarse[1] * 2 / 5)


def test_where_nothing_is_shared_the_base_speaks_and_the_report_says_so():
    """H2. One won, one lost, no state in common: there and here the step levels have nothing to compare and stay at
    zero, since history 0 alone is GiGPO's step term. Here the report tells, and the base gives both their due; there
    the base is off as well, in silence."""
    steps = table("all_singletons_mean_std_norm")
    result = hgpo(steps)
    assert result.values.tolist() == [0.0] * 4
    assert result.report["step_signal"] == 0.0
    with_base = hgpo(steps, base=True).values
    assert with_base == pytest.approx([0.5**0.5] * 2 + [-(0.5**0.5)] * 2, rel=1e-6)


def test_one_row_alone_gives_nothing():
    """H3. There, with the base, its raw reward of 10: a push towards whatever was done, with nothing to compare."""
    name = "base_single_row_mean_std_norm"
    assert CASES[name]["expected"]["advantage"] == pytest.approx([10.0], rel=1e-5)
    assert hgpo(table(name), base=True).values.tolist() == [0.0]
    assert hgpo(table(name), base=True, drop="none").values.tolist() == [0.0]


def test_time_is_the_turn_and_not_the_row():
    """H4. There, histories are read in the order of rows, so that the usual shuffle of a batch makes other groups."""
    name = "rand23"
    steps = table(name)
    order = np.random.default_rng(0).permutation(len(steps))
    options = CASES[name]["options"]
    assert hgpo(steps.take(order), **options).values.tolist() == hgpo(steps, **options).values[order].tolist()
    peer = {**options, "compat": "verl-agent"}
    assert not np.allclose(hgpo(steps.take(order), **peer).values, hgpo(steps, **peer).values[order])


def test_copies_that_fill_a_batch_change_nothing():
    """H4. There, a copied row enters every mean and breaks its episode's history."""
    rows = episode("t", "a", [0.0, 0.0, 1.0], "xyz") + episode("t", "b", [0.0, 0.5, 0.0], "xyz")
    copies = [*rows, {**rows[2], "duplicate_of_row": 2}, {**rows[0], "duplicate_of_row": 0}]
    alone, filled = hgpo(Steps.from_rows(rows)).values, hgpo(Steps.from_rows(copies)).values
    assert filled.tolist() == [*alone, alone[2], alone[0]]
    assert not np.allclose(hgpo(Steps.from_rows(rows), **PEER).values, hgpo(Steps.from_rows(copies), **PEER).values[:6])


@pytest.mark.parametrize("base", [False, True])
def test_six_equal_winners_get_exactly_zero(base):
    """H5. There, six returns of 10 * 0.95^2 differ in the last bit of float32: -0.488 for what all the winners did."""
    name = "fp32_noise_all_win_6_mean_std_norm"
    assert min(CASES[name]["expected"]["advantage"]) < -0.4
    assert hgpo(table(name), base=base).values.tolist() == [0.0] * 18


def test_noise_does_not_keep_a_level_alive():
    """H5. There, a group of equal returns with noise of 1e-8 passes for unequal and takes its full weight. The preset
    works in float64 and tells the two apart, so that it differs from those figures."""
    name = "rand04"
    result = hgpo(table(name), compat="verl-agent", **CASES[name]["options"])
    off = np.abs(result.values - CASES[name]["expected"]["advantage"]) > 1e-3
    assert off.any()
    levels = np.array([part for key, part in result.parts.items() if key.startswith("history")])
    assert ((levels[:, off] == 0.0).any(axis=0)).all()  # in each of these rows, a level says "equal"


def test_a_one_turn_win_and_a_nine_turn_loss_weigh_the_same():
    """B3. There, under the base, +9 and -1: the longer an episode, the less its result counts."""
    steps = Steps.from_rows(episode("t", "a", [10.0], ["s"]) + episode("t", "b", [0.0] * 9, list(range(9))))
    assert hgpo(steps, base=True, **PEER).values == pytest.approx([9.0] + [-1.0] * 9, rel=1e-5)
    assert hgpo(steps, base=True, scale="none").values.tolist() == [5.0] + [-5.0] * 9


def test_an_episode_is_not_compared_with_itself():
    """B5. One episode walks in a circle, another comes once: there, it is compared with itself at every level."""
    name = "loop_self_mean_norm"
    steps = table(name)
    result = hgpo(steps, gamma=0.9, scale="none")
    assert not result.parts["history 1"].any()
    assert result.parts["history 0"][:6].mean() == pytest.approx(-result.parts["history 0"][6])
    assert hgpo(steps, gamma=0.9, **PEER).parts["history 1"].any()


def test_a_fault_is_not_scaled_up_to_a_lost_game():
    """B4. Two winners, one with one invalid action: there, the fault of 0.1 of 10 is the whole spread of the base."""
    rows = [{**row, "valid": row["trajectory"] == "b" or row["turn"] == 1} for row in
            episode("t", "a", [0.0, 10.0], "xy") + episode("t", "b", [0.0, 10.0], "xy")]  # fmt: skip
    steps = Steps.from_rows(rows)
    peer = hgpo(steps, base=True, compat="verl-agent")
    assert peer.parts["episode"] == pytest.approx([-1.5, 0.5, 0.5, 0.5], rel=1e-4)
    late = hgpo(steps, base=True, penalty_in="advantage")
    assert late.values == pytest.approx([-0.1, 0.0, 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("options", [{"compat": "verl-agent"}, {"drop": "zero"}])
def test_a_zero_of_rounding_is_dropped_at_the_base_as_at_every_level(options):
    """c scores the mean of 1.1, 0.1, 0.6, but for 1e-16: no standing. At y its return is 0.6 and d's 0: 0.3 and -0.3.
    With the base's zero as a level c would get 2/3 of that."""
    rows = episode("t", "a", [1.1], "p") + episode("t", "b", [0.1], "q") + episode("t", "c", [0.6000000000000001], "y")
    other = episode("t", "d", [0.6, 0.0], "vy")
    result = hgpo(Steps.from_rows(rows + other), base=True, scale="none", gamma=1.0, **options)
    assert result.parts["episode"][2] == 0.0
    assert result.values[[2, 4]] == pytest.approx([0.3, -0.3], rel=1e-5)
