"""What is shown of a run while it goes: lines without a terminal, a table and a curve in one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from turncredit.cli import progress as progress_module
from turncredit.cli.progress import SHOWN, Progress, curves_of, line, numbers, start_line

TRAIN = {
    "phase": "train",
    "iteration": 3,
    "success": 0.4375,
    "reward": 0.4375,
    "turns": 14.25,
    "unparsable": 0.0,
    "inadmissible": 0.031,
    "loops": 0.1,
    "entropy": 0.4123,
    "clip_fraction": 0.02,
    "step_signal": 0.625,
    "rollout_tokens_per_second": 12_345.0,
    "update_tokens_per_second": 9_000.0,
    "loss": -0.01,
    "errors": 0,
    "seconds_left": 185.0,
}
PANEL = {"phase": "evaluation", "iteration": 2, "success": 0.5, "low": 0.25, "high": 0.75, "n": 12, "turns": 9.0}


def console(terminal: bool) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=120, markup=False, highlight=False), stream


def test_a_line_has_every_number_that_a_run_is_judged_by() -> None:
    text = line(TRAIN, 10)
    assert text.startswith("3/10 ")
    for part in (
        "success 43.8 %",
        "reward 0.438",
        "turns 14.2",
        "unparsable 0.0 %",
        "inadmissible 3.1 %",
        "loops 10.0 %",
        "entropy 0.412",
        "clipped 2.0 %",
        "step signal 62.5 %",
        "rollout tok/s 12.3k",
        "training tok/s 9000",
        "left 3 min 05 s",
    ):
        assert part in text
    assert "errors" not in text


def test_a_line_says_how_groups_grew_and_what_the_run_remembers() -> None:
    drawn = {"rounds": 1.5, "groups_dropped": 2.0, "stored": 64.0, "replayed": 12.0, "replay_age": 2.25}
    text = line(TRAIN | drawn | {"lessons": 3.0, "questions": 0, "questions_failed": 0}, 10)
    for part in ("rounds 1.50", "groups dropped 2", "stored episodes 64", "replayed 12", "their age 2.2", "lessons 3"):
        assert part in text
    assert "questions" not in text
    assert "questions 5  without an answer 1" in line(TRAIN | {"questions": 5, "questions_failed": 1}, 10)


def test_errors_are_shown_when_there_are_some() -> None:
    assert "errors 2" in line({**TRAIN, "errors": 2}, 10)
    assert "outgrew the context 3" in line({**TRAIN, "outgrown": 3}, 10)
    assert "non-finite updates 1" in line({**TRAIN, "skipped": 1}, 10)
    assert "outgrew" not in line({**TRAIN, "outgrown": 0}, 10)


def test_numbers_that_are_missing_or_none_are_left_out() -> None:
    assert numbers({"success": None, "reward": 1.0}) == [("reward", "1.000")]
    assert line({"phase": "train", "iteration": 1}, 10) == ""


def test_an_evaluation_has_its_interval_and_its_n() -> None:
    assert "success 50.0 %  [25.0 %, 75.0 %] n=12" in line(PANEL, 10)


def test_the_events_of_a_real_run_have_the_keys_that_are_shown() -> None:
    import numpy as np

    from turncredit.agents.trajectory import Group
    from turncredit.credit import Advantages, Steps
    from turncredit.training.run_folder.metrics import credit_metrics, group_metrics, play_metrics
    from turncredit.training.sampling.group_draws import DrawnGroup
    from turncredit.training.sampling.grown_groups import PlayedGroup
    from turncredit.training.sampling.sampling_metrics import growth_metrics

    nothing = Advantages.of(Steps.empty(), np.zeros(0))
    known = {*play_metrics([]), *credit_metrics(nothing), *group_metrics(Steps.empty(), nothing)}
    known |= {"entropy", "clip_fraction", "loss", "skipped", "rollout_tokens_per_second", "update_tokens_per_second"}
    known |= {"prompt_tokens_per_second", *(f"{place}_memory" for place in ("process", "device"))}
    known |= {"mfu", "load_seconds"}  # tested with the learner and the engine
    known |= {*growth_metrics([PlayedGroup(DrawnGroup(0, "t", 1, 0), Group("t", ()))])}
    known |= {"stored", "replayed", "replay_age", "lessons", "questions", "questions_failed"}  # tested in runs
    known |= {"age", "stale", "learner_idle", "engine_idle"}  # of asynchronous rollouts, tested there
    assert {key for key, _, _ in SHOWN} <= known


def test_without_a_terminal_lines_come_at_regular_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    target, stream = console(terminal=False)
    with Progress("run", 15, console=target) as progress:
        for iteration in range(1, 16):
            for done in (1, 2):
                now += 1.0
                progress({"phase": "tick", "what": "rollout", "done": done, "total": 6})
            progress({**TRAIN, "iteration": iteration})
            if iteration == 5:
                progress(PANEL)
                progress({"phase": "warning", "text": "all groups have equal rewards"})
    lines = stream.getvalue().splitlines()
    shown = [text.split()[0] for text in lines]
    assert shown == ["1/15", "evaluation", "warning:", "rollout", "rollout", "15/15"]
    assert "all groups have equal rewards" in lines[2]
    assert "rollout 2/6  left 4 s" in lines[3]
    assert len(progress.history) == 17
    assert "zero-variance groups 25.0 %" in line({**TRAIN, "no_variance_groups": 0.25}, 10)


@pytest.mark.parametrize(("before", "left"), [(0, "left 3 min 20 s"), (900, "left 1 min 40 s")])
def test_the_time_that_is_left_follows_from_what_this_process_has_done(
    monkeypatch: pytest.MonkeyPatch, before: int, left: str
) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now))
    target, stream = console(terminal=False)
    with Progress("run", 1, console=target) as progress:
        total = before + 1100 if before == 0 else 1500
        for done in range(before, before + 101, 50):
            progress({"phase": "tick", "what": "imitation", "done": done, "total": total})
            now += 10.0
    assert left in stream.getvalue().splitlines()[-1]


def test_the_first_line_says_where_what_and_how_long(tmp_path: Path) -> None:
    from turncredit.training.config.run import Run

    table = {"name": "x", "output": str(tmp_path), "train": {"iterations": 7}, "imitation": {"episodes": 5}}
    run = Run.parse({**table, "policy": {"device": "auto", "new": {"hidden": 64}}})
    text = start_line(run, resume=False)
    for part in (
        str(tmp_path),
        "device auto",
        "4 layers x 64",
        "5 demonstrations",
        "7 iterations of 8 tasks x 8",
        "100",
    ):
        assert part in text
    assert "time estimated after the first iteration" in text
    past = [{"phase": "train", "iteration": step, "seconds": 14 + step, "seconds_left": 9000} for step in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in past))
    assert "about 1 min 04 s left" in start_line(run, resume=True)  # four of seven, whatever was planned before


def test_in_a_terminal_there_is_a_table_a_curve_and_what_is_being_done() -> None:
    target, stream = console(terminal=True)
    with Progress("corridor", 10, console=target) as progress:
        for iteration in (1, 2, 3):
            progress({**TRAIN, "iteration": iteration, "success": iteration / 4})
        progress(PANEL)
        progress({"phase": "tick", "what": "rollout", "done": 4, "total": 9})
        target.print(progress.render())
    text = stream.getvalue()
    for part in ("corridor", "3/10", "step signal", "success while training", "●", "rollout 4/9", "3 min 05 s left"):
        assert part in text


def test_curves_are_made_of_training_and_panel() -> None:
    train, panel = curves_of([TRAIN, PANEL, {"phase": "train", "iteration": 4, "success": None}])
    assert (train.x, train.y) == ((3.0,), (0.4375,))
    assert (panel.x, panel.low, panel.high, panel.points) == ((2.0,), (0.25,), (0.75,), True)
    assert curves_of([]) == []


def test_the_warm_start_shows_its_loss_and_not_a_line_for_every_event() -> None:
    step = {"phase": "imitation", "iteration": 0, "step": 40, "steps": 2000, "loss": 1.25, "lr": 1e-3}
    assert line(step, 10) == ""
    assert line({"phase": "tick", "what": "imitation", "done": 40, "total": 2000, "loss": 1.25}, 10) == (
        "  imitation 40/2000  loss 1.2500"
    )
    assert curves_of([step]) == []
    target, stream = console(terminal=True)
    with Progress("corridor", 10, console=target) as progress:
        progress(step)
        target.print(progress.render())
    assert "1.2500" in stream.getvalue()
