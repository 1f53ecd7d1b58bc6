"""Evaluation: panels, results on disk, rates with intervals, paired comparison."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EvaluationError, Interrupted
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import Random, Scripted
from turncredit.evaluation.comparison import compare
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult, Rate
from turncredit.evaluation.statistics import mcnemar_exact, wilson

PANEL = Panel("toys/Corridor-v0", tuple(Corridor().task_ids()))


def row(task: str, won: bool, score: float | None = None, stop: str = "terminated") -> EpisodeRow:
    return EpisodeRow(task, "open", won, float(won) if score is None else score, 5, stop, 0, 0)


def result(wins: str, panel: Panel | None = None) -> EvaluationResult:
    """Return a result from letters: w won, l lost, e error."""
    tasks = tuple(f"t{number}" for number in range(len(wins)))
    rows = tuple(
        row(task, letter == "w", stop="error" if letter == "e" else "terminated")
        for task, letter in zip(tasks, wins, strict=True)
    )
    return EvaluationResult(panel or Panel("e", tasks), rows)


def test_a_panel_is_played_in_its_order_and_summed_up() -> None:
    script = {task: ["take key", "go east", "unlock door", "", "fly", "go east"] for task in PANEL.tasks}
    found = evaluate(Agent(max_turns=8), Scripted(script), PANEL, Corridor, name="script")
    assert [entry.task for entry in found.rows] == list(PANEL.tasks)
    summary = found.summary()
    assert (summary.success.k, summary.success.n) == (1, 18)  # open-3-1 alone
    assert (summary.success.low, summary.success.high) == wilson(1, 18)
    assert {kind: rate.n for kind, rate in summary.by_type.items()} == {"open": 9, "fetch": 9}
    assert summary.turns == pytest.approx((6 + 17 * 8) / 18)
    assert summary.turns_won == 6
    assert summary.unparsable == pytest.approx((1 + 17 * 3) / (6 + 17 * 8))
    assert summary.stops == {"terminated": 1, "turns": 17}
    assert found.settings["max_turns"] == 8
    assert "n=18" in str(summary.success)


@pytest.mark.parametrize(("failures", "errors"), [(1, 0), (2, 1)])
def test_an_episode_that_ends_as_an_error_is_played_once_more_with_the_same_seed(failures: int, errors: int) -> None:
    left = failures

    class Flaky(Corridor):
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            nonlocal left
            if self._task == "open-4-1" and left:
                left -= 1
                raise OSError("the line is dead")
            return super().step(action)

    played: list[str] = []
    found = evaluate(Agent(), Expert(), PANEL, Flaky, on_finish=lambda one: played.append(one.id))
    assert [entry.task for entry in found.rows] == list(PANEL.tasks)
    assert found.summary().errors == errors
    assert len(played) == len(PANEL.tasks) + 1
    assert played.count("open-4-1#0@0") == 2
    assert [(entry.task, entry.stop) for entry in found.repeated] == [("open-4-1", "error")]
    assert found.attempts == (*found.rows, *found.repeated)


def test_an_interrupt_of_the_second_attempt_keeps_the_episodes_of_the_first() -> None:
    class Stopped(Corridor):
        failed = False

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            if self._task == "open-4-1":
                if Stopped.failed:
                    raise KeyboardInterrupt
                Stopped.failed = True
                raise OSError("the line is dead")
            return super().step(action)

    with pytest.raises(Interrupted) as interrupted:
        evaluate(Agent(), Expert(), PANEL, Stopped)
    episodes = [trajectory for group in interrupted.value.groups for trajectory in group.trajectories]
    assert sorted(trajectory.task for trajectory in episodes) == sorted(PANEL.tasks)
    assert [trajectory.task for trajectory in episodes if not trajectory.finished] == ["open-4-1"]


def test_only_a_file_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, kind in (("folder", "folder"), ("pipe", "device")):
        for content in (PANEL, result("wl")):
            with pytest.raises(AgentError, match=f"{name} must be a file, and is a {kind}"):
                content.save(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_link_is_followed_and_standard_output_is_a_device(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    PANEL.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert Panel.load(tmp_path / "real.json") == PANEL
    for name in ("/dev/stdout", "/proc/self/fd/1"):
        with pytest.raises(AgentError, match="must be a file, and is a device"):
            PANEL.save(Path(name))


def test_a_result_survives_the_disk(tmp_path: Path) -> None:
    found = evaluate(Agent(), Random(), PANEL, Corridor, name="random")
    found.save(tmp_path / "deep" / "r.json")
    assert EvaluationResult.load(tmp_path / "deep" / "r.json") == found
    paid = dataclasses.replace(found, repeated=(row("open-3-1", False, stop="error"),))
    paid.save(tmp_path / "deep" / "r.json")
    assert EvaluationResult.load(tmp_path / "deep" / "r.json") == paid
    assert paid.summary() == found.summary()
    assert json.loads((tmp_path / "deep" / "r.json").read_text())["summary"]["success"]["n"] == 18
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["r.json"]
    PANEL.save(tmp_path / "p.json")
    assert Panel.load(tmp_path / "p.json") == PANEL


def test_evaluating_twice_gives_the_same_rows() -> None:
    first, second = (evaluate(Agent(), Random(), PANEL, Corridor, concurrency=c) for c in (1, 7))
    assert first.rows == second.rows


def test_failed_episodes_are_in_no_rate_and_are_reported() -> None:
    summary = result("wwle").summary()
    assert (summary.success.k, summary.success.n, summary.errors) == (2, 3, 1)
    empty = result("ee").summary()
    assert empty.success == Rate(None, 0.0, 1.0, 0, 0)
    assert (empty.turns, empty.score, empty.unparsable) == (None, None, None)
    assert str(empty.success) == "no episode (n=0)"


def test_comparison_pairs_the_tasks() -> None:
    found = compare(result("wwllwlle"), result("wlwwwwlw"))
    assert (found.pairs, found.left_out, found.only_first, found.only_second) == (7, 1, 1, 3)
    assert found.p_success == mcnemar_exact(1, 3)
    assert found.score_difference == pytest.approx(2 / 7)
    assert "within the noise" in found.verdict
    assert "+28.6 points on 7 tasks" in found.verdict
    assert "1 tasks left out" in found.verdict
    clear = compare(result("l" * 12), result("w" * 12))
    assert "beyond the noise" in clear.verdict
    assert clear.p_success == clear.p_score == 2 / 2**12


def test_comparison_is_symmetric() -> None:
    a, b = result("wwllwllw"), result("lwwwwwlw")
    there, back = compare(a, b), compare(b, a)
    assert (there.p_success, there.p_score) == (back.p_success, back.p_score)
    assert there.score_difference == -back.score_difference
    same = compare(a, a)
    assert (same.p_success, same.p_score) == (1.0, 1.0)
    assert "same share" in same.verdict


def test_the_order_of_rows_means_nothing() -> None:
    a, b = result("wwllwl"), result("lwwwwl")
    turned = dataclasses.replace(b, rows=b.rows[::-1])
    assert compare(a, b) == compare(a, turned)


def test_different_panels_cannot_be_compared() -> None:
    with pytest.raises(EvaluationError, match=r"2 of 5 tasks are only in the first, 0 of 3 only in the second"):
        compare(result("wwwww"), result("www"))
    other = Panel("other", ("t0", "t1"))
    with pytest.raises(EvaluationError, match="different environments"):
        compare(result("ww"), result("ww", other))
    with pytest.raises(EvaluationError, match="no task of the panel was played by both"):
        compare(result("we"), result("ew"))


def test_expert_against_random_is_beyond_the_noise() -> None:
    random = evaluate(Agent(max_turns=12), Random(), PANEL, Corridor)
    expert = evaluate(Agent(max_turns=30), Expert(), PANEL, Corridor)
    assert expert.summary().success.value == 1.0
    assert "beyond the noise" in compare(random, expert).verdict


def test_a_panel_without_tasks_or_with_doubles_is_refused() -> None:
    with pytest.raises(EvaluationError, match="no tasks"):
        Panel("e", ())
    with pytest.raises(EvaluationError, match="'a' twice"):
        Panel("e", ("a", "b", "a"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not an evaluation result: it is not valid JSON"),
        ('{"version": 1, "rows": [', "not valid JSON"),
        ("[]", "is not an evaluation result"),
        ('{"version": 1}', "'rows' is missing"),
        ('{"version": 9, "rows": []}', "version 1 of the format, got 9"),
        ('{"version": 1, "rows": [{"x": 1}], "panel": {}}', "is not an evaluation result"),
    ],
)
def test_files_that_are_no_results_say_so(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(EvaluationError, match=words):
        EvaluationResult.load(path)


def test_a_write_that_fails_leaves_the_old_result(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    result("w").save(path)
    before = path.read_bytes()
    bad = dataclasses.replace(result("w"), settings={"model": object()})
    with pytest.raises(TypeError):
        bad.save(path)
    assert path.read_bytes() == before
    assert not math.isnan(EvaluationResult.load(path).seconds)
