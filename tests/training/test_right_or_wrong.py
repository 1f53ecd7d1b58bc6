"""Credit rules and objectives with a threshold, behind reward rules that change where right ends and wrong begins."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_training_loop import make_run

from turncredit.credit import Steps, rules
from turncredit.credit import get as get_credit_rule
from turncredit.credit.catalogue import CATALOGUE as CREDIT_RULES
from turncredit.curriculum.reward_rules.catalogue import CATALOGUE, get_reward_rule
from turncredit.training import ConfigError
from turncredit.training.objectives import objectives
from turncredit.training.preflight.rules import check_rules

BINARY = [rule.name for rule in CREDIT_RULES if rule.threshold is not None]
WINNING = [name for name, info in objectives().items() if "win" in info.function.options]
GRADED = [rule for rule in CATALOGUE if not rule.divides]
FILLED = {
    "repeated": "repeated",
    "label": "answers",
    "metric": "text_vector",
    "judge": "judge",
    "preferred": "pairwise",
}
"""Columns that an annotator fills, so that a run is not refused for their sake."""


def pairwise(preferred):
    """The six episodes of one group, and what a judge said of each: 0 is the reference."""
    count = len(preferred)
    return Steps.from_columns(
        task=["t"] * count, trajectory=range(count), turn=[0] * count, reward=[0.25] * count, preferred=preferred
    )


def test_pairwise_preferences_are_the_advantages_and_the_reference_is_left_out():
    steps, _ = get_reward_rule("genrm_pairs")(pairwise([0, 1, 1, -1, -1, 1]))
    result = get_credit_rule("raw")(steps)
    assert result.values.tolist() == [0, 1, 1, -1, -1, 1]
    assert result.keep.tolist() == [False, True, True, True, True, True]


def test_a_one_sided_group_of_preferences_gives_nothing():
    """|sum| / G = 4 / 6 > 0.6; 3 / 6 is not."""
    steps, _ = get_reward_rule("genrm_pairs")(pairwise([0, 1, 1, 1, 1, 0]))
    result = get_credit_rule("raw")(steps)
    assert not result.values.any()
    assert not result.keep.any()
    steps, _ = get_reward_rule("genrm_pairs")(pairwise([0, 1, 1, 1, 1, -1]))
    assert get_credit_rule("raw")(steps).values.tolist() == [0, 1, 1, 1, 1, -1]


def test_rows_that_are_not_kept_count_in_statistics_and_are_not_trained_on():
    columns = {"task": ["t"] * 3, "trajectory": range(3), "turn": [0] * 3, "reward": [3.0, 0.0, 0.0]}
    result = get_credit_rule("dr_grpo")(Steps.from_columns(**columns, keep=[True, False, True]))
    assert result.values.tolist() == [2.0, -1.0, -1.0]
    assert result.keep.tolist() == [True, False, True]


def test_a_copy_is_kept_where_its_original_is():
    columns = {"task": ["t"] * 3, "trajectory": [0, 1, 1], "turn": [0] * 3, "reward": [1.0, 0.0, 0.0]}
    steps = Steps.from_columns(**columns, keep=[True, False, True], duplicate_of_row=[-1, -1, 1])
    assert get_credit_rule("raw")(steps).keep.tolist() == [True, False, False]


def test_every_rule_with_a_threshold_of_one_half_is_known():
    """A new rule with such an option says so in the catalogue."""
    known = {rule.name for rule in CREDIT_RULES if rule.binary is not None}
    assert known == {name for name, rule in rules().items() if rule.options.get("threshold") == 0.5} & {
        rule.name for rule in CREDIT_RULES
    }
    assert {"psr_nsr", "pshw", "v05", "mapo_mixed", "a_grae"} <= set(BINARY)
    assert {"rlmt", "frequency", "cosine", "l_grpo", "genrm_pairs"} <= {rule.name for rule in GRADED}
    assert get_credit_rule("evol").threshold is None
    assert get_credit_rule("evol", by="score").threshold == 0.5


COLUMNS = {
    "label": st.sampled_from("abc"), "metric": st.floats(-1, 1), "parallel": st.sampled_from([0, 1]),
    "tokens": st.integers(1, 300),
}  # fmt: skip


@pytest.mark.parametrize("name", [rule.name for rule in CATALOGUE if rule.divides])
@settings(max_examples=40)
@given(data=st.data())
def test_rewards_that_divide_stay_on_their_side_of_one_half(name, data):
    """A win without a charge stays above 0.5, a loss below; `majority` decides anew what is right."""
    won = data.draw(st.lists(st.booleans(), min_size=2, max_size=6))
    columns = {
        key: data.draw(st.lists(values, min_size=len(won), max_size=len(won))) for key, values in COLUMNS.items()
    }
    steps = Steps.from_columns(
        task=["t"] * len(won), trajectory=range(len(won)), turn=[0] * len(won), reward=np.array(won, float), **columns
    )
    options = {"limit": 200.0} if name == "truncate" else {}
    changed, _ = get_reward_rule(name, **options)(steps, iteration=9, total=10)
    right = np.array(won)
    if name == "truncate":
        right &= np.array(columns["tokens"]) < 200
    if name == "majority":
        most = max(columns["label"].count(label) for label in "abc")
        right = np.array([columns["label"].count(label) == most for label in columns["label"]])
    assert ((changed.reward > 0.5) == right).all()


def run_of(tmp_path, rule, *overrides):
    annotators = sorted({FILLED[name] for name in rule.needs if name in FILLED})
    judge = ['sampling.judge="toys.judges:make_judge"'] if {"judge", "pairwise"} & set(annotators) else []
    words = [f"sampling.annotators={annotators}", f'sampling.rewards=["{rule.name}"]', *judge, *overrides]
    return make_run(tmp_path, "train.group_size=4", *words)


FILLABLE = [rule for rule in GRADED if set(rule.needs) <= {*FILLED, "tokens", "action", "valid"}]


@pytest.mark.parametrize(
    ("method", "rule"),
    list(itertools.product(BINARY[:1] + BINARY[-1:], FILLABLE)),
    ids=lambda value: getattr(value, "name", value),
)
def test_a_threshold_behind_graded_rewards_is_refused_at_the_start(tmp_path, method, rule):
    run = run_of(tmp_path, rule, f'credit.method="{method}"')
    with pytest.raises(ConfigError, match=rf"{method}.*above 0.5.*'{rule.name}'.*set credit.options.threshold"):
        check_rules(run)
    check_rules(run_of(tmp_path, rule, f'credit.method="{method}"', "credit.options.threshold=0.1"))


@pytest.mark.parametrize("method", BINARY)
def test_every_rule_with_a_threshold_is_refused_behind_a_graded_reward(tmp_path, method):
    cosine = next(rule for rule in GRADED if rule.name == "cosine")
    with pytest.raises(ConfigError, match=r"scores above 0\.5 as right"):
        check_rules(run_of(tmp_path, cosine, f'credit.method="{method}"'))


@pytest.mark.parametrize("name", WINNING)
def test_so_is_an_objective_that_asks_who_won(tmp_path, name):
    cosine = next(rule for rule in GRADED if rule.name == "cosine")
    words = f'objective.name="{name}"', "train.optimizer_steps=1"
    with pytest.raises(ConfigError, match=rf"objective.name = '{name}'.*set objective.options.win"):
        check_rules(run_of(tmp_path, cosine, *words))
    check_rules(run_of(tmp_path, cosine, *words, "objective.options.win=0.1"))


def test_rules_that_compare_scores_follow_graded_rewards(tmp_path):
    for rule in FILLABLE:
        check_rules(run_of(tmp_path, rule, 'credit.method="grpo"'))
