"""`turncredit check`: levels, JSON, exit codes, and an attacker."""

from __future__ import annotations

import json
import re
import time

import pytest
from toys.benchmarks import register_toys
from toys.commands import ENV, Call, one_sentence
from toys.hackable import PaysForNothing, Quiz

from turncredit.envs import register

QUIZ, NOTHING = "toys/Quiz-v0", "toys/PaysForNothing-v0"


@pytest.fixture(autouse=True)
def _registered() -> None:
    register(QUIZ, Quiz, max_episode_steps=4)
    register(NOTHING, PaysForNothing, max_episode_steps=4)


def test_the_report_is_json_alone(turncredit: Call) -> None:
    said = turncredit("check", NOTHING, "--json", "--budget", 50)
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


def test_an_honest_environment_passes_with_a_verdict_for_each_level(turncredit: Call) -> None:
    said = turncredit("check", QUIZ, "--budget", 200)
    assert said.code == 0, said.out
    assert [line.split() for line in said.out.splitlines()[-4:-1]] == [
        ["pass", "runtime"],
        ["pass", "semantic"],
        ["pass", "adversarial"],
    ]
    assert said.err == (
        "all rules together take at most 600 s, the search for unearned reward at most 200 steps (--budget)\n"
    )


def test_levels_and_bounds(turncredit: Call) -> None:
    assert turncredit("check", NOTHING, "--level", "runtime").code == 0
    assert turncredit("check", NOTHING, "--level", "semantic").code == 1
    strict = turncredit("check", QUIZ, "--level", "semantic", "--best", 0.5, "--cheap", 0.3)
    assert strict.code == 0, strict.out
    one_sentence(turncredit("check", QUIZ, "--level", "static"), "runtime, semantic, adversarial", "static")
    one_sentence(turncredit("check", QUIZ, "--cheap", 1.5), "[0, 1)", "1.5")
    one_sentence(turncredit("check", QUIZ, "--best", -1), "above 0", "-1")


class Sleepy(Quiz):
    """Takes its time for a step."""

    def take_action(self, action: str) -> tuple[str, float, bool]:
        time.sleep(0.05)
        return super().take_action(action)


def test_what_a_budget_does_not_suffice_for_is_named(turncredit: Call) -> None:
    register("toys/Sleepy-v0", Sleepy, max_episode_steps=4)
    said = turncredit("check", "toys/Sleepy-v0", "--budget", "1s")
    assert said.code == 0, said.out
    assert "skipped  protocol         not judged: its share of the seconds did not suffice" in said.out
    assert "keeps the contract as far as it was judged" in said.out
    assert re.search(r"^not judged, or in part, in 1 s \(--budget\): .*, attack", said.err, re.MULTILINE)
    said = turncredit("check", "toys/Sleepy-v0", "--budget", "1s", "--json")
    assert "attack" in json.loads(said.out)["cut_short"]
    assert (
        turncredit("check", QUIZ, "--budget", "20,0s").err
        == "the search for unearned reward at most 20 steps (--budget)\n"
    )
    for budget in ("many", "3 hours", "3000,", "-3", "1.5s"):
        one_sentence(turncredit("check", QUIZ, f"--budget={budget}"), "3000,300s", budget)


def test_a_warning_fails_where_it_is_asked_for(turncredit: Call) -> None:
    words = ("check", ENV, "lengths=[2]", 'kinds=["open"]', "--level", "semantic")
    usual, strict = turncredit(*words), turncredit(*words, "--strict")
    assert "warned" in usual.out
    assert (usual.code, strict.code) == (0, 1)


def test_a_player_can_attack(turncredit: Call) -> None:
    register_toys()
    words = ("--attacker", "random", "--budget", 0, "--json")
    outcomes = {}
    for name in (ENV, QUIZ, "toys/Unlisted-v0"):
        rules = json.loads(turncredit("check", name, *words).out)["rules"]
        outcomes[name] = next(rule for rule in rules if rule["rule"] == "attacker")
    for name in (ENV, QUIZ):
        assert outcomes[name]["outcome"] in ("ok", "warned")
        assert len(outcomes[name]["measured"]["shares"]) == 3
    assert outcomes["toys/Unlisted-v0"]["outcome"] == "warned"
    assert "needs admissible actions" in outcomes["toys/Unlisted-v0"]["detail"]
    one_sentence(turncredit("check", QUIZ, "--attacker", "expert"), "the expert does the task")
    one_sentence(turncredit("check", QUIZ, "--attacker", "nobody"), "nobody")
