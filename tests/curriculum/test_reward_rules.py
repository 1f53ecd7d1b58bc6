"""Reward rules: hand-computed tables of each, and laws of all of them on random tables."""

import inspect
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.credit import BadOption, MissingColumn, Steps
from turncredit.credit import get as get_credit_rule
from turncredit.curriculum import RewardRule
from turncredit.curriculum.errors import BadSetting, CurriculumError
from turncredit.curriculum.reward_rules.behaviours import repeated_share
from turncredit.curriculum.reward_rules.catalogue import CATALOGUE, get_reward_rule
from turncredit.curriculum.reward_rules.votes import bleu
from turncredit.curriculum.rewards import REWARD_RULES

every_rule = pytest.mark.parametrize("name", [rule.name for rule in CATALOGUE])
BY_EPISODE = {
    "length_budget", "label", "metric", "judge", "facts", "supported", "refused", "preferred", "plan_score",
    "confidence", "entities", "used", "format", "first_right", "parallel", "answer", "wording", "question", "outcome",
}  # fmt: skip
PER_TURN = {"ensemble", "weighted", "advevo"}
"""Rules that set the reward of every turn."""


def table(outcomes, *, task="t", tokens=None, **columns):
    """One-turn episodes with these outcomes, and further columns with one value for each."""
    count = len(outcomes)
    return Steps.from_columns(
        task=[task] * count,
        trajectory=list(range(count)),
        turn=[0] * count,
        reward=list(outcomes),
        tokens=tokens or [10] * count,
        valid=columns.pop("valid", [True] * count),
        action=columns.pop("action", ["go"] * count),
        **columns,
    )


def rewards(name, steps, iteration=0, total=1, **options):
    changed, _ = get_reward_rule(name, **options)(steps, iteration=iteration, total=total)
    return changed.reward.round(4).tolist()


def test_overlong_grows_over_the_buffer_and_no_further():
    steps = table([1, 1, 1, 0, 1], tokens=[60, 80, 100, 110, 4800])
    assert rewards("overlong", steps, limit=100, buffer=40, factor=1) == [1.0, 0.5, 0.0, -1.0, 0.0]


@pytest.mark.parametrize("name", ["overlong", "cosine", "tldr", "dylr", "budget"])
def test_a_reward_of_length_is_bounded_however_long_an_episode_is(name):
    """Whole episodes have no limit of their own: from some length on, more of it costs no more."""
    columns = {"length_budget": [50, 50, 50, 50]} if name == "tldr" else {}
    options = {} if name == "tldr" else {"start": 100} if name == "budget" else {"limit": 100}
    options |= {"buffer": 50} if name == "overlong" else {}
    for outcome in (0, 1):
        steps = table([outcome] * 4, tokens=[1_000, 10_000, 100_000, 1_000_000], **columns)
        values = rewards(name, steps, **options)
        assert len(set(values)) == 1, (name, outcome, values)
        assert -1.0 <= values[0] <= 1.0


def test_truncate_pays_nothing_at_the_limit():
    assert rewards("truncate", table([1, 1, 0], tokens=[99, 100, 5]), limit=100) == [1.0, 0.0, 0.0]


def test_cosine_falls_for_wins_and_rises_for_losses():
    steps = table([1, 1, 0, 0, 1], tokens=[0, 50, 0, 50, 100])
    assert rewards("cosine", steps, limit=100) == [1.0, 0.75, -0.5, -0.25, -0.5]
    assert rewards("cosine", steps, limit=100, beyond=-10.0)[-1] == -10.0  # the paper's number
    assert rewards("cosine", steps, limit=100, beyond=0.0)[-1] == 0.0


def test_l_grpo_counts_length_only_where_all_win():
    assert rewards("l_grpo", table([1, 1, 1], tokens=[10, 20, 30])) == [1.0, 0.5, 0.0]
    assert rewards("l_grpo", table([1, 1], tokens=[10, 10])) == [1.0, 1.0]
    assert rewards("l_grpo", table([1, 0], tokens=[10, 30])) == [1.0, 0.0]


def test_the_budget_shrinks():
    steps = table([1, 1, 0], tokens=[50, 150, 100])
    assert rewards("budget", steps, start=100, decay=0.5, every=10, weight=1.0) == [1.5, 1.5, 0.0]
    assert rewards("budget", steps, iteration=10, start=100, decay=0.5, every=10, weight=1.0) == [2.0, 1.0, 0.0]


def test_dylr_draws_losses_to_the_length_of_wins():
    steps = table([1, 0, 0, 0, 0, 0], tokens=[100, 0, 50, 100, 150, 200])
    assert rewards("dylr", steps) == [1.0, -0.5, -0.25, 0.0, -0.25, -0.5]


def test_tldr_charges_what_is_over_the_budget():
    assert rewards("tldr", table([1, 1], tokens=[100, 30], length_budget=[50, 50])) == [0.5, 1.0]


def test_several_rewards_are_combined():
    steps = table([0], multi=[[1.0, 0.0, 0.5]])
    assert [rewards("ensemble", steps, how=how, weight=0.1) for how in ("mean", "worst", "uncertain")] == [
        [0.5], [0.0], [0.4833],
    ]  # fmt: skip
    assert rewards("weighted", steps, weights=[1.0, 5.0, 2.0]) == [2.0]
    with pytest.raises(BadOption, match="each of the 3 rewards, got 2"):
        rewards("weighted", steps, weights=[1.0, 2.0])


def test_defenders_learn_safety_first():
    steps = table([0.5, 0.5], role=["attacker", "guard"], multi=[[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
    assert rewards("advevo", steps, iteration=0, total=10) == [0.5, 0.7]
    assert rewards("advevo", steps, iteration=5, total=10) == [0.5, 0.4]


def test_votes():
    steps = table([0, 0, 0, 0], label=["a", "a", "b", "c"])
    assert rewards("majority", steps) == [1.0, 1.0, 0.0, 0.0]
    assert rewards("frequency", steps) == [-0.2098, -0.2098, -0.4598, -0.4598]
    unread = table([0, 0, 0], label=["a", "a", "b"], valid=[False, False, True])
    assert rewards("majority", unread) == [0.0, 0.0, 1.0]
    assert rewards("frequency", unread) == [0.0, 0.0, 1.0]


def test_bleu_by_hand():
    """All n-grams of a shorter text may be right: what it lacks costs exp(1 - 3/2). A longer one pays by precision."""
    assert bleu("a red", "a red cup") == pytest.approx(np.exp(-0.5))
    assert bleu("a red cup", "a red") == pytest.approx(np.sqrt(2 / 3 * 1 / 2))


def test_wordings_of_a_question_should_be_answered_alike():
    steps = table([0] * 4, answer=["a", "b", "a", "a"], wording=[1, 1, 2, 2], question=["q"] * 4)
    assert rewards("con_rag", steps, others=0) == [1.0, 0.0, 0.5, 0.5]
    assert rewards("con_rag", table([0, 0], answer=["a", "a"], wording=[1, 1], question=["q", "q"])) == [0.0, 0.0]


def test_unlike_winners_earn_more():
    steps = table([1, 1, 1, 0], metric=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert rewards("diversity", steps, weight=1.0) == [1.5, 1.5, 2.0, 0.0]
    assert rewards("diversity", table([1, 0], metric=[[1.0], [1.0]])) == [1.0, 0.0]


def test_judges():
    steps = table([0, 1, 0], facts=[4, 4, 4], supported=[2, 2, 2], refused=[0, 0, 1])
    assert rewards("knowrl", steps) == [-0.8884, 2.0, 1.0]
    kept = table([0] * 16, preferred=[0] + [1] * 9 + [-1] * 6)
    assert rewards("genrm_pairs", kept) == [0.0] + [1.0] * 9 + [-1.0] * 6
    assert rewards("genrm_pairs", table([0] * 16, preferred=[0] + [1] * 13 + [-1] * 2)) == [0.0] * 16
    assert rewards("rlmt", table([1, 1, 1], judge=[0.2, 0.9, 0.7], valid=[True, True, False])) == [0.2, 0.9, 0.2]
    assert rewards("pta", table([1, 0], plan_score=[1.0, 0.5])) == [1.3, 0.15]
    assert rewards("listener", table([1, 1, 0], confidence=[1.0, 0.25, 1.0])) == [1.5, 0.75, 0.0]
    assert rewards("e_grpo", table([1, 0, 0], entities=[0.1, 0.4, 0.2])) == [1.0, 0.3, 0.15]
    assert rewards("e_grpo", table([0, 0], entities=[0.0, 0.0])) == [0.0, 0.0]


def test_stages_are_paid_one_after_the_other():
    steps = table([0.5, 1.0, 1.0], action=["go", None, "fly"], valid=[True, False, False])
    assert rewards("prs", steps) == [0.65, 0.0, 0.1]


def test_fewer_turns_earn_more():
    quick = Steps.from_columns(task=["t"] * 3, trajectory=[0, 1, 1], turn=[0, 0, 1], reward=[1.0, 0.0, 1.0])
    assert rewards("otc", quick, smoothing=1.0) == [1.0, 0.0, 0.5]


def test_a_tool_is_paid_where_it_helps():
    helpful = table([1, 1, 1, 0, 1, 0, 0, 0], used=[1, 1, 1, 1, 0, 0, 0, 0])
    assert rewards("gcpo", helpful)[:4] == [1.5, 1.5, 1.5, 0.5]
    assert rewards("gcpo", table([1, 0], used=[1, 1])) == [1.0, 0.0]


def test_rare_formats_count_more_at_first():
    steps = table([1, 1, 0, 1], format=["A", "A", "A", "B"])
    rule = get_reward_rule("ada_grpo")
    scaled, _ = rule(steps, iteration=0, total=10)
    assert scaled.reward.round(3).tolist() == [1.333, 1.333, 0.0, 4.0]
    advantages = get_credit_rule("grpo", eps=0.0)(scaled).values
    assert advantages.round(4).tolist() == [-0.1987, -0.1987, -0.9934, 1.3908]
    assert rewards("ada_grpo", steps, iteration=10, total=10) == [1.0, 1.0, 0.0, 1.0]


def test_repeated_tails():
    assert repeated_share([9, 1, 2, 1, 2]) == 0.8
    assert repeated_share([]) == repeated_share([1]) == 0.0
    assert repeated_share([5, 5, 5, 5, 5]) == 0.8  # the longest cycle that fits twice
    assert rewards("repetition", table([1, 1], repeated=[0.8, 0.0])) == [0.2, 1.0]
    assert rewards("repetition", table([1, 1], repeated=[0.8, 0.0]), constant=0.1) == [0.9, 1.0]


def test_reflections_and_parallel_blocks():
    assert rewards("reflection", table([1, 0, 1], first_right=[0, 1, 1])) == [1.25, -0.25, 1.0]
    steps = table([1, 1, 0], parallel=[1, 0, 1])
    assert rewards("parallel", steps, iteration=9) == [1.2, 1.0, -1.0]
    assert rewards("parallel", steps, iteration=7) == [1.0, 1.0, 0.0]


# -- laws --


def random_table(seed):
    dice = random.Random(seed)
    rows = []
    for task in range(dice.randint(1, 3)):
        for episode in range(dice.randint(1, 4)):
            mine = {
                "length_budget": dice.choice([5, 50]), "label": dice.choice("abc"), "judge": dice.random(),
                "facts": dice.choice([0, 3, 20]), "supported": dice.choice([0, 2]), "refused": dice.randint(0, 1),
                "preferred": dice.choice([-1, 0, 1]), "plan_score": dice.random(), "confidence": dice.random(),
                "entities": dice.choice([0.0, dice.random()]), "used": dice.randint(0, 1),
                "format": dice.choice(["long", "short"]), "first_right": dice.randint(0, 1),
                "parallel": dice.randint(0, 1), "answer": dice.choice(["", "a red cup", "a cup"]),
                "wording": dice.randint(0, 2), "question": f"q{task}",
                "metric": [dice.choice([0.0, 1.0]), dice.random()],
            }  # fmt: skip
            turns = dice.randint(1, 3)
            last = dice.choice([0.0, 0.0, 1.0])
            for turn in range(turns):
                rows.append({
                    "task": f"t{task}", "trajectory": f"e{episode}", "turn": turn,
                    "reward": last if turn == turns - 1 else dice.choice([0.0, 0.1]), "tokens": dice.randint(0, 60),
                    "valid": dice.random() < 0.8, "action": dice.choice(["go", "look", None]),
                    "role": dice.choice(["attacker", "guard"]),
                    "multi": [dice.random() for _ in range(3)], "repeated": dice.choice([0.0, 0.5]), **mine,
                })  # fmt: skip
    return rows


def by_turn(steps):
    keys = zip(steps.ids("task"), steps.ids("trajectory"), steps.turn.tolist(), strict=True)
    return dict(zip(keys, steps.reward.tolist(), strict=True))


@every_rule
@given(seed=st.integers(0, 10_000), iteration=st.integers(0, 9))
@settings(max_examples=15)
def test_the_order_of_rows_means_nothing_and_nothing_else_changes(name, seed, iteration):
    rows = random_table(seed)
    rule, steps = get_reward_rule(name), Steps.from_rows(rows)
    changed, _ = rule(steps, iteration=iteration, total=10)
    assert np.isfinite(changed.reward).all()
    assert all(
        np.array_equal(changed.column(column), steps.column(column)) for column in steps.columns if column != "reward"
    )
    shuffled = random.Random(seed).sample(rows, len(rows))
    other = by_turn(rule(Steps.from_rows(shuffled), iteration=iteration, total=10)[0])
    assert other == pytest.approx(by_turn(changed), abs=1e-9)
    if name not in PER_TURN:
        ends = {
            key[:2]: max(turn for *episode, turn in by_turn(steps) if tuple(episode) == key[:2])
            for key in by_turn(steps)
        }
        before, after = by_turn(steps), by_turn(changed)
        assert all(before[key] == after[key] for key in before if key[2] != ends[key[:2]])


@every_rule
def test_a_missing_column_is_named_and_a_table_without_rows_stays_empty(name):
    rule = get_reward_rule(name)
    assert len(rule(Steps.empty())[0]) == 0
    for column in set(rule.needs):
        rows = [{key: value for key, value in row.items() if key != column} for row in random_table(3)]
        with pytest.raises(MissingColumn, match=column):
            rule(Steps.from_rows(rows), iteration=9, total=10)


@every_rule
def test_options_have_bounds(name):
    rule = get_reward_rule(name)
    numbers = [option for option, default in rule.options.items() if isinstance(default, int | float)]
    for option in numbers:
        with pytest.raises(BadOption, match=option):
            get_reward_rule(name, **{option: "many"})
    with pytest.raises(BadOption, match="has no option 'lenght'"):
        get_reward_rule(name, lenght=3)


@every_rule
def test_every_rule_says_where_it_comes_from(name):
    (rule,) = (rule for rule in CATALOGUE if rule.name == name)
    text = inspect.getdoc(rule.function) or ""
    assert "Source:" in text, "a rule names its source"
    assert rule.evidence != "paper" or rule.arxiv


def test_names_and_results_from_outside(monkeypatch):
    with pytest.raises(BadSetting, match=r"overlnog.*overlong"):
        get_reward_rule("overlnog")
    rule = RewardRule(
        "fewer", "Fewer rows", None, "our reading", "", lambda steps: steps.take(np.arange(len(steps) - 1))
    )
    with pytest.raises(CurriculumError, match="must return the rows that it got"):
        rule(table([1, 0]))
    with pytest.raises(CurriculumError, match="must return Steps, got int"):
        RewardRule("three", "Three", None, "our reading", "", lambda steps: 3)(table([1]))
    assert set(REWARD_RULES.names()) >= {rule.name for rule in CATALOGUE}
