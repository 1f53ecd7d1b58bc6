"""LOOP, SeeUPO, ArCHer and PPR: outcomes and critics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import BadTable, MissingColumn, Steps, archer, gae, loop, ppr_renorm, seeupo
from turncredit.credit.turn.seeupo import later_ratios, update_passes

MANY = settings(max_examples=50, deadline=None)


def test_loop_by_hand():
    """Scores 1, 0, 0.5, 0.5: less the mean of the others 2/3, -2/3, 0, 0. With spread (ddof 0) sqrt(1/8)."""
    table = [row for k, score in enumerate([1.0, 0.0, 0.5, 0.5]) for row in episode("t", k, [0.0, score])]
    result = loop(Steps.from_rows(table))
    assert result.values[1::2] == pytest.approx([2 / 3, -2 / 3, 0.0, 0.0])
    assert result.keep.tolist() == [True] * 4 + [False] * 4
    assert result.report["dropped"] == 0.5
    scaled = loop(Steps.from_rows(table), scale="std", ddof=0, eps=0.0)
    assert scaled.values[1::2] == pytest.approx(np.array([2 / 3, -2 / 3, 0.0, 0.0]) / np.sqrt(1 / 8))
    assert not loop(Steps.from_rows(table), threshold=0.7).keep.any()
    assert loop(Steps.from_rows(table), threshold=0.0).keep.all()


def test_loop_drops_by_size_and_keeps_the_threshold_itself():
    table = [row for k, score in enumerate([0.25, 0.0]) for row in episode("t", k, [score])]
    assert loop(Steps.from_rows(table), threshold=0.25).keep.all()
    assert not loop(Steps.from_rows(table), threshold=0.26).keep.any()
    one = Steps.from_rows(episode("t", 0, [3.0]))
    assert (loop(one).values.tolist(), loop(one).keep.tolist()) == ([0.0], [False])
    assert loop(one, singleton="raw").values.tolist() == [3.0]


@given(rows())
@MANY
def test_loop_equals_the_plain_loop(table):
    scores = {}
    for row in table:
        key = row["task"], row["trajectory"]
        scores[key] = scores.get(key, 0.0) + row["reward"]
    plain = []
    for row in table:
        others = [s for (task, k), s in scores.items() if task == row["task"] and k != row["trajectory"]]
        plain.append(scores[row["task"], row["trajectory"]] - np.mean(others) if others else 0.0)
    assert loop(Steps.from_rows(table), invalid_penalty=0.0).values == pytest.approx(plain, abs=1e-9)


def test_seeupo_by_hand():
    """Scores 1, 0 and 4, 0: less the means 1/2, -1/2, 2, -2; square sum 8.5, by trajectory over 4 - 1."""
    table = [row for task, best in (("t", 1.0), ("u", 4.0)) for k, score in enumerate([best, 0.0])
             for row in episode(task, k, [score] + [0.0] * (k + 1))]  # fmt: skip
    result = seeupo(Steps.from_rows(table), eps=0.0)
    outcome = np.array([0.5] * 2 + [-0.5] * 3 + [2.0] * 2 + [-2.0] * 3)
    assert result.parts["outcome"].tolist() == outcome.tolist()
    assert result.values == pytest.approx(outcome / np.sqrt(8.5 / 3))
    by_turn = seeupo(Steps.from_rows(table), eps=0.0, unit="turn", ddof=0).values
    assert by_turn == pytest.approx((outcome - outcome.mean()) / outcome.std())


def test_seeupo_updates_the_last_turns_first():
    steps = Steps.from_rows(episode("t", 0, [0.0] * 3) + episode("t", 1, [0.0]) + episode("u", 0, [0.0] * 2))
    assert [rows.tolist() for rows in update_passes(steps)] == [[2], [1, 5], [0, 3, 4]]
    assert update_passes(Steps.empty()) == []
    log_ratio = np.log([0.5, 3.0, 2.0, 7.0, 1.0, 0.25])
    assert later_ratios(steps, log_ratio) == pytest.approx([6.0, 2.0, 1.0, 1.0, 0.25, 1.0])
    assert later_ratios(steps, np.zeros(6)).tolist() == [1.0] * 6


def test_archer_takes_the_smaller_critic():
    columns = {"task": [0, 0], "trajectory": [0, 0], "turn": [0, 1], "reward": [9.0, 9.0], "value": [0.5, 0.25]}
    assert archer(Steps.from_columns(metric=[[1.0, 0.75], [0.0, 2.0]], **columns)).values.tolist() == [0.25, -0.25]
    assert archer(Steps.from_columns(metric=[1.0, 0.0], **columns)).values.tolist() == [0.5, -0.25]
    with pytest.raises(MissingColumn, match="archer needs the column 'metric'"):
        archer(Steps.from_columns(**columns))


@given(rows(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.9, 1.0]))
@MANY
def test_ppr_is_gae_of_the_renormed_reward(table, gamma, lam):
    rng = np.random.default_rng(len(table))
    scored = [{**row, "metric": rng.random(), "value": rng.random()} for row in table]
    outcome = {}
    for row in scored:
        outcome[row["task"], row["trajectory"]] = outcome.get((row["task"], row["trajectory"]), 0.0) + row["reward"]
    renormed = [{**row, "reward": row["metric"] + outcome[row["task"], row["trajectory"]] - 1.0} for row in scored]
    expected = gae(Steps.from_rows(renormed), gamma=gamma, lam=lam, invalid_penalty=0.1).values
    found = ppr_renorm(Steps.from_rows(scored), gamma=gamma, lam=lam, invalid_penalty=0.1)
    assert found.values == pytest.approx(expected, abs=1e-9)
    assert found.parts["reward"] == pytest.approx([row["reward"] for row in renormed])


def test_ppr_by_hand():
    """A won episode: q = 0.5 and 0.75. V 0.25 and 0.5, gamma 1/2, lam 1: surprises 0.5 + 0.25 - 0.25 and 0.25."""
    steps = Steps.from_columns(
        task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0.0, 1.0], metric=[[0.5], [0.75]], value=[0.25, 0.5]
    )
    assert ppr_renorm(steps, gamma=0.5, lam=1.0).values.tolist() == [0.5 + 0.5 * 0.25, 0.25]


def test_ppr_reads_one_score_a_turn():
    columns = {"task": [0], "trajectory": [0], "turn": [0], "reward": [1.0], "value": [0.0]}
    with pytest.raises(BadTable, match="expects one score per turn in 'metric'"):
        ppr_renorm(Steps.from_columns(metric=[[0.5, 0.5]], **columns))
    with pytest.raises(MissingColumn, match="ppr_renorm needs the column 'metric'"):
        ppr_renorm(Steps.from_columns(**columns))
    with pytest.raises(MissingColumn, match="ppr_renorm needs the column 'value'"):
        ppr_renorm(Steps.from_columns(metric=[0.5], **{k: v for k, v in columns.items() if k != "value"}))
