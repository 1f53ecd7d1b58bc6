"""Readers of stored episodes give a turn the advantage that it was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toys.commands import run_command
from toys.report_runs import episode, turn, write_iteration

from turncredit.report import compare_credit
from turncredit.report.run_report import iterations
from turncredit.report.run_report.settings import settings_of

LONG, SHORT = "open-1#0@5", "open-1#1@5"
CREDIT = '[credit]\nmethod = "dr_grpo"'
TRUNCATED = '[{ name = "truncate", limit = 2, unit = "turns" }]'


def write_run(folder: Path, *lines: str, count: int = 1) -> Path:
    """Write a run of two groups: in one a long episode won, and in the other both won."""
    folder.mkdir()
    (folder / "run.toml").write_text("\n".join(('[env]\nid = "turncredit/Household-v0"', *lines)))
    played = [
        episode("open-1", 0, [turn(0, "wait"), turn(1, "take key", reward=1.0)], True),
        episode("open-1", 1, [turn(0, "wait")], False),
        *(episode("fetch-2", number, [turn(0, "take key", reward=1.0)], True) for number in range(2)),
    ]
    for iteration in range(1, count + 1):
        write_iteration(folder, iteration, played)
    return folder


def told(folder: Path, iteration: int = 1) -> list[dict[str, float]]:
    """The first turn's advantage of each episode, as each reader tells it."""
    rule = settings_of(folder, None)
    assert rule is not None
    name = next(iter(rule.rules))
    file = folder / "trajectories" / f"{iteration:06d}.jsonl.gz"
    page = iterations.turns(iterations.read(file, iteration), rule)
    paged = {
        member["id"]: member["credit"][name]["value"][0]
        for group in page["groups"].values()
        for member in group["members"]
    }
    compared = []
    for task in (None, "open"):
        result = compare_credit(folder, name, task=task, iteration=iteration).results[name]
        rows = zip(result.trajectory.tolist(), result.values.tolist(), strict=True)
        compared.append({trajectory: round(value, 4) for trajectory, value in reversed(list(rows))})
    return [paged, *compared]


def shown(folder: Path, iteration: int, *words: str) -> list[float]:
    """The advantages of first turns that `turncredit show` prints, in its order."""
    lines = run_command("show", folder, "--iteration", iteration, *words).out.splitlines()
    return [float(line.split()[1]) for line in lines if line.split()[:1] == ["1"]]


def test_a_rule_that_compares_groups_sees_all_of_them(tmp_path: Path) -> None:
    """The spread of 1, 0, 1, 1 is 1/2; that of 1, 0 alone would be 0.7071."""
    folder = write_run(tmp_path / "run", '[credit]\nmethod = "lite_ppo"\noptions = { eps = 0.0 }')
    for advantages in told(folder):
        assert (advantages[LONG], advantages[SHORT]) == (1.0, -1.0)
    assert shown(folder, 1)[:2] == shown(folder, 1, "--task", "open") == [1.0, -1.0]


def test_reward_rules_of_the_run_are_applied(tmp_path: Path) -> None:
    """Two turns reach the limit, so the long episode earned nothing, as the short one did."""
    folder = write_run(tmp_path / "run", CREDIT, f"[sampling]\nrewards = {TRUNCATED}")
    for advantages in told(folder):
        assert (advantages[LONG], advantages[SHORT]) == (0.0, 0.0)
    assert shown(folder, 1)[:2] == [0.0, 0.0]
    assert "rewards changed by truncate" in run_command("show", folder).out


def test_rewards_that_a_model_gave_are_not_computed_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", CREDIT, '[sampling]\nrewards = ["rlmt"]')
    settings = settings_of(folder, None)
    file = folder / "trajectories" / "000001.jsonl.gz"
    (note,) = iterations.turns(iterations.read(file, 1), settings)["notes"]
    assert note.startswith("advantages are those of the environment's rewards: rlmt needs the column 'judge'")
    assert shown(folder, 1)[:2] == [0.5, -0.5]


@pytest.mark.parametrize(("iteration", "advantage"), [(1, 0.5), (2, 0.0)])
def test_each_iteration_has_the_settings_of_its_stage(tmp_path: Path, iteration: int, advantage: float) -> None:
    second = f'[[stages]]\nset = {{ "sampling.rewards" = {TRUNCATED} }}'
    folder = write_run(tmp_path / "run", CREDIT, "[[stages]]\nuntil = { iteration = 1 }", second, count=2)
    stages = "".join(json.dumps({"phase": "train", "iteration": n, "stage": n - 1}) + "\n" for n in (1, 2))
    (folder / "metrics.jsonl").write_text(stages)
    for advantages in told(folder, iteration):
        assert (advantages[LONG], advantages[SHORT]) == (advantage, -advantage)
    assert shown(folder, iteration)[:2] == [advantage, -advantage]
