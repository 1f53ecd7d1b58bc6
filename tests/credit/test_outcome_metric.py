"""Outcome methods that sort or weigh by a number: canon, unlikely, xrpo_novelty, hapo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode

from turncredit.credit import BadTable, MissingColumn, Steps, canon, grpo, hapo, unlikely, xrpo_novelty
from turncredit.credit.episodes import Episodes
from turncredit.credit.outcome.unlikely import reshaped
from turncredit.credit.outcome.xrpo_novelty import novelty_bonus, relative_likelihood

ONE = np.zeros(4, dtype=np.int64)


def outcomes(rewards, tasks=None, **columns):
    count = len(rewards)
    return Steps.from_columns(
        task=tasks or ["t"] * count, trajectory=range(count), turn=[0] * count, reward=rewards, **columns
    )


def halves(rewards, metric, *, mu=0.5, alpha=1.0, beta=0.0, alpha_on="high"):
    """CANON for one task without ties, in plain Python."""
    order = sorted(range(len(rewards)), key=lambda i: metric[i])
    low, high = order[: len(order) // 2], order[len(order) // 2 :]
    mean = {side: sum(rewards[i] for i in members) / len(members) for side, members in (("l", low), ("h", high))}
    f_low, f_high = (1.0, alpha) if alpha_on == "high" else (alpha, 1.0)
    out = [0.0] * len(rewards)
    for i in low:
        inter = f_low * rewards[i] - f_high * mean["h"] - beta
        out[i] = mu * inter + (1.0 - mu) * (rewards[i] - mean["l"])
    for i in high:
        inter = f_high * rewards[i] - f_low * mean["l"] + beta
        out[i] = mu * inter + (1.0 - mu) * (rewards[i] - mean["h"])
    return out


def test_canon_published_figures():
    result = canon(outcomes([1, 0, 1, 1], metric=[0.4, 0.1, 0.3, 0.2]), mu=0.5)
    assert result.values.tolist() == [0.25, -0.75, 0.25, 0.25]
    assert result.parts["inter"].tolist() == [0.5, -1.0, 0.5, 0.0]
    assert result.parts["intra"].tolist() == [0.0, -0.5, 0.0, 0.5]


@given(
    st.lists(st.sampled_from([0.0, 1.0, 0.5, -1.0]), min_size=2, max_size=9),
    st.randoms(use_true_random=False),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.sampled_from([1.0, 0.7, 1.3]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["high", "low"]),
)
@settings(max_examples=80, deadline=None)
def test_canon_equals_the_plain_form(rewards, random, mu, alpha, beta, side):
    metric = list(range(len(rewards)))
    random.shuffle(metric)
    options = {"mu": mu, "alpha": alpha, "beta": beta, "alpha_on": side}
    found = canon(outcomes(rewards, metric=metric), **options).values
    assert found == pytest.approx(halves(rewards, metric, **options), abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 0.3]), st.integers(0, 3)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_canon_at_one_half_with_even_halves_is_dr_grpo_with_or_without_ties(found):
    rewards, metric = zip(*(found + found), strict=True)  # an even number
    steps = outcomes(rewards, metric=metric)
    assert canon(steps, mu=0.5).values == pytest.approx(grpo(steps, scale="none").values, abs=1e-12)


def test_canon_odd_sizes_give_the_middle_to_the_high_half():
    """Low: r = 2. High: 0 and 4, mean 2."""
    steps = outcomes([4.0, 0.0, 2.0], metric=[3.0, 2.0, 1.0])
    assert canon(steps, mu=1.0).values.tolist() == [2.0, -2.0, 0.0]
    assert canon(steps, mu=0.0).values.tolist() == [2.0, -2.0, 0.0]


def test_canon_ties_at_the_border_share_it():
    """Metrics 1, 2, 2, 3: both with 2 are half low, half high; low mean (0 + 3) / 2 of weights 1, 1/2, 1/2."""
    steps = outcomes([0.0, 4.0, 2.0, 6.0], metric=[1, 2, 2, 3])
    low, high = (0.0 + 2.0 + 1.0) / 2.0, (2.0 + 1.0 + 6.0) / 2.0
    inter = [0.0 - high, 4.0 - (low + high) / 2.0, 2.0 - (low + high) / 2.0, 6.0 - low]
    assert canon(steps, mu=1.0).values == pytest.approx(inter)
    assert canon(steps, mu=1.0).values[[2, 1, 0, 3]] == pytest.approx(
        canon(outcomes([2.0, 4.0, 0.0, 6.0], metric=[2, 2, 1, 3]), mu=1.0).values
    )


def test_canon_sorts_by_length_without_a_metric():
    rows = episode("t", "long", [0.0, 1.0]) + episode("t", "short", [0.0])
    for row, tokens in zip(rows, (3, 4, 5), strict=True):
        row["tokens"] = tokens
    steps = Steps.from_rows(rows)
    assert canon(steps, alpha=2.0, mu=1.0).parts["inter"].tolist() == [2.0, 2.0, -2.0]  # the high half's score doubled
    with pytest.raises(MissingColumn, match="canon needs the column 'tokens'"):
        canon(outcomes([1.0, 0.0]))


def test_canon_group_of_one_equal_scores_and_metrics_that_are_none():
    assert canon(outcomes([3.0], metric=[1.0])).values.tolist() == [0.0]
    assert canon(outcomes([3.0], metric=[1.0]), singleton="raw").values.tolist() == [3.0]
    assert not canon(outcomes([0.3, 0.1 + 0.2, 0.3], metric=[1, 2, 3])).values.any()
    with pytest.raises(BadTable, match="canon expects one number per row in 'metric', got 2"):
        canon(outcomes([1.0, 0.0], metric=[[1.0, 2.0], [3.0, 4.0]]))
    rows = episode("t", "a", [0.0, 1.0]) + episode("t", "b", [0.0])
    for number, row in enumerate(rows):
        row["metric"] = number
    with pytest.raises(BadTable, match="canon expects one value of 'metric'"):
        canon(Steps.from_rows(rows))


def test_unlikely_published_figures():
    steps = outcomes([1, 1, 0, 1], logprob=[-1.0, -2.0, -0.5, -3.0])
    expected = [0.36451218, 0.49706206, -1.49118619, 0.62961195]
    assert unlikely(steps, beta=0.25).values == pytest.approx(expected, abs=1e-7)
    scores = np.array([1.0, 1.0, 0.0, 1.0])
    assert reshaped(scores, np.array([-1.0, -2.0, -0.5, -3.0]), ONE).tolist() == [0.875, 0.9375, 0.0, 1.0]


def test_unlikely_ties_share_their_rank_and_failures_stay():
    """Ranks 0 and 1 shared: 1/2 of 4 each; the failure keeps its -1."""
    found = reshaped(np.array([1.0, 1.0, -1.0, 2.0]), np.array([-2.0, -2.0, -1.0, -0.5]), ONE, 0.8)
    assert found.tolist() == pytest.approx([0.9, 0.9, -1.0, 2.0 * 0.4])
    assert reshaped(np.array([1.0, 1.0]), np.array([-1.0, -1.0]), ONE[:2], 0.5).tolist() == [0.875, 0.875]


def test_unlikely_by_token_or_by_the_whole_episode():
    """A long episode is likelier per token (-1 against -2) and less likely as a whole (-10 against -4)."""
    steps = outcomes([1.0, 1.0], logprob=[-1.0, -2.0], tokens=[10, 2])
    assert unlikely(steps, scale="none", beta=1.0).values.tolist() == [-0.25, 0.25]
    assert unlikely(steps, scale="none", beta=1.0, likelihood="sum").values.tolist() == [0.25, -0.25]
    with pytest.raises(MissingColumn, match="unlikely needs the column 'tokens'"):
        unlikely(outcomes([1.0, 1.0], logprob=[-1.0, -2.0]), likelihood="sum")


def test_turns_weigh_by_their_tokens():
    rows = episode("t", "a", [0.0, 1.0])
    rows[0].update(logprob=-1.0, tokens=3)
    rows[1].update(logprob=-5.0, tokens=1)
    assert Episodes.of(Steps.from_rows(rows)).logprob.tolist() == [-2.0]


@given(st.lists(st.sampled_from([0.0, 1.0, 0.5]), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_without_their_factor_both_are_grpo(rewards):
    steps = outcomes(rewards, logprob=[-1.0 / (1 + k) for k in range(len(rewards))])
    assert unlikely(steps, beta=0.0).values.tolist() == grpo(steps).values.tolist()
    assert xrpo_novelty(steps, lam=0.0).values.tolist() == grpo(steps).values.tolist()


def test_xrpo_published_figures():
    advantage, logprob = np.array([1.2, 0.8, -0.4]), np.array([-1.0, -2.0, -0.5])
    bonus = novelty_bonus(advantage, logprob, ONE[:3], np.array([True, True, False]), lam=1.0, kappa=1.0)
    assert advantage + bonus == pytest.approx([1.2, 1.36540179, -0.4], abs=1e-7)
    assert relative_likelihood(logprob, ONE[:3]) == pytest.approx([1.18136041, 0.43459821, 1.94773404], abs=1e-7)


def test_xrpo_by_hand():
    """Log-probabilities -3, -1, -2, mean -2: eta 1/e, e, 1. Scores 1, 1, 0 less 2/3. The bonus 1 - 1/e is cut."""
    steps = outcomes([1.0, 1.0, 0.0], logprob=[-3.0, -1.0, -2.0])
    result = xrpo_novelty(steps, scale="none")
    assert result.parts["novelty"].tolist() == pytest.approx([1.0 / 3.0, 0.0, 0.0])
    assert result.values == pytest.approx([2.0 / 3.0, 1.0 / 3.0, -2.0 / 3.0])
    assert xrpo_novelty(steps, scale="none", kappa=9.0).parts["novelty"][0] == pytest.approx(1.0 - np.exp(-1.0))


def test_xrpo_never_lowers_an_advantage():
    """Two right episodes, one with a lower score and so below the mean: no negative bonus for it."""
    steps = outcomes([1.0, 0.6], logprob=[-1.0, -2.0])
    assert xrpo_novelty(steps, scale="none").parts["novelty"].tolist() == [0.0, 0.0]
    huge = outcomes([1.0, 1.0, 0.0], logprob=[0.0, -1e6, -1e6])
    assert np.isfinite(xrpo_novelty(huge).values).all()


def test_hapo_published_figures():
    steps = outcomes([1, 0, 0, 1], tokens=[2, 4, 6, 12])
    expected = [0.84515254, -1.18321356, -1.18321356, 0.84515254]
    assert hapo(steps).values == pytest.approx(expected, abs=1e-7)
    assert hapo(steps).report["tasks_that_fell_back"] == 0.0


def test_hapo_equals_statistics_over_the_tokens_themselves():
    scores, tokens = np.array([0.3, 1.0, -2.0, 0.5]), np.array([3, 1, 7, 4])
    each = np.repeat(scores, tokens)
    expected = (scores - each.mean()) / (each.std() + 1e-6)
    assert hapo(outcomes(scores, tokens=tokens)).values == pytest.approx(expected, rel=1e-12)


def test_hapo_falls_back_for_the_whole_task_alone():
    """One token against 99: its distance is 99/100 over sqrt(99)/100 = 9.95 spreads. The other task is not touched."""
    steps = outcomes([1, 0, 1, 0], ["t", "t", "u", "u"], tokens=[1, 99, 3, 3])
    base = grpo(steps).values
    found = hapo(steps)
    assert found.values[:2].tolist() == base[:2].tolist()
    assert found.values[2:] == pytest.approx([1.0, -1.0], rel=1e-5)
    assert found.report["tasks_that_fell_back"] == 1.0
    assert hapo(steps, fallback_at=10.0).values[0] == pytest.approx(np.sqrt(99.0), rel=1e-4)


def test_hapo_an_episode_without_tokens_has_no_vote_and_cannot_make_a_task_fall_back():
    steps = outcomes([9.0, 1.0, 0.0], tokens=[0, 2, 2])
    assert hapo(steps, eps=0.0).values == pytest.approx([17.0, 1.0, -1.0])
    assert hapo(outcomes([1.0, 0.0], tokens=[0, 0]), eps=0.0).values == pytest.approx([1.0, -1.0])
    assert hapo(outcomes([4.0], tokens=[7])).values.tolist() == [0.0]
