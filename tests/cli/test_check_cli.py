"""`turnwise check`: levels, JSON, exit codes, and an attacker."""

from __future__ import annotations

import json

import pytest
from toys.commands import ENV, Call, one_sentence
from toys.hackable import PaysForNothing, Quiz

from turnwise.envs import register

QUIZ, NOTHING = "toys/Quiz-v0", "toys/PaysForNothing-v0"


@pytest.fixture(autouse=True)
def _registered() -> None:
    register(QUIZ, Quiz, max_episode_steps=4)
    register(NOTHING, PaysForNothing, max_episode_steps=4)


def test_the_report_is_json_alone(turnwise: Call) -> None:
    said = turnwise("check", NOTHING, "--json", "--budget", 50)
    document = json.loads(said.out)
    assert said.code == 1
    assert document["env"] == NOTHING
    assert document["levels"] == {
        "runtime": "pass",
        "semantic": "fail",
        "adversarial": document["levels"]["adversarial"],
    }
    empty = next(rule for rule in document["rules"] if rule["rule"] == "empty")
    assert (empty["outcome"], empty["measured"]["share"], empty["measured"]["n"]) == ("failed", 1.0, 8)
    assert "semantic.floor_gap" in empty["openenv"]


def test_an_honest_environment_passes_with_a_verdict_for_each_level(turnwise: Call) -> None:
    said = turnwise("check", QUIZ, "--budget", 200)
    assert said.code == 0, said.out
    assert [line.split() for line in said.out.splitlines()[-4:-1]] == [
        ["pass", "runtime"],
        ["pass", "semantic"],
        ["pass", "adversarial"],
    ]
    assert "at most 200 steps" in said.err


def test_levels_and_bounds(turnwise: Call) -> None:
    assert turnwise("check", NOTHING, "--level", "runtime").code == 0
    assert turnwise("check", NOTHING, "--level", "semantic").code == 1
    strict = turnwise("check", QUIZ, "--level", "semantic", "--best", 0.5, "--cheap", 0.3)
    assert strict.code == 0, strict.out
    one_sentence(turnwise("check", QUIZ, "--level", "static"), "runtime, semantic, adversarial", "static")
    one_sentence(turnwise("check", QUIZ, "--cheap", 1.5), "[0, 1)", "1.5")
    one_sentence(turnwise("check", QUIZ, "--best", -1), "above 0", "-1")


def test_a_warning_fails_where_it_is_asked_for(turnwise: Call) -> None:
    words = ("check", ENV, "lengths=[2]", 'kinds=["open"]', "--level", "semantic")
    usual, strict = turnwise(*words), turnwise(*words, "--strict")
    assert "warned" in usual.out
    assert (usual.code, strict.code) == (0, 1)


def test_a_player_can_attack(turnwise: Call) -> None:
    words = ("--attacker", "random", "--budget", 0, "--json")
    outcomes = {}
    for name in (ENV, QUIZ):
        rules = json.loads(turnwise("check", name, *words).out)["rules"]
        outcomes[name] = next(rule for rule in rules if rule["rule"] == "attacker")
    assert outcomes[ENV]["outcome"] in ("ok", "warned")
    assert len(outcomes[ENV]["measured"]["shares"]) == 3
    assert outcomes[QUIZ]["outcome"] == "warned"
    assert "needs admissible actions" in outcomes[QUIZ]["detail"]
    one_sentence(turnwise("check", QUIZ, "--attacker", "expert"), "the expert does the task")
    one_sentence(turnwise("check", QUIZ, "--attacker", "nobody"), "nobody")
