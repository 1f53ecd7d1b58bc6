"""Outcome methods that look at the whole batch: whitening, reinforce_pp and its baseline form, gdpo, bnpo."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import (
    BadOption,
    BadTable,
    MissingColumn,
    Steps,
    bnpo,
    discounted_returns,
    dr_grpo,
    gdpo,
    get,
    grpo,
    lite_ppo,
    reinforce_pp,
    reinforce_pp_baseline,
)
from turncredit.credit.numerics import whiten

MANY = settings(max_examples=40, deadline=None)


def outcomes(rewards, tasks=None, **columns):
    count = len(rewards)
    tasks = ["t"] * count if tasks is None else tasks
    return Steps.from_columns(task=tasks, trajectory=range(count), turn=[0] * count, reward=rewards, **columns)


def full(table):
    """Rows with the columns that any of these methods asks for; what is in them depends on the row alone."""
    return [
        {
            **row,
            "tokens": (3 * row["turn"] + int(row["reward"] * 2) + row["trajectory"]) % 5,
            "multi": [row["reward"], float(row["valid"]) + 0.5 * row["trajectory"]],
        }
        for row in table
    ]


def by_token(values, tokens):
    """The plain definition: every token on its own, mean, variance over n - 1."""
    long = np.repeat(values, tokens)
    return (np.asarray(values) - long.mean()) / np.sqrt(long.var(ddof=1) + 1e-8)


# Whitening.


def test_whiten_published():
    out = whiten(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 1, 0, 1]), ddof=1, eps=1e-8)
    assert out == pytest.approx([-0.87287156, -0.21821789, 0.0, 1.09108945], abs=1e-8)


def test_whiten_by_hand():
    # Tokens 0 0 0 4: mean 1, variance 12 / 3 = 4 or 12 / 4 = 3.
    value, tokens = np.array([0.0, 4.0]), np.array([3, 1])
    assert whiten(value, tokens, eps=0.0).tolist() == [-0.5, 1.5]
    assert whiten(value, tokens, ddof=0, eps=1.0).tolist() == [-0.5, 1.5]
    assert whiten(np.repeat(value, tokens), eps=0.0).tolist() == [-0.5, -0.5, -0.5, 1.5]


def test_whiten_where_there_is_nothing_to_scale():
    assert whiten(np.zeros(0)).tolist() == []
    assert whiten(np.array([5.0])).tolist() == [0.0]
    assert whiten(np.array([0.1 + 0.2, 0.3]), eps=0.0).tolist() == [0.0, 0.0]  # rounding is no spread
    assert whiten(np.array([1.0, 2.0]), np.array([0, 0])).tolist() == [0.0, 0.0]
    assert whiten(np.array([1.0, 2.0]), np.array([False, True])).tolist() == [0.0, 0.0]


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 9)), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
)
@MANY
def test_whiten_counts_tokens_in_any_order(pairs, random):
    value, tokens = (np.array(column) for column in zip(*pairs, strict=True))
    out = whiten(value, tokens)
    long = np.repeat(value, tokens)
    if len(long) > 1 and np.ptp(long) > 1e-6:
        assert out[tokens > 0] == pytest.approx(by_token(value, tokens)[tokens > 0], rel=1e-6, abs=1e-6)
        assert (out * tokens).sum() == pytest.approx(0.0, abs=1e-6)
    assert not out[tokens == 0].any()
    order = np.array(random.sample(range(len(pairs)), len(pairs)))
    assert whiten(value[order], tokens[order]).tolist() == out[order].tolist()


# REINFORCE++.

TOKEN_REWARDS = [[0, 0, 1.0], [0, 0.0], [0, 0, 0, 0.5]]
PUBLISHED = [1.13707045] * 3 + [-1.42133806] * 2 + [-0.14213381] * 4


def test_reinforce_pp_published_with_a_row_a_token():
    table = [
        {"task": i, "trajectory": 0, "turn": t, "reward": reward, "tokens": 1}
        for i, rewards in enumerate(TOKEN_REWARDS)
        for t, reward in enumerate(rewards)
    ]
    assert reinforce_pp(Steps.from_rows(table), gamma=1.0).values == pytest.approx(PUBLISHED, abs=1e-8)


def test_reinforce_pp_published_with_a_row_a_turn():
    steps = outcomes([1.0, 0.0, 0.5], tokens=[3, 2, 4])
    expected = [1.13707045, -1.42133806, -0.14213381]
    assert reinforce_pp(steps).values == pytest.approx(expected, abs=1e-8)


def test_reinforce_pp_discounts_from_turn_to_turn():
    steps = Steps.from_rows([{**row, "tokens": 1 + row["turn"]} for row in episode("t", 0, [0.0, 0.0, 4.0])])
    # Returns 1 2 4 with 1 2 3 tokens: mean 17 / 6, squares (11² + 2 · 5² + 3 · 7²) / 36 = 318 / 36, over 6 - 1.
    scale = math.sqrt(318 / 36 / 5)
    expected = np.array([-11 / 6, -5 / 6, 7 / 6]) / scale
    assert reinforce_pp(steps, gamma=0.5, eps=0.0).values == pytest.approx(expected, rel=1e-12)


def test_a_turn_without_tokens_neither_counts_nor_gets_anything():
    steps = outcomes([1.0, 0.0, 77.0], tokens=[1, 1, 0])
    assert reinforce_pp(steps, eps=0.0, ddof=0).values.tolist() == [1.0, -1.0, 0.0]


def test_rewards_that_cancel_leave_no_return_to_scale_up():
    """0.1 + 0.2 - 0.3 is 5.6e-17 and not 0: without eps that would be a spread like any other."""
    table = [
        {**row, "tokens": int(row["turn"] == 0)} for row in episode("t", 0, [0.1, 0.2, -0.3]) + episode("t", 1, [0.0])
    ]
    assert not reinforce_pp(Steps.from_rows(table), eps=0.0).values.any()


def test_reinforce_pp_baseline_by_hand():
    # Centred 0.5 -0.5 | 1 -1 with 1 1 | 2 2 tokens: mean 0, squares 0.25 · 2 + 2 · 2 = 4.5 over 6 - 1.
    steps = outcomes([1.0, 0.0, 2.0, 0.0], ["t", "t", "u", "u"], tokens=[1, 1, 2, 2])
    expected = np.array([0.5, -0.5, 1.0, -1.0]) / math.sqrt(0.9)
    assert reinforce_pp_baseline(steps, eps=0.0).values == pytest.approx(expected, rel=1e-12)


def test_reinforce_pp_baseline_leaves_the_group_of_one_out():
    pair, alone = [1.0, 0.0], [9.0]
    steps = outcomes(pair + alone, ["t", "t", "u"], tokens=[1, 3, 2])
    plain = reinforce_pp_baseline(outcomes(pair, tokens=[1, 3])).values
    assert reinforce_pp_baseline(steps).values.tolist() == [*plain, 0.0]
    # As public code has it, the score itself goes in: 0.5, -0.5 and 9.
    raw = reinforce_pp_baseline(steps, singleton="raw").values
    assert raw == pytest.approx(by_token([0.5, -0.5, 9.0], [1, 3, 2]), rel=1e-9)


def test_reinforce_pp_baseline_moves_a_group_without_spread_with_the_batch():
    """The docstring's warning: equal scores are not zero here where lengths differ elsewhere."""
    steps = outcomes([1.0, 0.0, 5.0, 5.0], ["t", "t", "u", "u"], tokens=[3, 1, 1, 1])
    values = reinforce_pp_baseline(steps).values
    assert values == pytest.approx(by_token([0.5, -0.5, 0.0, 0.0], [3, 1, 1, 1]), rel=1e-9)
    assert values[2] < 0.0


@given(rows(), st.sampled_from([1.0, 0.5]))
@MANY
def test_reinforce_pp_is_the_plain_definition(table, gamma):
    table = full(table)
    steps = Steps.from_rows(table)
    tokens = np.array([row["tokens"] for row in table])
    returns = discounted_returns(steps, gamma)
    values = reinforce_pp(steps, gamma=gamma, invalid_penalty=0.0).values
    if tokens.sum() > 1 and np.ptp(np.repeat(returns, tokens)) > 0:
        assert values[tokens > 0] == pytest.approx(by_token(returns, tokens)[tokens > 0], rel=1e-6, abs=1e-7)
        assert (values * tokens).sum() == pytest.approx(0.0, abs=1e-7)
    else:
        assert not values.any()


# GDPO.

MULTI = [[1, 3.0], [0, 3.0], [1, -3.0], [0, 0.0], [1, 1.0], [1, 2.0]]
SUMMED = [1.64937308, -0.08267472, -0.43955806, -1.1271403, -0.70710578, 0.70710578]


def multi(rewards=MULTI, tasks=("a", "a", "a", "a", "b", "b"), tokens=(2, 3, 1, 2, 4, 1)):
    return outcomes([0.0] * len(rewards), list(tasks), multi=rewards, tokens=list(tokens))


def test_gdpo_over_tokens_published():
    result = gdpo(multi(), over="tokens", weights=[1, 1], eps=1e-6, ddof=1)
    expected = [1.91236336, 0.05683312, -0.32549341, -1.06209527, -0.61211534, 0.90291924]
    assert result.values == pytest.approx(expected, abs=1e-7)
    assert result.parts["reward_0"] + result.parts["reward_1"] == pytest.approx(SUMMED, abs=1e-7)


def test_gdpo_over_samples():
    found = np.array(SUMMED)
    expected = (found - found.mean()) / (found.std(ddof=1) + 1e-6)
    assert gdpo(multi()).values == pytest.approx(expected, abs=1e-7)
    by_hand = gdpo(multi([[2.0, 5.0], [0.0, 5.0]], "tt", (1, 1)), ddof=0, eps=0.0, weights=[3.0, 1.0])
    assert by_hand.parts["reward_0"].tolist() == [3.0, -3.0]
    assert by_hand.parts["reward_1"].tolist() == [0.0, 0.0]  # without spread
    assert by_hand.values.tolist() == [1.0, -1.0]


def test_gdpo_keeps_a_rare_reward_visible():
    """One episode alone has the format, three are right: summed up first, they would all be worth the same."""
    rewards = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    values = gdpo(multi(rewards, "tttt", (1,) * 4)).values
    assert values[1:] == pytest.approx([values[1]] * 3)
    both = gdpo(multi([[1.0, 1.0], *rewards[1:]], "tttt", (1,) * 4)).values
    assert both[0] > 0 > both[1]
    assert gdpo(multi(rewards, "tttt", (1,) * 4), weights=[2.0, 1.0]).values[0] > 0.0
    assert not grpo(outcomes([sum(pair) for pair in rewards])).values.any()


def test_gdpo_adds_up_the_turns():
    table = [{**row, "multi": [row["reward"], 1.0]} for row in episode("t", 0, [1.0, 2.0]) + episode("t", 1, [1.0])]
    result = gdpo(Steps.from_rows(table), eps=0.0)
    assert result.parts["reward_0"] == pytest.approx([math.sqrt(0.5)] * 2 + [-math.sqrt(0.5)])
    assert result.parts["reward_1"] == pytest.approx([math.sqrt(0.5)] * 2 + [-math.sqrt(0.5)])  # 2 turns against 1


def test_gdpo_with_one_reward_and_one_group_is_grpo():
    rewards = [1.0, 0.0, 0.25, 0.0]
    steps = outcomes(rewards, multi=[[reward] for reward in rewards])
    assert gdpo(steps, eps=0.0).values == pytest.approx(grpo(steps, eps=0.0).values, rel=1e-12)


def test_gdpo_does_not_scale_up_what_cancelled():
    """Three rewards whose standings add up to zero but for rounding."""
    rewards = [[a, 1.1 - 3 * a, 2 * a] for a in (0.1, 0.7, 0.4, 0.3)]
    steps = multi(rewards, "tttt", (1, 2, 3, 4))
    for over in ("samples", "tokens"):
        result = gdpo(steps, weights=[0.1, 0.3, 0.2], over=over, eps=0.0)
        assert sum(result.parts.values()) == pytest.approx([0.0] * 4, abs=1e-15)
        assert result.values.tolist() == [0.0] * 4


def test_gdpo_alone():
    steps = multi([[1.0, 0.0], [0.0, 0.0], [7.0, 7.0]], "ttu", (1, 1, 5))
    for over in ("samples", "tokens"):
        pair = gdpo(multi([[1.0, 0.0], [0.0, 0.0]], "tt", (1, 1)), over=over).values
        assert gdpo(steps, over=over).values.tolist() == [*pair, 0.0]
    assert gdpo(steps, singleton="raw").parts["reward_0"][2] == pytest.approx(7.0, rel=1e-5)
    assert gdpo(steps, singleton="raw").values[2] > 1.0


def test_gdpo_takes_one_reward_as_a_plain_column_and_no_rows_at_all():
    flat = outcomes([0.0, 0.0], multi=[1.0, 0.0])
    assert gdpo(flat).values.tolist() == gdpo(outcomes([0.0, 0.0], multi=[[1.0], [0.0]])).values.tolist()
    for over in ("samples", "tokens"):
        assert len(gdpo(multi().take(np.zeros(0, dtype=np.int64)), over=over)) == 0


def test_gdpo_counts_weights():
    with pytest.raises(BadOption, match="weights has 3 numbers, but 'multi' has 2 rewards"):
        gdpo(multi(), weights=[1, 1, 1])


# BNPO.

BINARY = [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]
THREE = ["a"] * 4 + ["b"] * 4 + ["c"] * 4


def test_bnpo_published():
    result = bnpo(outcomes(BINARY, THREE), weight_max=1e6)
    expected = (
        [0.68017476] + [-0.22672492] * 3 + [0.39269908] * 2 + [-0.39269908] * 2 + [0.22672492] * 3 + [-0.68017476]
    )
    assert result.values == pytest.approx(expected, abs=1e-8)
    assert (result.report["alpha"], result.report["beta"]) == (1.5, 1.5)
    assert bnpo(outcomes(BINARY, THREE), low=0, high=1).values.tolist() == result.values.tolist()


def test_bnpo_weighs_with_the_density():
    """Rates 1/4, 1/2, 3/4: m = 1/2, v = 1/16, so a = b = 3 · 1/2 and alpha = beta = 3/2, a half circle of density."""
    density = [8 / math.pi * math.sqrt(p * (1 - p)) for p in (0.25, 0.5, 0.75)]
    expected = dr_grpo(outcomes(BINARY, THREE)).values / np.repeat(density, 4)
    assert bnpo(outcomes(BINARY, THREE)).values == pytest.approx(expected, rel=1e-9)


def test_bnpo_without_a_density_is_dr_grpo():
    one = outcomes([1, 0, 0])
    assert bnpo(one).values == pytest.approx(dr_grpo(one).values, rel=1e-12)
    same = outcomes([1, 0, 0, 1], ["t", "t", "u", "u"])  # equal rates, where the published parameters are infinite
    assert bnpo(same).values.tolist() == [0.5, -0.5, -0.5, 0.5]
    assert bnpo(same).report["alpha"] == 1.0


def test_bnpo_alone_stays_out():
    steps = outcomes([*BINARY, 1.0], [*THREE, "d"])
    assert bnpo(steps).values.tolist() == [*bnpo(outcomes(BINARY, THREE)).values, 0.0]


def test_bnpo_largest_weight():
    # 19 tasks of rate 1/2 and one of 1/20: density next to nothing there.
    rewards, tasks = [1.0, 0.0] * 19 + [1.0] + [0.0] * 19, [f"t{n}" for n in range(19) for _ in range(2)] + ["u"] * 20
    rare = bnpo(outcomes(rewards, tasks), weight_max=2.0).values[38:]
    assert rare.tolist() == pytest.approx([1.9] + [-0.1] * 19)
    assert bnpo(outcomes(rewards, tasks)).values[38] > 10.0


def test_bnpo_scales_rewards_to_one():
    graded = outcomes([3 * reward - 1 for reward in BINARY], THREE)
    expected = bnpo(outcomes(BINARY, THREE)).values
    assert bnpo(graded).values == pytest.approx(expected, rel=1e-9)
    assert bnpo(graded, low=-1, high=2).values == pytest.approx(expected, rel=1e-9)
    half = bnpo(outcomes([0.5 * reward for reward in BINARY], THREE), low=0.0, high=1.0)
    assert half.values != pytest.approx(expected, rel=1e-3)  # 0.5 is not the best there is
    with pytest.raises(BadTable, match=r"mean scores in \[low, high\] = \[0, 1\], got 2.5"):
        bnpo(outcomes([3.0, 2.0]), low=0, high=1)


# Laws.


def test_gdpo_needs_tokens_only_where_they_count():
    steps = outcomes([0.0, 0.0], multi=[[1.0], [0.0]])
    assert gdpo(steps).values[0] > 0.0
    with pytest.raises(MissingColumn, match="gdpo needs the column 'tokens'"):
        gdpo(steps, over="tokens")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gdpo", {"weights": 1.0}, "weights must be a list with one number per reward"),
        ("bnpo", {"low": 1.0, "high": 1.0}, "high must be > low"),
        ("spo_segment", {"scale": "std"}, "needs siblings"),
        ("gigpo", {"similarity": 0.0}, "omit it"),
    ],
)
def test_options_that_contradict_each_other_are_refused(name, options, words):
    with pytest.raises(BadOption, match=words):
        get(name, **options)


def test_lite_ppo_by_hand():
    """Scores 1, 0, 1, 1: their standard deviation is 1/2, whatever the tasks are."""
    found = lite_ppo(outcomes([1.0, 0.0, 1.0, 1.0], ["t", "t", "u", "u"]), eps=0.0)
    assert found.values.tolist() == [1.0, -1.0, 0.0, 0.0]
    assert found.report["spread"] == 0.5
    alone = lite_ppo(outcomes([1.0, 0.0, 5.0], ["t", "t", "u"]), eps=0.0, ddof=0)
    assert alone.values == pytest.approx([0.5 / np.std([1, 0, 5]), -0.5 / np.std([1, 0, 5]), 0.0])
    assert not lite_ppo(outcomes([0.3] * 4, ["t", "t", "u", "u"]), eps=0.0).values.any()
