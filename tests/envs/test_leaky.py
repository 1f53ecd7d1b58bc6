"""The check finds answers at places where nobody looks, and promises that break only after much play."""

from __future__ import annotations

import functools

import pytest
from toys.leaky import LEAKY, Safe

from turncredit.envs import check_env
from turncredit.envs.check import CheckReport, Effort

EFFORT = Effort(walks=4, turns=24, pairs=8, states=6, depth=8, continuations=4, search=100, floor=8, attack=0)
BY_NAME = pytest.mark.parametrize("broken", LEAKY, ids=lambda value: value.__name__)


@functools.cache
def checked(env: type) -> CheckReport:
    return check_env(env, effort=EFFORT, level="semantic")


def accused(report: CheckReport) -> dict[str, str]:
    return {result.rule: result.outcome for result in report.results if result.outcome in ("failed", "warned")}


@BY_NAME
def test_the_fault_is_noticed_by_its_rule_alone(broken: type) -> None:
    rule, outcome, _ = LEAKY[broken]
    assert accused(checked(broken)).get(rule) == outcome, str(checked(broken))
    assert "failed" not in {outcome for name, outcome in accused(checked(broken)).items() if name != rule}


@BY_NAME
def test_the_honest_twin_is_not_accused(broken: type) -> None:
    _, _, twin = LEAKY[broken]
    assert not accused(checked(twin)), str(checked(twin))


@BY_NAME
def test_the_script_shows_the_fault_and_is_silent_for_the_twin(broken: type) -> None:
    rule, outcome, twin = LEAKY[broken]
    if outcome == "warned":
        return
    code = checked(broken)[rule].reproduce
    with pytest.raises((AssertionError, AttributeError)):
        exec(compile(code, "<reproduce>", "exec"), {})
    silent = code.replace(broken.__name__, twin.__name__)
    if rule != "plan" and "-v0" not in code:  # the ids of these twins, and the plan itself, are other ones
        exec(compile(silent, "<reproduce>", "exec"), {})


def test_faults_are_found_in_slow_environments_too() -> None:
    for broken, (rule, outcome, twin) in LEAKY.items():
        if rule == "copy":
            light = Effort.light()
            assert accused(check_env(broken, effort=light, level="semantic")).get(rule) == outcome, broken
            assert not accused(check_env(twin, effort=light, level="semantic")), twin
    assert not accused(checked(Safe))
