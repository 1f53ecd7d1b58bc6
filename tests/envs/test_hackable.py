"""The check finds what pays for nothing, and does not accuse the honest twin of it."""

from __future__ import annotations

import functools
import json
from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.corridor import Corridor
from toys.hackable import HACKABLE, HonestPurse, IgnoresTheSeed, PaysForLength, PaysForNothing, PaysTwice, Quiz

from turncredit.envs import EnvError, check_env
from turncredit.envs.check import CheckReport, Effort, RewardBounds, rules
from turncredit.envs.checks.cheap_players import candidates
from turncredit.envs.checks.check_report import OPENENV
from turncredit.envs.checks.panel_data import score_interval

EFFORT = Effort(walks=4, turns=24, pairs=8, states=6, depth=8, continuations=4, search=100, floor=8, attack=600)
BY_NAME = pytest.mark.parametrize("broken", HACKABLE, ids=lambda value: value.__name__)


@functools.cache
def checked(env: type, **options: Any) -> CheckReport:
    return check_env(env, effort=EFFORT, **options)


def run(code: str) -> None:
    exec(compile(code, "<reproduce>", "exec"), {})


def failed(report: CheckReport) -> set[str]:
    return {result.rule for result in report.results if result.outcome == "failed"}


@BY_NAME
def test_each_fault_of_a_reward_fails_its_rule(broken: type):
    rule, _ = HACKABLE[broken]
    assert rule in failed(checked(broken)), str(checked(broken))


@BY_NAME
def test_the_honest_twin_is_not_accused(broken: type):
    _, twin = HACKABLE[broken]
    assert not failed(checked(twin)), str(checked(twin))


@BY_NAME
def test_the_script_shows_the_fault_and_is_silent_for_the_twin(broken: type):
    rule, twin = HACKABLE[broken]
    code = checked(broken)[rule].reproduce
    with pytest.raises(AssertionError):
        run(code)
    run(
        code.replace(f"import {broken.__name__}", f"import {twin.__name__}")
        .replace(f"{broken.__name__}(", "twin(")
        .replace("env = twin(", f"env = {twin.__name__}(")
    )


def test_the_search_finds_the_loop_without_the_expert():
    result = checked(PaysTwice)["attack"]
    assert result.outcome == "failed"
    assert result.values["earned"] > result.values["best"] == 1.0
    with pytest.raises(AssertionError):
        run(result.reproduce)


def test_a_search_that_does_the_task_is_no_fault():
    result = checked(Corridor)["attack"]
    assert result.outcome == "ok"
    assert result.values["won"] == sum(result.values["shares"]) >= 2


@pytest.mark.parametrize("budget", [0, 1, 37, 500])
def test_the_search_keeps_to_its_budget(budget: int, monkeypatch: pytest.MonkeyPatch):
    """An episode that has begun is finished: at most 60 turns of replay, and those that follow."""
    steps = 0
    original = Corridor.step

    def counted(self: Corridor, action: str) -> Any:
        nonlocal steps
        steps += 1
        return original(self, action)

    counts = {}
    monkeypatch.setattr(Corridor, "step", counted)
    for most in (0, budget):
        steps = 0
        check_env(Corridor, effort=EFFORT, bounds=RewardBounds(budget=most))
        counts[most] = steps
    assert 0 <= counts[budget] - counts[0] <= budget + 3 * 200


def test_the_same_seed_finds_the_same():
    first, second = (check_env(PaysTwice, effort=EFFORT, level="adversarial") for _ in range(2))
    assert first.results[:-1] == second.results[:-1]


def test_levels_are_cut_where_asked():
    contract = checked(PaysForNothing, level="runtime")
    assert contract.ok
    assert [result.rule for result in contract.results] == list(rules("runtime"))
    semantic = checked(PaysForNothing, level="semantic")
    assert semantic.verdicts() == {"runtime": "pass", "semantic": "fail"}
    assert "attack" not in rules("semantic")
    with pytest.raises(EnvError, match="level must be one of 'runtime', 'semantic', 'adversarial', got 'static'"):
        check_env(Quiz, level="static")  # type: ignore[arg-type]


def test_what_a_solved_episode_earns_can_be_given():
    report = checked(HonestPurse, level="semantic", bounds=RewardBounds(best=4.0))
    assert failed(report) == {"oracle"}
    assert "the expert earns 1" in report["oracle"].detail
    assert checked(HonestPurse, level="semantic")["oracle"].values["returns"] == [1.0] * 8


def test_a_share_of_partial_credit_can_be_allowed():
    strict, lenient = (
        checked(PaysForLength, level="semantic", bounds=RewardBounds(cheap=cheap)) for cheap in (0.1, 0.95)
    )
    assert {"junk", "echo"} <= failed(strict)
    assert not failed(lenient)


@pytest.mark.parametrize("wrong", [{"best": 0.0}, {"best": -1.0}, {"cheap": 1.0}, {"cheap": -0.1}, {"budget": -1}])
def test_bounds_that_mean_nothing_are_refused(wrong: dict[str, Any]):
    with pytest.raises(EnvError, match="must be"):
        RewardBounds(**wrong)


def test_an_attacker_that_is_given_is_judged_alike():
    def plays(make: Any, task: str | None, seed: int) -> list[list[object]]:
        return [["look"], ["x" * 400]]

    report = checked(PaysForLength, bounds=RewardBounds(attacker=plays, budget=0))
    assert report["attacker"].outcome == "failed"
    assert report["attack"].outcome == "skipped"
    honest = checked(Quiz, bounds=RewardBounds(attacker=plays, budget=0))
    assert honest["attacker"].outcome == "ok"
    assert honest["attacker"].values["shares"] == [0.0, 0.0, 0.0]


def test_the_report_is_json_and_names_the_checks_of_openenv():
    document = json.loads(json.dumps(checked(IgnoresTheSeed).document()))
    assert document["verdict"] == "fail"
    assert document["levels"]["semantic"] == "fail"
    seeds = next(rule for rule in document["rules"] if rule["rule"] == "seeds")
    assert seeds["openenv"] == ["runtime.seed_control"]
    assert "reset" in seeds["reproduce"]
    idle = next(rule for rule in document["rules"] if rule["rule"] == "idle")
    assert idle["measured"]["n"] == len(idle["measured"]["returns"]) == 8
    assert OPENENV.keys() <= set(rules())


def test_numbered_actions_are_attacked_too():
    report = check_env("FrozenLake-v1", kwargs={"is_slippery": False}, effort=EFFORT, bounds=RewardBounds(budget=4500))
    assert max(report["attack"].values["shares"]) == 1.0
    assert report["idle"].values["share"] == 0.0
    assert report["echo"].outcome == "skipped"


@pytest.mark.parametrize(
    ("mean", "n", "low", "high"),
    [(0.8, 10, 0.4902, 0.9433), (0.5, 10, 0.2366, 0.7634), (0.0, 8, 0.0, 0.3244), (1.0, 8, 0.6756, 1.0)],
)
def test_the_interval_of_wins_is_wilsons(mean: float, n: int, low: float, high: float):
    assert score_interval(mean, n) == pytest.approx((low, high), abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_the_interval_holds_the_mean(scores: list[float]):
    mean = sum(scores) / len(scores)
    low, high = score_interval(min(1.0, mean), len(scores))
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1


def test_candidates_are_names_numbers_and_quotes():
    text = 'Ada Lovelace owes 1,200.50 euros to "the bank", since 1843.'
    assert {"Ada Lovelace", "1,200.50", "the bank", "1843"} <= set(candidates([text, text]))
    assert len(candidates([text, text])) == len(candidates([text]))


@given(st.lists(st.text(max_size=200), max_size=5))
def test_candidates_of_any_text_are_in_it(texts: list[str]):
    assert all(any(name in text for text in texts) for name in candidates(texts))


class Talks(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An honest environment that says the word answer, and other answers, often."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return f"{observation}\nFor example: Answer: Oslo, Bern. The correct answer is never empty.", info


def test_words_about_answers_are_no_leak():
    report = check_env(lambda: Talks(Quiz()), effort=EFFORT, level="semantic")
    assert report["leak"].outcome == "ok", report["leak"].detail
