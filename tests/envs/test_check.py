"""The check finds each thing that is broken on purpose, and nothing in what is sound."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import pytest
from toys.broken import BROKEN, CountsTurns, KeyIsAnswer
from toys.corridor import ID, Corridor

from turncredit.cli.check import play_expert
from turncredit.envs import (
    EnvError,
    NoExpert,
    NotReset,
    StepAfterEnd,
    Text,
    TurnLimit,
    UnknownEnv,
    UnknownOption,
    check_env,
)
from turncredit.envs.check import CheckReport, Effort, rules

SMALL = Effort(walks=4, turns=24, pairs=8, states=6, depth=8, continuations=4, search=100, floor=4, attack=200)


def outcomes(report: CheckReport, outcome: str) -> set[str]:
    return {result.rule for result in report.results if result.outcome == outcome}


@functools.cache
def checked(broken: type[Corridor]) -> CheckReport:
    return check_env(broken, tasks=2, effort=SMALL, play_expert=play_expert)


def run(code: str) -> None:
    exec(compile(code, "<reproduce>", "exec"), {})


def test_a_sound_environment_keeps_every_rule():
    report = check_env(ID, effort=SMALL, play_expert=play_expert)
    assert outcomes(report, "skipped") == {"copy", "splits", "twice", "attacker"}, str(report)
    assert outcomes(report, "ok") | outcomes(report, "skipped") == set(rules())
    assert report.verdicts() == {"runtime": "pass", "semantic": "pass", "adversarial": "pass"}


def test_a_seed_that_matters_is_no_fault():
    assert check_env(Corridor, kwargs={"random_start": True}, seed=3, effort=SMALL).ok


@pytest.mark.parametrize(("broken", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_each_fault_fails_its_rule_alone(broken: type[Corridor], rule: str):
    report = checked(broken)
    assert outcomes(report, "failed") == {rule}, str(report)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda value: value.__name__)
def test_the_script_shows_the_fault_and_is_silent_without_it(broken: type[Corridor]):
    result = checked(broken)[BROKEN[broken]]
    with pytest.raises((AssertionError, RuntimeError, EnvError)):
        run(result.reproduce)
    run(result.reproduce.replace("toys.broken", "toys.corridor").replace(broken.__name__, "Corridor"))


def test_every_rule_has_an_environment_that_breaks_it():
    rare = {"speed", "limit", "forks", "deterministic", "render"}  # toys.leaky has one for the last
    assert set(rules("runtime")) - set(BROKEN.values()) == rare


class Speaking(Corridor):
    """A corridor in which anything may be said anywhere; what could be said is listed in the first room only."""

    forms: tuple[str, ...] = ("say[...]",)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not action.startswith("say["):
            return super().step(action)
        observation, reward, over, cut, info = super().step("look")
        return observation, reward, over, cut, info | {"valid": True}

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        example = ["say[hello]"] if self._room == 1 and not info["won"] else []
        return info | {
            "admissible_actions": [*info["admissible_actions"], *example],
            "free_actions": list(self.forms),
        }


class Mumbling(Speaking):
    """The same, without a word about what may be said."""

    forms = ()


def test_actions_of_free_text_need_not_be_listed():
    assert check_env(Speaking, tasks=2, effort=SMALL).ok
    assert outcomes(check_env(Mumbling, tasks=2, effort=SMALL), "failed") == {"admissible"}


class Knows(CountsTurns):
    """Keys that say more than the world, declared as knowledge of the agent."""

    metadata: ClassVar[dict[str, Any]] = CountsTurns.metadata | {"knowledge_in_state": True}


def test_keys_with_knowledge_may_differ_where_the_world_does_not():
    report = check_env(Knows, tasks=2, effort=SMALL, play_expert=play_expert)
    assert report.ok
    assert outcomes(report, "skipped") == {
        "limit",
        "snapshot",
        "state-different",
        "copy",
        "splits",
        "twice",
        "attacker",
    }


def test_keys_with_undeclared_knowledge_are_told_how_to_declare_it():
    report = check_env(CountsTurns, tasks=2, effort=SMALL)
    assert "metadata['knowledge_in_state'] = True" in report["state-different"].detail


def test_the_page_about_state_keys_and_the_check_agree(tmp_path, monkeypatch):
    """The page's environment keeps the contract as printed, and the message leads to its key where that is missing."""
    page = (Path(__file__).parents[2] / "docs/environments.md").read_text(encoding="utf-8")
    code = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class SupportDesk" in block)
    for name, text in (("as_printed", code), ("without", code.replace(', "knowledge_in_state": True', ""))):
        (tmp_path / f"desk_{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import desk_as_printed  # type: ignore[import-not-found]
    import desk_without  # type: ignore[import-not-found]

    assert check_env(desk_as_printed.SupportDesk, tasks=2, effort=SMALL).ok
    report = check_env(desk_without.SupportDesk, tasks=2, effort=SMALL)
    assert outcomes(report, "failed") == {"state-different"}
    assert "knowledge_in_state" in report["state-different"].detail


class Booklet(gymnasium.Env[str, str]):
    """Two pages that can be turned to from each other; a refused action shows the page again, or nothing."""

    shows_again = True

    def __init__(self) -> None:
        self.observation_space = self.action_space = Text()
        self.page: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.page = "first"
        return "The first page.", self.info(valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.page is None:
            raise NotReset
        if self.page == "closed":
            raise StepAfterEnd
        valid = action in ("turn to first", "turn to second", "close")
        if valid:
            self.page = "closed" if action == "close" else action.rpartition(" ")[2]
        closed = self.page == "closed"
        shown = f"The {self.page} page." if valid or self.shows_again else "No."
        return shown, float(closed), closed, False, self.info(valid=valid)

    def info(self, *, valid: bool) -> dict[str, Any]:
        closed = self.page == "closed"
        actions = [] if closed else ["turn to first", "turn to second", "close"]
        told = {"task": "read", "state": self.page, "admissible_actions": actions}
        return told | {"valid": valid, "score": float(closed), "won": closed}


class Curt(Booklet):
    """The same booklet, in which a refusal shows nothing: which page lies open makes no difference."""

    shows_again = False


def test_what_a_refusal_shows_again_is_part_of_the_state():
    assert check_env(Booklet, effort=SMALL).ok
    assert outcomes(check_env(Curt, effort=SMALL), "failed") == {"state-different"}


def test_speed_fails_only_beyond_the_given_limit():
    assert check_env(ID, effort=SMALL)["speed"].outcome == "ok"
    report = check_env(ID, effort=SMALL, slowest=1e-12)
    assert outcomes(report, "failed") == {"speed"}
    with pytest.raises(AssertionError):
        run(report["speed"].reproduce)


def test_gymnasiums_own_turn_limit_breaks_two_rules():
    """Without EndGuard, a limit answers later steps, and makes a win on the last turn a truncation as well."""
    name = "toys/PlainCorridor-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, "toys.corridor:Corridor", max_episode_steps=30, disable_env_checker=True)
    report = check_env(name, effort=SMALL)
    assert outcomes(report, "failed") == {"after-end", "limit"}
    for rule in ("after-end", "limit"):
        with pytest.raises(AssertionError):
            run(report[rule].reproduce)


HIDDEN = ("task_ids", "plan", "snapshot", "restore")


class Bare(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A stranger's environment: no task_ids, no plan, no snapshot, no admissible actions, no state."""

    def __init__(self) -> None:
        super().__init__(Corridor(lengths=(3,), kinds=("open",)))

    def get_wrapper_attr(self, name: str) -> Any:
        if name in HIDDEN:
            raise AttributeError(name)
        return super().get_wrapper_attr(name)

    def has_wrapper_attr(self, name: str) -> bool:
        return name not in HIDDEN and super().has_wrapper_attr(name)

    @staticmethod
    def strip(info: dict[str, Any]) -> dict[str, Any]:
        return {key: info[key] for key in info if key not in ("admissible_actions", "state", "task_type")}

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        return observation, self.strip(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self.strip(info)


def test_what_a_stranger_does_not_offer_is_skipped_with_the_reason():
    report = check_env(Bare, actions=["go east", "take key", "unlock door"], effort=SMALL)
    assert report.ok, str(report)
    missing = {"tasks": "task_ids", "unknown-task": "task_ids", "plan": "plan", "admissible": "admissible_actions"}
    missing |= {
        "limit": "turn limit",
        "state-task": "state",
        "state-equal": "state",
        "state-different": "state",
        "snapshot": "snapshot",
        "expert": "plan",
        "splits": "split",
        "twice": "no reward",
        "attacker": "attacker",
    }
    assert outcomes(report, "warned") <= {"oracle", "seeds", "random", "ends"}
    assert outcomes(report, "skipped") == set(missing)
    for rule, word in missing.items():
        assert word in report[rule].detail


def test_actions_need_not_be_texts():
    report = check_env("FrozenLake-v1", kwargs={"is_slippery": False}, effort=SMALL)
    assert outcomes(report, "failed") == {"info", "after-end"}
    assert report["refused"].outcome == "skipped"
    with pytest.raises(AssertionError):
        run(report["after-end"].reproduce)


def test_an_instance_that_cannot_be_made_is_a_failure_with_its_reason():
    def make() -> gymnasium.Env[Any, Any]:
        raise RuntimeError("no display")

    report = check_env(make)
    assert not report.ok
    assert "no display" in str(report)


def test_wrong_names_are_the_callers_fault():
    with pytest.raises(UnknownEnv, match="did you mean 'toys/Corridor-v0'"):
        check_env("toys/Coridor-v0")
    with pytest.raises(UnknownOption, match=r"did you mean 'lengths'\?"):
        check_env(ID, kwargs={"length": (3,)})


class Slow(Corridor):
    """Takes its time, by a clock that stands still but for its steps."""

    now = 0.0
    pause = 0.0

    def step(self, action: str) -> Any:
        Slow.now += Slow.pause
        return super().step(action)


@pytest.mark.parametrize(("pause", "effort"), [(0.0, Effort()), (1.0, Effort.light())])
def test_how_much_is_tried_is_what_the_steps_allow(monkeypatch: pytest.MonkeyPatch, pause: float, effort: Effort):
    monkeypatch.setattr(Slow, "pause", pause)
    monkeypatch.setattr("turncredit.envs.checks.explorer.time.perf_counter", lambda: Slow.now)
    asked = check_env(Slow, tasks=2, effort=effort)
    found = check_env(Slow, tasks=2)
    assert found == asked
    assert found.ok


@pytest.mark.parametrize("seconds", [5.0, 60.0, 300.0, 2000.0])
def test_a_check_keeps_to_its_seconds_and_says_what_it_did_not_judge(monkeypatch: pytest.MonkeyPatch, seconds: float):
    monkeypatch.setattr(Slow, "pause", 1.0)
    monkeypatch.setattr(Slow, "now", 0.0)
    monkeypatch.setattr("turncredit.envs.checks.rule_clock.time.monotonic", lambda: Slow.now)
    ends: list[float] = []
    report = check_env(Slow, effort=SMALL, seconds=seconds, on_result=lambda result: ends.append(Slow.now))
    assert report.ok, report  # want of time is no fault of the environment
    assert [result.rule for result in report.results] == list(rules())
    # What has begun is finished: a comparison with a copy of the environment plays one episode without asking.
    assert ends[-1] <= seconds + 60
    assert report.cut_short == [result.rule for result in report.results if result.cut_short] != []
    assert report.document()["cut_short"] == report.cut_short
    assert f"in {seconds:g} s: {', '.join(report.cut_short)}" in str(report)
    for result in report.results:
        cause = re.match(r"not tested, since '([\w-]+)'", result.detail)
        late = result.detail.startswith("not judged: its share") or (cause is not None and result.cut_short)
        assert late == (result.outcome == "skipped" and result.cut_short), result
        assert late or result.cut_short == ("(for want of time: " in result.detail), result


def test_seconds_that_suffice_change_nothing():
    limited, free = check_env(Corridor, effort=SMALL, seconds=3600), check_env(Corridor, effort=SMALL)
    assert [(r.rule, r.outcome, r.detail) for r in limited.results[:-1]] == [
        (r.rule, r.outcome, r.detail) for r in free.results[:-1]
    ]
    assert limited.cut_short == []
    with pytest.raises(EnvError, match="above 0, got 0"):
        check_env(Corridor, seconds=0)


def test_a_search_that_runs_out_of_time_is_judged_by_what_it_reached(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Slow, "pause", 1.0)
    monkeypatch.setattr(Slow, "now", 0.0)
    monkeypatch.setattr("turncredit.envs.checks.rule_clock.time.monotonic", lambda: Slow.now)
    effort = replace(SMALL, attack=3000)
    report = check_env(Slow, effort=effort, seconds=9000)
    assert report["attack"].cut_short
    assert report["attack"].outcome == "ok"
    assert re.search(r"at best .* \(for want of time: [\d,]+ of 3,000 steps\)$", report["attack"].detail)


def test_results_are_told_as_they_come():
    told: list[str] = []
    report = check_env(ID, effort=SMALL, on_result=lambda result: told.append(result.rule))
    assert told == [result.rule for result in report.results] == list(rules())


def test_given_tasks_are_the_ones_that_are_played():
    report = check_env(ID, tasks=["open-3-1"], effort=SMALL)
    assert report.ok
    assert "1 tasks" in report["protocol"].detail


class NoPlan(Corridor):
    """A corridor without an expert."""

    @property
    def plan(self) -> Any:
        raise AttributeError("plan")


class Trap(Corridor):
    """After "look" in the second room the door is stuck for good, and the expert says so."""

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        self._stuck = False
        return super().reset(**kwargs)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        answer = super().step("look" if self._stuck and action == "unlock door" else action)
        self._stuck |= action == "look" and self._room == 2 and not self._open
        return *answer[:4], answer[4] | {"state": f"{answer[4]['state']} stuck={self._stuck}"}

    def plan(self) -> list[str]:
        if self._stuck:
            raise EnvError("the door is stuck")
        return super().plan()


def test_an_expert_may_say_that_nothing_helps_any_more():
    report = check_env(Trap, tasks=["open-4-1"], effort=SMALL)
    assert report["plan"].outcome == "ok", str(report)
    assert "success cannot be reached" in report["plan"].detail


class Silent(Corridor):
    """Nobody can plan for corridors of three rooms."""

    def plan(self) -> list[str]:
        if self._length == 3:
            raise NoExpert("nobody has been there")
        return super().plan()


def test_an_environment_may_have_an_expert_for_some_of_its_tasks():
    report = check_env(Silent, tasks=["open-3-1", "open-4-1"], effort=SMALL)
    assert report["plan"].outcome == "ok", str(report)
    report = check_env(Silent, tasks=["open-3-1"], effort=SMALL)
    assert report["plan"].outcome == "skipped", str(report)
    assert "nobody can plan for them" in report["plan"].detail


def test_a_plan_may_come_too_late_for_a_turn_limit_inside_the_environment():
    """As that of a part of a mixture, which the check cannot lift; from the start there must be enough turns."""
    report = check_env(lambda: TurnLimit(Corridor(lengths=(3,)), 7), effort=SMALL)
    assert report["plan"].outcome == "ok"
    assert "times the turn limit came first" in report["plan"].detail
    assert check_env(lambda: TurnLimit(Corridor(lengths=(3,)), 2), effort=SMALL)["plan"].outcome == "failed"


def test_a_difference_that_no_probe_meets_is_searched_for():
    shallow = Effort(walks=4, turns=30, pairs=30, states=4, depth=0, continuations=0, search=300, attack=0)
    report = check_env(NoPlan, kwargs={"lengths": (4,)}, tasks=2, effort=shallow)
    assert report.ok, str(report)
    assert "by search" in report["state-different"].detail


def test_a_search_that_ends_is_a_proof_and_says_so():
    by_answer, by_turn = (checked(broken)["state-different"].detail for broken in (KeyIsAnswer, CountsTurns))
    assert "cannot be told apart: all" in by_answer
    assert "separated only by an invalid action" in by_answer
    assert "were not told apart by" in by_turn


def test_the_same_check_gives_the_same_report():
    first, second = (check_env(BROKEN_KEY, tasks=1, effort=SMALL) for _ in range(2))
    assert first.results[:-1] == second.results[:-1]


BROKEN_KEY = next(broken for broken, rule in BROKEN.items() if rule == "state-equal")


def test_the_report_names_every_rule_and_ends_with_the_scripts():
    text = str(checked(BROKEN_KEY))
    assert all(rule in text for rule in rules())
    assert text.index("To see 'state-equal' fail:") > text.index("speed")
    assert f"from toys.broken import {BROKEN_KEY.__name__}" in text
