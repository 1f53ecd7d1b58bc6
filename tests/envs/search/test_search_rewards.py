"""Reward functions: tables computed by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.errors import UnknownOption
from turncredit.envs.search import rewards
from turncredit.envs.search.questions import Question
from turncredit.envs.search.reward_rules import REWARD_RULES, EpisodeRecord, make_rule


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The  U.S. Army!", "us army"),
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),
        ("A-ha", "aha"),
        ("  ", ""),
        ("1,000", "1000"),
    ],
)
def test_normalise(text, plain):
    assert rewards.normalise(text) == plain


@pytest.mark.parametrize(
    ("answer", "golden", "exact", "inside", "f1"),
    [
        ("The Ada Marsh.", ["ada marsh"], True, True, 1.0),
        ("Ada Marsh of Oakford", ["Ada Marsh"], False, True, 2 * 2 / (4 + 2)),
        ("Ada", ["Ada Marsh", "Ben"], False, False, 2 * 1 / (1 + 2)),
        ("yes it is", ["yes"], False, True, 0.0),
        ("yes", ["yes"], True, True, 1.0),
        ("no", ["noanswer"], False, False, 0.0),
        ("ben ben", ["ben holt ben ben"], False, False, 2 * 2 / (2 + 4)),
        ("", ["Ada"], False, False, 0.0),
        ("anything", ["the"], False, False, 0.0),
        (None, ["Ada"], False, False, 0.0),
    ],
)
def test_answers(answer, golden, exact, inside, f1):
    assert rewards.exact_match(answer, golden) is exact
    assert rewards.contains(answer, golden) is inside
    assert rewards.f1(answer, golden) == pytest.approx(f1)


@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_symmetric_in_range_and_one_for_an_exact_match_with_words(one, other):
    score = rewards.f1(one, [other])
    assert 0 <= score <= 1
    assert score == rewards.f1(other, [one])
    if rewards.exact_match(one, [other]) and rewards.normalise(one):
        assert score == 1


@pytest.mark.parametrize(
    ("text", "least", "answer"),
    [
        ("<answer> Beijing </answer>", 2, None),
        ("<answer> Beijing </answer> x <answer> Ada </answer>", 2, "Ada"),
        ("<answer> Ada </answer>", 1, "Ada"),
        ("<answer>a\nb</answer>", 1, "a\nb"),
        ("<answer> Ada", 1, None),
    ],
)
def test_extract_takes_the_last_answer_and_may_want_two(text, least, answer):
    assert rewards.extract(text, least=least) == answer


GOOD = (
    "<think>who?</think> <search> red lamp </search>\n\n<information>Doc 1</information>\n\n"
    "<think>I know.</think>\n<answer> Ada </answer>"
)


@pytest.mark.parametrize(
    ("text", "whole", "partly"),
    [
        (GOOD, True, True),
        ("<think>x</think><answer>y</answer>", True, True),
        (GOOD.replace("<think>I know.</think>", ""), False, False),
        (GOOD.replace("</think> <search>", "</think> so <search>"), False, False),
        (GOOD + " and more", False, False),
        (GOOD.replace("<answer> Ada </answer>", ""), False, True),
        ("<search>x</search>", False, False),
        ("<think>a<think>b</think></think>", False, False),
        ("", False, True),
    ],
)
def test_well_formed(text, whole, partly):
    assert rewards.well_formed(text) is whole
    assert rewards.well_formed(text, whole=False) is partly


@pytest.mark.parametrize(
    ("correct", "answered", "formed", "retrieved", "reward"),
    [
        (True, True, True, False, 1.0),
        (True, True, False, False, 0.8),
        (False, True, True, False, 0.2),
        (False, True, True, True, 0.3),
        (False, True, False, True, 0.1),
        (False, False, True, False, 0.2),
        (False, False, True, True, 0.3),
        (False, False, False, True, 0.0),
    ],
)
def test_with_format(correct, answered, formed, retrieved, reward):
    assert rewards.with_format(correct, answered, formed, retrieved, retrieval=0.1) == pytest.approx(reward)


def test_entity_share_is_of_exact_strings():
    assert rewards.entity_share("Ada Marsh was born in oakford", ["Ada Marsh", "Oakford"]) == 0.5
    assert rewards.entity_share("anything", []) == 0.0
    assert rewards.entity_share("Ada", ["Ada", "Ada"]) == 1.0


@pytest.mark.parametrize(
    ("correct", "shares", "formed", "wanted"),
    [
        ([True, False, False], [0.5, 0.5, 0.25], [True] * 3, [1.0, 0.3, 0.15]),
        ([False, False], [0.0, 0.0], [True, True], [0.0, 0.0]),
        ([True, False], [0.2, 0.4], [False, False], [0.0, 0.0]),
        ([False, True], [0.2, 0.4], [True, True], [0.15, 1.0]),
        ([], [], [], []),
    ],
)
def test_e_grpo(correct, shares, formed, wanted):
    assert rewards.e_grpo(correct, shares, formed) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("calls", "correct", "wanted"),
    [(0, True, 1.0), (2, True, math.cos(2 * math.pi / 8)), (4, True, 0.5), (4, False, 0.0)],
)
def test_otc_alone(calls, correct, wanted):
    assert rewards.otc_alone(calls, correct) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("calls", "correct", "best", "wanted", "fewest"),
    [
        # n = 1: m = 1 gives f = 1, sin(pi / 2); m = 3 gives f = 3 / 2, sin(3 pi / 4)
        ([1, 3, 3], [True, True, False], None, [1.0, math.sqrt(0.5), 0.0], 1),
        # n = 0: no call is perfect, more are discounted by the cosine
        ([0, 2], [True, True], None, [1.0, math.cos(2 * math.pi / 8)], 0),
        # what was known before counts: n = 1, m = 2 gives f = 4 / 3
        ([2], [True], 1, [math.sin(2 * math.pi / 3)], 1),
        ([2], [True], 5, [1.0], 2),
        ([1, 2], [False, False], None, [0.0, 0.0], None),
        ([1], [False], 2, [0.0], 2),
    ],
)
def test_otc(calls, correct, best, wanted, fewest):
    paid, kept = rewards.otc(calls, correct, best)
    assert paid == pytest.approx(wanted)
    assert kept == fewest


@pytest.mark.parametrize(("calls", "wanted"), [(0, 0.0), (1, 0.2), (2, 0.3), (3, 0.35), (4, 0.375), (9, 0.375)])
def test_attenuated(calls, wanted):
    assert rewards.attenuated(calls) == pytest.approx(wanted)


def test_cost_aware_f1():
    assert rewards.cost_aware_f1(0.5, 0) == 0.5
    assert rewards.cost_aware_f1(0.5, 3) == pytest.approx(0.5 * math.exp(-0.3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: rewards.otc_alone(-1, True),
        lambda: rewards.otc([1], [True], smooth=0),
        lambda: rewards.e_grpo([True], [1.0], [True], alpha=2),
        lambda: rewards.e_grpo([True], [], [True]),
        lambda: rewards.attenuated(1, decay=3),
        lambda: rewards.cost_aware_f1(1.0, 1, cost=-1),
    ],
)
def test_what_makes_no_sense_is_refused(call):
    with pytest.raises(ValueError, match=r"must|argument|0 or more|above 0"):
        call()


QUESTION = Question("q", "Who?", ("Ada Marsh",), entities=("Oakford", "Red Lamp"))


@pytest.mark.parametrize(
    ("name", "options", "answer", "searches", "thoughts", "paid"),
    [
        ("em", {}, "ada marsh", 2, "", 1.0),
        ("em", {}, "Ada Marsh too", 2, "", 0.0),
        ("subem", {}, "Ada Marsh too", 2, "", 1.0),
        ("f1", {}, "Ada", 2, "", 2 / 3),
        ("caf", {"cost": 0.5}, "Ada", 2, "", 2 / 3 * math.exp(-1)),
        ("otc", {"smooth": 4}, "Ada Marsh", 4, "", 0.5),
        ("e-grpo", {}, "Ada", 1, "Oakford it is", 0.15),
        ("e-grpo", {"alpha": 1}, "Ada", 1, "Oakford has the Red Lamp", 1.0),
        ("e-grpo", {}, "Ada Marsh", 1, "", 1.0),
        ("format", {}, "Ada", 0, "", 0.1),
        ("format", {"final": 0.05}, "Ada", 0, "", 0.05),
        ("graphrag", {}, "Ada Marsh", 2, "", math.exp(-0.2)),
    ],
)
def test_rules_pay_for_answers(name, options, answer, searches, thoughts, paid):
    record = EpisodeRecord(QUESTION, answer=answer, searches=searches, thoughts=[thoughts])
    assert make_rule(name, options).answer(record) == pytest.approx(paid)


def test_the_rule_of_two_answers_counts_the_example_of_the_instructions():
    rule = make_rule("em", {"two_answers": True})
    said = ["<answer> Ada Marsh </answer>", ""]
    assert (
        rule.answer(EpisodeRecord(QUESTION, start="<answer> Beijing </answer> ?", texts=said, answer="Ada Marsh")) == 1
    )
    assert rule.answer(EpisodeRecord(QUESTION, start="Question: Who?", texts=said, answer="Ada Marsh")) == 0
    assert rule.past(EpisodeRecord(QUESTION, start="<answer> Beijing </answer>")) != rule.past(EpisodeRecord(QUESTION))


def test_graphrag_pays_searches_less_and_less():
    rule = make_rule("graphrag")
    paid = [rule.search(EpisodeRecord(QUESTION, searches=calls)) for calls in range(1, 7)]
    assert paid == pytest.approx([0.2, 0.1, 0.05, 0.025, 0.0, 0.0])


@pytest.mark.parametrize("name", sorted(REWARD_RULES))
def test_scores_of_every_rule_lie_in_range_and_are_one_when_won(name):
    rule = make_rule(name)
    for answer in ("Ada Marsh", "Ada", "x", "Ada Marsh and Ben"):
        record = EpisodeRecord(QUESTION, answer=answer)
        assert 0 <= rule.score(record) <= 1
        assert (rule.score(record) == 1) == rule.right(record)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("ems", {}, "em"),
        ("f1", {"beta": 2}, "beta"),
        ("otc", {"smooth": 0}, "smooth"),
        ("caf", {"cost": "dear"}, "cost"),
        ("e-grpo", {"alpha": -1}, "alpha"),
    ],
)
def test_unknown_rules_and_constants_are_named(name, options, said):
    with pytest.raises(UnknownOption, match=said):
        make_rule(name, options)
