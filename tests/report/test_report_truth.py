"""The truth in a report: one more rule with its errors, a scatter plot, and the forest of a group."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Group, grouped
from turncredit.engines.scripted import Random
from turncredit.report.credit_settings import credit_settings
from turncredit.report.run_report import iterations
from turncredit.report.truth_scores import return_options, score_rules
from turncredit.report.truth_verdict import truth_verdict
from turncredit.training.truth.fork_records import ForkFile, truth_file
from turncredit.training.truth.forking import ForkPlayer
from turncredit.training.truth.measuring import TruthOptions, TruthTable, measure

AGENT = Agent(max_turns=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trajectories of a group with forks and forks of forks, and their truth."""
    path = tmp_path_factory.mktemp("run")
    (path / "trajectories").mkdir()
    file = path / "trajectories" / "000001.jsonl"
    roots = list(rollout(AGENT, Wanderer(0.7), ["open-3-1"], make=Corridor, size=3, seed=4)[0].trajectories)
    forks = list(rollout(AGENT, Wanderer(0.7), [Fork(roots[1], 1)], make=Corridor, size=2)[0].trajectories)
    forks += rollout(AGENT, Wanderer(0.7), [Fork(forks[0], 2)], make=Corridor, size=1)[0].trajectories
    with TrajectoryWriter(file) as writer:
        for trajectory in (*forks, *roots):
            writer.write(trajectory)
    groups = grouped([*forks, *roots])
    table = TruthTable.of(groups, ForkFile.open(truth_file(file), {"player": "random", "chance": False}), chance=False)
    measure(table, ForkPlayer(AGENT, Random(), Corridor), TruthOptions(forks=6))
    return path


def content(folder: Path) -> Any:
    file = folder / "trajectories" / "000001.jsonl"
    return iterations.turns(iterations.read(file, 1), credit_settings(file, "grpo,gigpo"))


def test_the_truth_is_one_more_rule(folder: Path) -> None:
    turns = content(folder)
    assert turns["rules"] == ["grpo", "gigpo", "truth"]
    assert turns["notes"] == []
    for member in turns["groups"]["0"]["members"]:
        truth = member["credit"]["truth"]
        assert len(truth["value"]) == len(member["answer"])
        assert set(truth["parts"]) == {"V", "standard error"}
        assert all(error >= 0 for error in truth["parts"]["standard error"])


def test_the_values_are_those_that_are_scored(folder: Path) -> None:
    file = folder / "trajectories" / "000001.jsonl"
    settings = credit_settings(file, "grpo,gigpo")
    groups = iterations.read(file, 1).groups
    table = TruthTable.of(groups, ForkFile.read(truth_file(file)), chance=False)
    scores = score_rules(table, settings, gamma=0.95, invalid_penalty=0.1)
    advantages = {(row["trajectory"], row["turn"]): row["advantage"] for row in scores.as_dict()["truth"]}  # type: ignore[attr-defined]
    for member in content(folder)["groups"]["0"]["members"]:
        for turn, value in enumerate(member["credit"]["truth"]["value"]):
            assert value == pytest.approx(advantages[member["id"], turn], abs=1e-3)
    json.dumps(scores.as_dict(), allow_nan=False)


def test_forks_name_their_parents(folder: Path) -> None:
    members = content(folder)["groups"]["0"]["members"]
    ids = [member["id"] for member in members]
    assert ids == [
        "open-3-1#0@4",
        "open-3-1#1@4",
        "open-3-1#1/1.0@4",
        "open-3-1#1/1.0/2.0@4",
        "open-3-1#1/1.1@4",
        "open-3-1#2@4",
    ]
    assert [member.get("fork") for member in members] == [None, None, [1, 1], [2, 2], [1, 1], None]


def test_a_fork_whose_parent_is_elsewhere(folder: Path) -> None:
    (group,) = iterations.read(folder / "trajectories" / "000001.jsonl", 1).groups
    alone = [trajectory for trajectory in group.trajectories if trajectory.fork_of]
    turns = iterations.turns(iterations.Iteration(1, [Group(group.task, tuple(alone))]), None)
    assert [member["fork"][0] for member in turns["groups"]["0"]["members"]] == [-1, 0, -1]


def test_a_damaged_file_of_forks_leaves_a_note(folder: Path, tmp_path: Path) -> None:
    source = folder / "trajectories" / "000001.jsonl"
    (tmp_path / source.name).write_bytes(source.read_bytes())
    truth_file(tmp_path / source.name).write_text("{}\n", encoding="utf-8")
    turns = iterations.turns(iterations.read(tmp_path / source.name, 1), credit_settings(source, "grpo"))
    assert turns["rules"] == ["grpo"]
    assert turns["notes"][0].startswith("the truth is left out")


def test_the_page_shows_forest_and_scatter(folder: Path, turncredit: Any, tab: Any, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = turncredit("report", folder, "--output", page, "--credit", "grpo,gigpo")
    assert said.code == 0, said.err
    tab.goto(f"{page.as_uri()}#/group/1/0")
    tab.wait_for_selector(".forest")
    depths = tab.eval_on_selector_all(".strip", "rows => rows.map(row => row.style.getPropertyValue('--depth'))")
    assert depths == ["0", "0", "1", "2", "1", "0"]
    assert tab.locator(".turn.taken").count() - 1 == 1 + 2 + 1  # and one in the legend
    assert "against the truth" in tab.inner_text("#view")
    dots = tab.locator(".plot circle").count()
    assert dots == tab.locator(".strip .turn").count()
    cells = tab.locator(".strip .turn").count()
    assert tab.locator(".strip .turn .true").count() == cells  # the truth below the rule
    tab.select_option(".choice select", "truth")
    assert tab.locator(".strip .turn .true").count() == 0
    assert tab.locator(".strip .turn.plus").count() + tab.locator(".strip .turn.minus").count() > 0


def test_the_page_of_the_truth_has_the_rows_the_verdict_and_a_key(
    folder: Path, turncredit: Any, tab: Any, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    said = turncredit("report", folder, "--output", page, "--credit", "gigpo,grpo,dr_grpo,trloo")
    assert said.code == 0, said.err
    file = folder / "trajectories" / "000001.jsonl"
    settings = credit_settings(file, "gigpo,grpo,dr_grpo,trloo")
    table = TruthTable.of(iterations.read(file, 1).groups, ForkFile.read(truth_file(file)), chance=False)
    gamma, penalty = return_options(settings, list(settings.rules))
    scores = score_rules(table, settings, gamma=gamma, invalid_penalty=penalty)
    tab.goto(f"{page.as_uri()}#/truth")
    tab.wait_for_selector("table")
    assert tab.inner_text(".verdict") == truth_verdict(scores).replace("`", "")
    first = tab.locator("table").first
    rules = first.locator("tbody tr td:first-child").all_inner_texts()
    assert rules == [rule.name for rule in scores.rows]
    assert rules[0] == "grpo"
    for name, names in scores.same.items():
        assert f"The same as {name} here, but for a positive factor: {', '.join(names)}." in tab.inner_text("#view")
    key = tab.locator("p.columns").first.inner_text()
    for head in first.locator("th").all_inner_texts():
        assert f"{head}: " in key, head


def test_only_what_was_won_is_plain_blue_and_no_table_is_cut_on_a_phone(
    folder: Path, turncredit: Any, tab: Any, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert turncredit("report", folder, "--output", page, "--credit", "grpo,gigpo").code == 0
    tab.set_viewport_size({"width": 390, "height": 900})
    tab.goto(f"{page.as_uri()}#/group/1/0")
    tab.wait_for_selector(".strip")
    seen = 0
    for strip in tab.locator(".strip").all():
        above, less = strip.locator(".turn.plus").count(), strip.locator(".turn.plus.less").count()
        assert less == (0 if strip.locator(".who.won").count() else above)
        seen += above
    assert seen
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    for box in tab.locator(".scroll.stacked").all():
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    legend = tab.inner_text(".plot .names")
    counts = [int(number) for number in re.findall(r": (\d+) turn", legend)]
    assert len(counts) == 3
    assert sum(counts) == tab.locator(".plot circle").count()


def test_the_best_rule_comes_first_and_those_without_a_rank_last(folder: Path) -> None:
    file = folder / "trajectories" / "000001.jsonl"
    names = ("grpo", "gigpo", "passk", "rtmc", "psr_nsr", "trloo")
    groups = iterations.read(file, 1).groups
    table = TruthTable.of(groups, ForkFile.read(truth_file(file)), chance=False)
    scores = score_rules(table, credit_settings(file, names), gamma=0.95, invalid_penalty=0.1)
    ranks = [rule.scores["rank"].value for rule in scores.rules]
    known = [rank for rank in ranks if rank is not None]
    assert ranks == sorted(known, reverse=True) + [None] * (len(ranks) - len(known))
    assert {rule.name for rule in scores.rules} | set(scores.left_out) == set(names)
