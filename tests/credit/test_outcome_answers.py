"""Outcome methods that compare answers: copo, seed_grpo, evol, and the blocks that they share."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode

from turncredit.credit import BadTable, Steps, copo, evol, grpo, seed_grpo
from turncredit.credit.outcome.answers import answer_entropy, majority, share, solved
from turncredit.credit.outcome.evol import novelty, novelty_rewards


def outcomes(rewards, tasks=None, **columns):
    count = len(rewards)
    return Steps.from_columns(
        task=tasks or ["t"] * count, trajectory=range(count), turn=[0] * count, reward=rewards, **columns
    )


def test_entropy_by_hand():
    """Task 0: answers 3, 3, 8 with shares 2/3 and 1/3. Task 1: one answer."""
    task, label = np.array([0, 0, 1, 0]), np.array([3, 3, 3, 8])
    expected = -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)
    assert answer_entropy(task, label) == pytest.approx([expected, expected, 0.0, expected])


def test_majority_counts_votes_and_lets_equals_win_together():
    task = np.array([0, 0, 0, 1, 1, 1])
    everyone = np.ones(6, dtype=bool)
    assert majority(task, np.array([7, 7, 2, 5, 6, 9]), everyone).tolist() == [True, True, False, True, True, True]
    silent = np.array([True, False, True, True, True, False])
    assert majority(task, np.array([7, 7, 2, 5, 5, 5]), silent).tolist() == [True, False, True, True, True, False]


def test_solved_and_share():
    steps = Steps.from_rows(episode("t", 0, [0.3, 0.3]) + episode("t", 1, [0.5]) + episode("u", 0, [-1.0]))
    assert solved(steps).tolist() == [True, False, False]
    assert share(np.array([True, False, False]), np.array([0, 0, 1])).tolist() == [0.5, 0.5, 0.0]


def test_seed_by_hand():
    """Four episodes, two clusters of two: H = log 2 = half of log 4, so 1 - 0.5 / 2 = 0.75 of r - 1/4."""
    steps = outcomes([1.0, 0, 0, 0], label=["a", "a", "b", "b"])
    assert seed_grpo(steps).values == pytest.approx([0.5625, -0.1875, -0.1875, -0.1875])
    assert seed_grpo(steps, alpha=1.0).values == pytest.approx([0.375, -0.125, -0.125, -0.125])
    assert seed_grpo(steps).report["uncertainty"] == pytest.approx(0.5)
    assert seed_grpo(outcomes([1.0, 0.0], label=["a", "b"]), alpha=1.0).values == pytest.approx([0.0, 0.0])
    assert seed_grpo(outcomes([1.0], label=["a"])).values.tolist() == [0.0]


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 0.5]), st.sampled_from("abc")), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_seed_lies_between_grpo_and_what_alpha_leaves_of_it(found):
    rewards, label = zip(*found, strict=True)
    steps = outcomes(rewards, label=label)
    base, scaled = grpo(steps).values, seed_grpo(steps, scale="std", alpha=0.3).values
    assert (np.abs(scaled) <= np.abs(base) + 1e-12).all()
    assert (np.abs(scaled) >= 0.7 * np.abs(base) - 1e-12).all()
    assert seed_grpo(steps, scale="std", alpha=0.0).values.tolist() == base.tolist()
    same = outcomes(rewards, label=["x"] * len(rewards))
    assert seed_grpo(same, scale="std").values.tolist() == base.tolist()


def test_copo_by_hand():
    """Task t: answers a, b: 1 bit, k = 1/2, group score 1/2 * (1 - 1/2) = 1/4. Task u: one answer twice, score 1.

    Local 1/2, -1/2, 0, 0; global -3/8 and 3/8; w = 1 / (1 + e^-0.5) at 1 bit and 1 / (1 + e^0.5) at none.
    """
    steps = outcomes([1.0, 0.0, 1.0, 1.0], ["t", "t", "u", "u"], label=["a", "b", "c", "c"])
    result = copo(steps, scale="none", consistency=True)
    assert result.parts["local"].tolist() == [0.5, -0.5, 0.0, 0.0]
    assert result.parts["global"].tolist() == [-0.375, -0.375, 0.375, 0.375]
    more, less = 1.0 / (1.0 + math.exp(-0.5)), 1.0 / (1.0 + math.exp(0.5))
    expected = [more * 0.5 - less * 0.375, -more * 0.5 - less * 0.375] + [more * 0.375] * 2
    assert result.values == pytest.approx(expected)
    plain = copo(steps, scale="none")
    assert plain.parts["global"].tolist() == [-0.25, -0.25, 0.25, 0.25]
    assert copo(steps, scale="none", steepness=0.0, consistency=True).values == pytest.approx(
        (result.parts["local"] + result.parts["global"]) / 2.0
    )


def test_copo_teaches_where_a_group_agrees_and_not_from_one_task():
    agree = outcomes([1.0, 1.0, 0.0, 0.0], ["t", "t", "u", "u"], label=["a", "a", "b", "b"])
    assert (np.sign(copo(agree).values) == [1, 1, -1, -1]).all()
    assert not grpo(agree).values.any()
    one = outcomes([1.0, 0.0], label=["a", "b"])
    assert not copo(one).parts["global"].any()
    assert not copo(outcomes([1.0], label=["a"])).values.any()


def test_copo_huge_options_do_not_overflow():
    steps = outcomes([1.0, 0.0, 1.0, 1.0], ["t", "t", "u", "u"], label=["a", "b", "c", "c"])
    values = copo(steps, steepness=1e9).values
    assert values[:2].tolist() == grpo(steps).values[:2].tolist()


def test_evol_published_rewards():
    right, new = np.array([True, True, True, False, False]), np.array([0.1, 0.3, 0.5, 0.2, 0.6])
    assert novelty_rewards(right, new).tolist() == pytest.approx([0.5, 0.75, 1.0, -1.0, -0.5])


def test_evol_rewards_alone_equal_and_without_an_answer():
    right, new = np.array([True, False, False, False]), np.array([0.2, 0.4, 0.4, 0.9])
    answered = np.array([True, True, True, False])
    one = np.zeros(4, dtype=np.int64)
    assert novelty_rewards(right, new, one, answered).tolist() == [1.0, -0.75, -0.75, -1.0]
    assert novelty_rewards(np.array([False]), np.array([3.0])).tolist() == [-0.5]


def test_evol_groups_do_not_share_their_scale():
    right, new = np.ones(4, dtype=bool), np.array([0.0, 1.0, 10.0, 30.0])
    assert novelty_rewards(right, new, np.array([0, 0, 1, 1])).tolist() == [0.5, 1.0, 0.5, 1.0]


def compared(embedding, right):
    """Novelties of one group in plain loops."""
    out = []
    for i, one in enumerate(embedding):
        alike = {
            j: min(max(float(one @ other) / math.sqrt(float(one @ one) * float(other @ other)), 0.0), 1.0)
            for j, other in enumerate(embedding)
            if j != i
        }
        own = [alike[j] for j in alike if right[j] == right[i]] or list(alike.values())
        out.append(1.0 - 0.5 * sum(own) / len(own) - 0.5 * max(alike.values()))
    return out


@given(st.integers(2, 7), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_novelty_equals_the_plain_loops_in_several_groups(size, seed):
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat([0, 1, 2], [size, 2, size]))
    embedding, right = rng.normal(size=(len(task), 4)), rng.random(len(task)) < 0.5
    found = novelty(embedding, task, right)
    for group in range(3):
        members = task == group
        assert found[members] == pytest.approx(compared(embedding[members], right[members]), abs=1e-9)


def test_novelty_without_company_and_without_an_answer():
    embedding = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    task, right = np.array([0, 1, 1]), np.ones(3, dtype=bool)
    assert novelty(embedding, task, right, np.array([True, True, False])).tolist() == [0.5, 0.5, 0.0]
    assert novelty(embedding, np.array([0, 1, 1]), right).tolist() == [0.5, 1.0, 1.0]  # zeros are like nothing
    assert novelty(1e200 * embedding[:2], np.array([0, 0]), right[:2]).tolist() == [0.0, 0.0]


def test_evol_takes_the_majority_for_the_truth_and_does_not_read_rewards():
    """Majority a with novelties 0.1, 0.3, 0.5: 0.5, 0.75, 1; the others 0.2, 0.6: -1, -0.5; mean 0.15."""
    options = {"label": list("aaabc"), "metric": [0.1, 0.3, 0.5, 0.2, 0.6]}
    result = evol(outcomes([0.0] * 5, **options), scale="none")
    assert result.values == pytest.approx([0.35, 0.6, 0.85, -1.15, -0.65])
    assert result.report["correct"] == 0.6
    assert result.values.tolist() == evol(outcomes([9.0, -3.0, 0.0, 1.0, 1.0], **options), scale="none").values.tolist()


def test_evol_by_score():
    steps = outcomes([1.0, 0.0], metric=[0.3, 0.4])
    assert evol(steps, by="score", scale="none").values.tolist() == [0.75, -0.75]  # 1 and -0.5, mean 0.25


def test_evol_an_invalid_last_turn_is_no_answer():
    """a recovers from its invalid first turn, c ends with one: a and b have a vote each, c has none and gets -1."""
    rows = episode("t", "a", [0.0, 0.0]) + episode("t", "b", [0.0]) + episode("t", "c", [0.0, 0.0])
    for row, valid, label in zip(rows, (False, True, True, True, False), "xxyyy", strict=True):
        row.update(valid=valid, label=label, metric=0.5)
    values = evol(Steps.from_rows(rows), scale="none").values
    assert values == pytest.approx(np.array([0.75, 0.75, 0.75, -1.0, -1.0]) - 0.5 / 3.0)


def test_evol_reads_embeddings():
    rng = np.random.default_rng(0)
    vectors, label = rng.normal(size=(5, 3)), list("aabca")
    given_rows = evol(outcomes([0.0] * 5, label=label, metric=vectors)).values
    right = np.array([letter == "a" for letter in label])
    one = evol(outcomes([0.0] * 5, label=label, metric=novelty(vectors, np.zeros(5, dtype=np.int64), right))).values
    assert given_rows == pytest.approx(one, abs=1e-9)


def test_a_label_that_changes_within_an_episode_is_refused():
    rows = episode("t", "a", [0.0, 1.0])
    rows[0].update(label="x", metric=0.0)
    rows[1].update(label="y", metric=0.0)
    for method in (copo, seed_grpo, evol):
        with pytest.raises(BadTable, match=f"{method.__name__} expects one value of 'label'"):
            method(Steps.from_rows(rows))
