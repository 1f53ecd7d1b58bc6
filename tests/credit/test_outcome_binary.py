"""Outcome methods that ask whether an episode is right, or the best: hand-computed groups and published figures."""

import numpy as np
import pytest
from toys.tables import episode

from turncredit.credit import Steps, a_grae, adora, grpo, mapo_mixed, passk, pshw, psr_nsr


def outcomes(rewards, tasks=None, **columns):
    count = len(rewards)
    return Steps.from_columns(
        task=tasks or ["t"] * count, trajectory=range(count), turn=[0] * count, reward=rewards, **columns
    )


def test_passk_by_hand():
    """Scores 0, 3, 1: the lead is 2, the standard deviation sqrt((16/9 + 25/9 + 1/9) / 2) = sqrt(7/3)."""
    assert passk(outcomes([0.0, 3.0, 1.0]), eps=0.0).values == pytest.approx([0.0, 2.0 / np.sqrt(7.0 / 3.0), 0.0])
    assert passk(outcomes([0.0, 3.0, 1.0]), scale="none").values.tolist() == [0.0, 2.0, 0.0]
    two_tasks = outcomes([5.0, 1.0, 0.0, 2.0], ["t", "u", "t", "u"])
    assert passk(two_tasks, scale="none").values.tolist() == [5.0, 0.0, 0.0, 1.0]


def test_passk_two_best_alone_or_all_equal_get_nothing():
    assert not passk(outcomes([1.0, 0.0, 1.0])).values.any()
    assert not passk(outcomes([1.0, 5.0], ["t", "u"])).values.any()  # nor are the tasks compared
    assert not passk(outcomes([0.3, 0.1 + 0.2, 0.0]), eps=0.0).values.any()  # equal but for rounding
    assert not passk(outcomes([2.0, 2.0])).values.any()


def test_passk_the_whole_episode_is_credited_and_a_penalty_can_cost_the_lead():
    rows = episode("t", "a", [0.0, 1.0]) + episode("t", "b", [1.0])
    rows[0]["valid"], rows[1]["valid"], rows[2]["valid"] = False, True, True
    assert not passk(Steps.from_rows(rows), scale="none", invalid_penalty=0.0).values.any()
    assert passk(Steps.from_rows(rows), scale="none", invalid_penalty=0.25).values.tolist() == [0.0, 0.0, 0.25]


@pytest.mark.parametrize(
    ("form", "expected"), [("psr", [1.0, 0.0, 1.0]), ("nsr", [0.0, -1.0, 0.0]), ("weighted", [0.1, -1.0, 0.1])]
)
def test_psr_and_nsr_published_figures(form, expected):
    assert psr_nsr(outcomes([1, 0, 1]), form=form).values.tolist() == expected


def test_psr_reads_the_threshold_and_no_group():
    assert psr_nsr(outcomes([0.5, 0.6]), form="psr").values.tolist() == [0.0, 1.0]  # above, not at
    assert psr_nsr(outcomes([0.0, 2.0]), form="psr", threshold=-1.0).values.tolist() == [1.0, 1.0]
    alone = outcomes([1.0, 0.0], ["t", "u"])
    assert psr_nsr(alone).values.tolist() == [0.1, -1.0]
    assert psr_nsr(alone).report["correct"] == 0.5


def test_a_grae_published_figures():
    steps = outcomes([1, 0, 0, 0, 1, 1, 1, 0], ["a"] * 4 + ["b"] * 4)
    expected = [0.749997, -0.499998, -0.499998, -0.499998, 0.53867049, 0.53867049, 0.53867049, -3.23202295]
    assert a_grae(steps).values == pytest.approx(expected, abs=1e-6)
    assert a_grae(steps).report["correct"] == 0.5


def test_a_grae_by_hand():
    """One task, one of four right: s = 1.5 and -0.5, sqrt p = 0.5, so 0.75 * s + 0.25 * s = s; then times m = 0.25."""
    steps = outcomes([1.0, 0.0, 0.0, 0.0])
    result = a_grae(steps, eps=0.0)
    assert result.values == pytest.approx([0.375, -0.5, -0.5, -0.5])
    assert result.parts["grpo"] == pytest.approx([1.5, -0.5, -0.5, -0.5])
    for alpha in (0.25, 0.1):
        assert a_grae(steps, eps=0.0, alpha=alpha).values == pytest.approx([1.5, -0.5, -0.5, -0.5])


def test_a_grae_gives_nothing_where_all_are_right_or_all_wrong_however_the_scores_differ():
    assert not a_grae(outcomes([0.6, 0.9, 1.0])).values.any()
    assert not a_grae(outcomes([0.0, 0.1, 0.4])).values.any()


def test_adora_published_figures():
    steps = outcomes([1, 0, 0, 1], ["a", "a", "b", "b"], tokens=[10, 20, 30, 40])
    assert adora(steps).values == pytest.approx([0.07071058, -0.07071058, -0.70710578, 0.70710578], abs=1e-7)
    assert adora(steps).report["tasks_in_full"] == 0.5


def test_adora_the_longest_right_episode_against_the_mean_of_the_wrong():
    """Right: 10 and 30 tokens. Wrong: 20 and 38, on average 29 < 30; 20 and 42, on average 31; without the 42, 20."""
    base = np.array([1.0, 1.0, -1.0, -1.0]) / 2.0
    full = outcomes([1, 1, 0, 0], tokens=[10, 30, 20, 38])
    assert adora(full, scale="none").values.tolist() == base.tolist()
    short = outcomes([1, 1, 0, 0], tokens=[10, 30, 20, 42])
    assert adora(short, scale="none", lam=0.5).values.tolist() == (base / 2.0).tolist()
    assert adora(short, scale="none", lam=0.5, max_tokens=42).values.tolist() == base.tolist()
    assert adora(short, scale="none", lam=0.5, max_tokens=43).values.tolist() == (base / 2.0).tolist()


def test_adora_as_long_is_not_longer():
    assert adora(outcomes([1, 0], tokens=[7, 7]), scale="none").values == pytest.approx([0.05, -0.05])


def test_adora_without_right_or_without_wrong():
    failed = outcomes([0.0, 0.2], tokens=[5, 9])
    assert adora(failed, scale="none").values == pytest.approx([-0.01, 0.01])
    solved = outcomes([0.8, 1.0], tokens=[5, 9])
    assert adora(solved, scale="none").values == pytest.approx([-0.1, 0.1])


def test_adora_counts_the_tokens_of_the_whole_episode():
    rows = episode("t", "win", [0.0, 1.0]) + episode("t", "loss", [0.0])
    for row, tokens in zip(rows, (6, 5, 10), strict=True):
        row["tokens"] = tokens
    assert adora(Steps.from_rows(rows), scale="none").values.tolist() == [0.5, 0.5, -0.5]


def test_mapo_by_hand():
    """p = 1/4: lam = 1 - 3/4; z = 3/4 / 1/2 and -1/4 / 1/2; per cent 3 and -1."""
    result = mapo_mixed(outcomes([1, 0, 0, 0]), eps=0.0)
    assert result.values == pytest.approx([0.75 * 1.5 + 0.25 * 3.0] + [0.75 * -0.5 + 0.25 * -1.0] * 3)
    assert result.parts["percent"].tolist() == [3.0, -1.0, -1.0, -1.0]
    assert result.parts["deviation"] == pytest.approx([1.5, -0.5, -0.5, -0.5])


def test_mapo_is_grpo_where_half_succeed_and_nothing_where_all_are_alike():
    half = outcomes([1, 0, 1, 0])
    assert mapo_mixed(half).values.tolist() == grpo(half).values.tolist()
    assert not mapo_mixed(outcomes([1, 1, 1])).values.any()
    assert not mapo_mixed(outcomes([0, 0])).values.any()
    assert not mapo_mixed(outcomes([1])).values.any()


def test_pshw_by_hand():
    """One of four: m = -0.5, weight 1.384, distances 1.5 and -0.5."""
    assert pshw(outcomes([1, 0, 0, 0])).values == pytest.approx([2.076, -0.692, -0.692, -0.692])
    assert pshw(outcomes([1, 0])).values == pytest.approx([1.256, -1.256])
    assert pshw(outcomes([9.0, 0.4, 0.5, -3.0]), slope=0.0).values == pytest.approx([1.5, -0.5, -0.5, -0.5])
    for alike in ([1, 2, 3], [0, 0.2], [1]):
        assert not pshw(outcomes(alike)).values.any()


@pytest.mark.parametrize("method", [a_grae, adora])
def test_a_group_of_one(method):
    steps = outcomes([4.0], tokens=[3])
    assert method(steps).values.tolist() == [0.0]
    assert method(steps, scale="none", singleton="raw").parts["grpo"].tolist() == [4.0]
