"""What is shown of a run while it goes: lines without a terminal, a table and a curve in one."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from turncredit.cli.printing import progress as progress_module
from turncredit.cli.printing.progress import SHOWN, Progress, curves_of, line, numbers, start_line

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
    from turncredit.training.sampling.grown_groups import PlayedGroup
    from turncredit.training.sampling.sampling_metrics import growth_metrics
    from turncredit.training.tasks.group_draws import DrawnGroup

    nothing = Advantages.of(Steps.empty(), np.zeros(0))
    known = {*play_metrics([]), *credit_metrics(nothing), *group_metrics(Steps.empty(), nothing)}
    known |= {"entropy", "clip_fraction", "loss", "skipped", "rollout_tokens_per_second", "update_tokens_per_second"}
    known |= {"prompt_tokens_per_second", *(f"{place}_memory" for place in ("process", "device"))}
    known |= {"mfu", "load_seconds"}  # tested with the learner and the engine
    known |= {*growth_metrics([PlayedGroup(DrawnGroup(0, "t", 1, 0), Group("t", ()))])}
    known |= {"stored", "replayed", "replay_age", "lessons", "questions", "questions_failed"}  # tested in runs
    known |= {"age", "stale", "learner_idle", "engine_idle"}  # of asynchronous rollouts, tested there
    assert {key for key, _, _ in SHOWN} <= known


def log_of(events: list[dict[str, object]], total: int) -> list[str]:
    target, stream = console(terminal=False)
    with Progress("run", total, console=target) as progress:
        for event in events:
            progress(event)
    assert len(progress.history) == sum(event["phase"] != "tick" for event in events)
    return stream.getvalue().splitlines()


def test_a_log_has_one_line_for_every_iteration_and_none_about_the_work_of_one() -> None:
    events: list[dict[str, object]] = []
    for iteration in range(1, 61):
        events += [{"phase": "tick", "what": "rollout", "done": done, "total": 6} for done in (1, 2, 6)]
        events.append({**TRAIN, "iteration": iteration, "tokens": 2345, "old_kl": 0.00123, "seconds": 8.25})
        if iteration == 5:
            events += [PANEL, {"phase": "warning", "text": "all groups have equal rewards"}]
    lines = [text.strip() for text in log_of(events, 60)]
    rows = [text.split()[0] for text in lines if not text.startswith(("iteration", "eval at", "warning"))]
    assert rows == [f"{iteration}/60" for iteration in range(1, 61)]
    assert [number for number, text in enumerate(lines) if text.startswith("iteration")] == [0, 27, 53]
    assert lines[7] == "warning: all groups have equal rewards"
    assert lines[6].split() == ["eval", "at", "2", "50.0", "%", "9.0", "[25.0,", "75.0]", "n=12"]
    assert max(map(len, lines)) <= 120


def test_a_row_has_its_numbers_below_their_names() -> None:
    head, row = log_of([{**TRAIN, "tokens": 2345, "old_kl": 0.00123, "seconds": 8.25, "errors": 2, "stale": 0.0}], 10)
    names = "iteration success return turns tokens invalid entropy KL clipped signal seconds left"
    assert head.split() == names.split()
    cells = "3/10|43.8 %|0.438|14.2|2345|3.1 %|0.412|0.0012|2.0 %|62.5 %|8.2|3 min 05 s"
    ends = [re.search(rf"\b{name}\b", head).end() for name in names.split()]  # type: ignore[union-attr]
    begins = [0, *(end + 1 for end in ends[:-1])]
    assert [row[begin:end].strip() for begin, end in zip(begins, ends, strict=True)] == cells.split("|")
    assert row[ends[-1] :] == "  errors 2"


def test_the_widest_numbers_still_fit_a_line_of_a_log() -> None:
    widest = {
        **TRAIN,
        "iteration": 10_000,
        "success": 1.0,
        "reward": -123.456,
        "turns": 100.0,
        "tokens": 123_456_789,
        "unparsable": 1.0,
        "inadmissible": 0.0,
        "entropy": 10.125,
        "old_kl": 10.0001,
        "clip_fraction": 1.0,
        "step_signal": 1.0,
        "seconds": 99_999.9,
        "seconds_left": 3.6e6,
        "errors": 1000,
        "outgrown": 1000,
        "skipped": 1000,
    }
    (_, row) = log_of([widest], 10_000)
    assert len(row) <= 120
    assert row.endswith(" ...")
    assert "10000/10000 100.0 % -123.456 100.0 123.5M 100.0 %" in row
    assert "99999.9 1000 h 00 min  errors 10" in row
    bare = log_of([{"phase": "train", "iteration": 1}], 10)[-1]
    assert bare.strip() == "1/10"


def test_a_log_says_how_the_warm_start_goes_in_ten_lines() -> None:
    steps = [{"phase": "imitation", "step": step, "steps": 100, "loss": 1.0, "lr": 0.005} for step in range(2, 101, 2)]
    lines = log_of([{**event, "iteration": 0} for event in steps], 10)
    assert [text.split()[2] for text in lines] == ["2/100", *(f"{step}/100" for step in range(10, 101, 10))]
    assert lines[0] == "imitation        step 2/100  loss 1.0000  learning rate 0.005"
    again = log_of([{**steps[-1], "iteration": 0}, {**steps[0], "iteration": 0}], 10)
    assert [text.split()[2] for text in again] == ["100/100", "2/100"]  # another warm start


def test_long_sentences_of_a_log_are_broken_at_spaces() -> None:
    text = " ".join(["word"] * 60) + " /a/path" + "/of/a/folder" * 12
    lines = log_of([{"phase": "note", "text": text}], 10)
    assert " ".join(lines) == f"note: {text}"
    assert len(lines) == 4
    assert max(map(len, lines[:-1])) <= 120


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
        now -= 10.0
        target.print(progress.render())
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
