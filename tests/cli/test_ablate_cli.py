"""`turncredit ablate` from beginning to end: processes that are killed, what arms share, and what is written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toys.gated import GATE
from toys.warm_processes import WarmPopen

from turncredit.ablation import process_pool
from turncredit.report.ablation_tables import (
    estimates,
    grid,
    interval,
    markdown,
    save_figure,
    short_labels,
    training_curves,
)

pytestmark = pytest.mark.waits

TESTS = Path(__file__).parent.parent
ARMS = ("credit=grpo,gigpo:w=0.5", "train.iterations=3")


PROGRAM = """
import subprocess
from types import SimpleNamespace
from toys.warm_processes import WarmPopen
from turncredit.ablation import process_pool
from turncredit.cli.main import main

process_pool.subprocess = SimpleNamespace(Popen=WarmPopen, PIPE=subprocess.PIPE)
main()
"""


@pytest.fixture(scope="module")
def file(run_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corridor with a gate, under a name that another process can find as well."""
    path = tmp_path_factory.mktemp("ablate") / "corridor.toml"
    text = run_file.read_text(encoding="utf-8").replace('id = "toys/Corridor-v0"', 'id = "toys.gated:toys/Gated-v0"')
    path.write_text(text, encoding="utf-8")
    return path


def begin(file: Path, folder: Path, gate: Path) -> subprocess.Popen[str]:
    """The command in a process of its own, whose runs wait after their first iteration as long as the gate is there."""
    return WarmPopen(
        [sys.executable, "-c", PROGRAM, "ablate", str(file), *ARMS, "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            GATE: str(gate),
        },
    )


def wait_for(condition: Any, parent: subprocess.Popen[str] | None = None, seconds: float = 1200.0) -> Any:
    """What the condition gives, once it gives something; in vain where the command ends before."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, "it took too long"
        assert parent is None or parent.poll() is None, parent.communicate()[0]
        time.sleep(0.02)
    return value


def holder(folder: Path) -> int:
    """Process id of the worker that has finished an iteration of the run in a folder; 0 as long as there is none."""
    if not (folder / "checkpoints" / "000001").is_dir():
        return 0
    return int((folder / ".lock").read_text())


def alive(process: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(scope="module")
def finished(file: Path, turncredit: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """An ablation whose first arm's worker was killed, then the whole command; and what was said before and after."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("ablations") / "killed"
    gate = folder.parent / "gate"
    gate.touch()
    parent = begin(file, folder, gate)
    try:
        os.kill(wait_for(lambda: holder(folder / "grpo/seed-0"), parent), signal.SIGKILL)
        worker = wait_for(lambda: holder(folder / "gigpo-w-0.5/seed-0"), parent)
        parent.kill()
        first = parent.communicate()[0]
        gate.unlink()
        wait_for(lambda: not alive(worker))  # the worker ends by itself
    finally:
        parent.kill()
        gate.unlink(missing_ok=True)
    assert not (folder / "results.json").exists()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process_pool, "subprocess", SimpleNamespace(Popen=WarmPopen, PIPE=subprocess.PIPE))
        result = turncredit("ablate", file, *ARMS, "--output", folder)
    assert result.code == 0, result.err
    return folder, first, result.out


def weights(folder: Path, step: int) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / f"checkpoints/{step:06d}/model.safetensors")


def assert_same(first: dict[str, Any], other: dict[str, Any]) -> None:
    import torch

    assert first.keys() == other.keys()
    assert all(torch.equal(first[name], other[name]) for name in first)


def test_a_killed_worker_is_reported_and_the_next_arm_begins(finished: tuple[Path, str, str]) -> None:
    folder, first, _ = finished
    assert re.search(
        r"^grpo, seed 0: failed: its process was killed \(SIGKILL\); the same command", first, re.MULTILINE
    )
    assert first.index("grpo, seed 0: failed") < first.index("gigpo:w=0.5, seed 0: started")
    assert str(folder / "grpo/seed-0/worker.log") in first


def test_the_second_call_goes_on_where_the_first_was_killed(finished: tuple[Path, str, str]) -> None:
    folder, _, second = finished
    assert "warm start, seed 0: started" not in second
    for arm in ("grpo", "gigpo-w-0.5"):
        events = [json.loads(line) for line in (folder / arm / "seed-0/metrics.jsonl").read_text().splitlines()]
        assert [event["iteration"] for event in events if event["phase"] == "train"] == [1, 2, 3]


def test_arms_begin_with_the_same_weights_and_end_as_plain_training_does(
    finished: tuple[Path, str, str], file: Path, turncredit: Any, tmp_path: Path
) -> None:
    """The killed arm, gone on with, has the weights of `turncredit train` with its rule, from the warm start on."""
    folder, _, _ = finished
    words = ("credit.method=grpo", "train.iterations=3", "checkpoints.keep=9")
    assert turncredit("train", file, *words, "--output", tmp_path / "plain").code == 0
    warm = weights(folder / "warm-start/seed-0", 0)
    assert_same(warm, weights(tmp_path / "plain", 0))
    for arm in ("grpo", "gigpo-w-0.5"):
        assert (folder / arm / "seed-0/before.json").is_file()
    assert_same(weights(folder / "grpo/seed-0", 3), weights(tmp_path / "plain", 3))
    arms = json.loads((folder / "results.json").read_text())["arms"].values()
    assert all(arm["seeds"]["0"]["begins_as_the_warm_start"] for arm in arms)


def test_every_arm_is_a_run_like_any_other(finished: tuple[Path, str, str], turncredit: Any, tmp_path: Path) -> None:
    folder, _, _ = finished
    result = turncredit("eval", folder / "grpo/seed-0", "--trust", "--episodes", 4, "--output", tmp_path / "again.json")
    assert result.code == 0, result.err
    result = turncredit("compare", tmp_path / "again.json", folder / "gigpo-w-0.5/seed-0/after.json")
    assert result.code == 0, result.err
    assert turncredit("train", folder / "grpo/seed-0", "--resume", "--trust").code == 0


def test_what_is_written_says_what_was_found(finished: tuple[Path, str, str]) -> None:
    from turncredit.evaluation.comparison import compare
    from turncredit.evaluation.results import EvaluationResult

    folder, _, output = finished
    results = json.loads((folder / "results.json").read_text())
    first, second = (EvaluationResult.load(folder / arm / "seed-0/after.json") for arm in ("grpo", "gigpo-w-0.5"))
    (comparison,) = results["comparisons"]
    pair = compare(first, second)
    (seed,) = comparison["seeds"]
    assert (seed["only_first"], seed["only_second"], seed["p"]) == (pair.only_first, pair.only_second, pair.p_success)
    assert results["arms"]["grpo"]["seeds"]["0"]["rows"]["won"] == [row.won for row in first.rows]
    text = (folder / "results.md").read_text()
    rate = f"{100 * sum(row.won for row in second.rows) / 4:.1f}"
    assert re.search(rf"^\| gigpo:w=0.5 \| {rate} \| 1 \| {rate} \[", text, re.MULTILINE)
    assert "turncredit ablate" in text
    assert "seeds 0." in text
    assert comparison["verdict"] in text
    assert set(comparison["verdict"].split()) <= set(output.split())  # a narrow terminal wraps the words of a cell
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_another_configuration_in_the_same_folder_is_refused(
    finished: tuple[Path, str, str], file: Path, turncredit: Any
) -> None:
    folder, _, _ = finished
    result = turncredit("ablate", file, *ARMS, "train.lr=0.5", "--output", folder)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "train.lr changed since the ablation" in result.err


def test_a_folder_goes_on_as_it_was_begun(finished: tuple[Path, str, str], turncredit: Any) -> None:
    folder, _, _ = finished
    before = json.loads((folder / "results.json").read_text())
    result = turncredit("ablate", folder, "--trust")
    assert result.code == 0, result.err
    assert "started" not in result.out
    after = json.loads((folder / "results.json").read_text())
    assert (after["comparisons"], after["command"]) == (before["comparisons"], before["command"])
    assert after["command"].startswith("turncredit ablate ")
    assert "remove the other arguments" in turncredit("ablate", folder, "train.lr=1").err


def test_the_summary_relates_gains_to_the_first_iterations(
    finished: tuple[Path, str, str], turncredit: Any, tmp_path: Path
) -> None:
    folder, _, _ = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    result = turncredit("ablate", "--summary", folder, "--output", tmp_path / "all")
    assert result.code == 0, result.err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before
    content = json.loads((tmp_path / "all/summary.json").read_text())
    row, mean = content["rows"]
    events = [json.loads(line) for line in (folder / "grpo/seed-0/metrics.jsonl").read_text().splitlines()]
    first = [event["turns"] for event in events if event["phase"] == "train"]
    assert (row["arm"], row["seed"], mean["seed"]) == ("gigpo:w=0.5", 0, None)
    assert row["turns"] == mean["turns"] == pytest.approx(sum(first) / len(first))
    (comparison,) = json.loads((folder / "results.json").read_text())["comparisons"]
    assert row["gain"]["value"] == comparison["difference"]["value"]
    text = (tmp_path / "all/summary.md").read_text()
    assert re.search(r"^\| killed \| gigpo:w=0.5 \| 1 \| .*\| – \| – \| – \| – \|$", text, re.MULTILINE | re.DOTALL)
    assert f"{100 * comparison['difference']['value']:+.1f}" in result.out
    assert (tmp_path / "all/summary.png").read_bytes()[:4] == b"\x89PNG"
    for words, part in (((folder, folder), "once"), ((folder, tmp_path), "not the folder of an ablation")):
        wrong = turncredit("ablate", "--summary", *words)
        assert (wrong.code, wrong.err.count("\n")) == (2, 1), wrong.err
        assert part in wrong.err


def test_mistakes_are_one_sentence(file: Path, turncredit: Any, tmp_path: Path) -> None:
    for word, part in (("credit=grpo,gigppo", "gigpo"), ("credit=grpo,gigpo:gama=1", "gamma"), ("seed=x", "seed")):
        result = turncredit("ablate", file, word, "--output", tmp_path / "abl")
        assert (result.code, result.err.count("\n")) == (2, 1), result.err
        assert part in result.err
        assert not (tmp_path / "abl").exists()


# ---- what people see ----


def arm(*values: float) -> dict[str, Any]:
    """An arm with a finished seed for each success rate, of 20 episodes."""
    from dataclasses import asdict

    from turncredit.evaluation.results import Rate
    from turncredit.evaluation.seed_statistics import Mean

    rates = [Rate.of(round(20 * value), 20) for value in values]
    entries = {
        str(number): {
            "state": "finished",
            "training": {"iteration": [1, 2], "success": [0.0, rate.value]},
            "success": asdict(rate),
        }
        for number, rate in enumerate(rates)
    }
    pooled = asdict(Rate.of(sum(rate.k for rate in rates), 20 * len(rates)))
    return {"seeds": entries, "success": asdict(Mean.of_rates(rates)), "pooled": pooled}


def table(**arms: dict[str, Any]) -> dict[str, Any]:
    return {"arms": arms, "panel": {"tasks": ["a", "b"]}, "warm_start": arm(0.1)}


def test_curves_are_means_over_finished_seeds() -> None:
    two = arm(0.5)
    two["seeds"]["1"] = {"state": "failed"}
    title, (first, second) = training_curves(table(one=arm(0.4, 0.6), two=two))
    assert "2 seeds" in title
    assert (first.name, second.name) == ("one", "two")
    assert first.y == pytest.approx((0.0, 0.5))
    unknown = float("nan")  # the seeds agree before training, which tells no error
    assert first.low == pytest.approx((unknown, 0.4), nan_ok=True)  # the standard error of 0.4 and 0.6 is 0.1
    assert first.high == pytest.approx((unknown, 0.6), nan_ok=True)
    assert second.low == ()


def test_the_dot_plot_has_an_interval_for_every_arm() -> None:
    title, (two, zero, single) = estimates(table(two=arm(0.4, 0.6), zero=arm(0.0, 0.0), single=arm(0.5)))
    assert "2 tasks" in title
    assert (two.value, two.single) == (0.5, (0.4, 0.6))
    assert (two.low, two.high) == (0.0, 1.0)  # t(1) = 12.7, cut to [0, 1]
    assert (zero.value, zero.low) == (0.0, 0.0)
    assert zero.high == pytest.approx(0.0876, abs=1e-4)  # Wilson, 0 of 40
    assert (single.low, single.high) == pytest.approx((0.2993, 0.7007), abs=1e-4)  # Wilson, 10 of 20
    assert interval(arm(0.0, 0.0)["success"], bounded=True) == "0.0 [0.0, 8.8]"


WORKER_IMPORTS = """
import json, sys
from turncredit.credit import get
from turncredit.registry import ImportRules, adopt_import_rules

imports = json.loads(sys.stdin.readline())["imports"]
adopt_import_rules(ImportRules(**imports | {"typed": frozenset(imports["typed"])}))
print(get("rules_of_a_folder:rule", eps=0.1).options["eps"])
"""


def test_a_worker_finds_a_rule_that_was_typed_with_options_in_the_working_directory(tmp_path: Path) -> None:
    from turncredit.ablation.process_worker import job_line
    from turncredit.credit import get
    from turncredit.registry import names_from_files

    rule = "from turncredit.credit import grpo\n\n\ndef rule(steps, *, eps=1e-6):\n    return grpo(steps, eps=eps)\n"
    (tmp_path / "rules_of_a_folder.py").write_text(rule, encoding="utf-8")
    with names_from_files(["credit=grpo,rules_of_a_folder:rule:eps=0.1"], folder=tmp_path):
        get("rules_of_a_folder:rule")
        line = job_line({})
    command = [sys.executable, "-P", "-c", WORKER_IMPORTS]
    worker = subprocess.run(command, input=line, capture_output=True, text=True, check=False, cwd="/")
    assert worker.stdout == "0.1\n", worker.stderr


def test_labels_of_arms_are_short_and_different() -> None:
    names = ["gigpo:w=0.5:train.lr=1e-4", "grpo:train.lr=1e-4"]
    assert list(short_labels(names).values()) == ["gigpo w=0.5", "grpo"]
    assert list(short_labels(["train.lr=1e-4", "train.lr=3e-4"]).values()) == ["lr=1e-4", "lr=3e-4"]
    crossed = ["grpo, train.group_size=4", "grpo, train.group_size=8"]
    assert list(short_labels(crossed).values()) == ["group_size=4", "group_size=8"]
    same = ["a.x=1", "b.x=1"]
    assert list(short_labels(same)) == list(short_labels(same).values())
    assert short_labels(["grpo"]) == {"grpo": "grpo"}
    own = ["mine:by_time", "mine:by_time:gamma=0.9", "mine:by_turn:train.lr=1e-4"]
    assert list(short_labels(own).values()) == ["mine:by_time", "mine:by_time gamma=0.9", "mine:by_turn lr=1e-4"]
    tables = ["tasks={name='levels', mix=0}", "tasks={name='levels', mix=1}", "judge=openai:M@http://h:1/v1", "it's"]
    assert list(short_labels(tables).values()) == tables


def test_intervals_and_tables_as_text() -> None:
    mean = {"value": 0.75, "low": 0.5, "high": 1.2}
    assert interval(mean, bounded=True) == "75.0 [50.0, 100.0]"
    assert interval(mean, signed=True) == "+75.0 [+50.0, +120.0]"
    assert interval({"value": 0.5, "low": None, "high": None}) == "50.0"
    assert interval({"value": None}) == "–"
    assert grid(["a|b"], [["c"]]) == "| a\\|b |\n| --- |\n| c |\n"


@pytest.mark.parametrize("number", [0, 1, 16])
def test_a_figure_of_any_number_of_arms(tmp_path: Path, number: int) -> None:
    pytest.importorskip("matplotlib")
    save_figure(table(**{f"arm{k}": arm(k / 20, k / 20 + 0.1) for k in range(number)}), tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    assert all(f">arm{k}<" in text for k in range(number))


def test_runs_that_are_missing_are_named() -> None:
    from turncredit.ablation.results import DIAGNOSTICS

    empty = {"success": {"value": None, "n": 0}, "pooled": {"value": None, "k": 0, "n": 0}, "gain": {"value": None}}
    missing = {**empty, "seeds": {"0": {"state": "failed (so)"}}, "diagnostics": dict.fromkeys(DIAGNOSTICS)}
    content = {
        "command": "",
        "seeds": [0],
        "remarks": ["a remark"],
        "panel": {},
        "warm_start": missing,
        "arms": {"x": missing},
    }
    more = {"comparisons": [], "calls": [], "seconds": 0.0, "packages": {}, "python": "3", "platform": "p"}
    text = markdown({**content, **more})
    assert "**x, seed 0: failed (so)**" in text
    assert "- a remark" in text


def test_the_overview_shows_how_every_run_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from turncredit.ablation.process_pool import PooledRun
    from turncredit.cli import ablate
    from turncredit.cli.ablate import WARM, AblationProgress
    from turncredit.training.config.run import Run

    monkeypatch.setattr(ablate, "time", SimpleNamespace(monotonic=lambda: 1000.0))  # no time passes in between
    run = Run.parse({"output": "nowhere", "train": {"iterations": 50}})
    warm = PooledRun(WARM, 0, run)
    jobs = [warm, *(PooledRun(name, 0, run, warm) for name in ("grpo", "gigpo", "hgpo", "salt", "rloo"))]
    overview = AblationProgress(jobs, 2)
    for job, state in zip(jobs, ("finished", "finished", "running", "running", "failed", "waiting"), strict=True):
        overview(job, {"phase": "begun"})
        job.state = state
    jobs[4].text = "it broke"
    overview(jobs[1], {"phase": "evaluation", "iteration": 50, "success": 0.5})
    overview(jobs[1], {"phase": "ended", "finished": True})
    overview(jobs[2], {"phase": "train", "iteration": 12, "success": 0.25, "seconds_left": 1000.0})
    overview(jobs[2], {"phase": "tick", "what": "rollout", "done": 3, "total": 128})
    overview(jobs[3], {"phase": "tick", "what": "evaluation", "done": 30, "total": 200})
    assert re.search(r"grpo, seed 0: finished 50.0 %   \(2 of 6 runs finished", capsys.readouterr().out)
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(overview.render())
    text = console.export_text()
    rows = (r"warm start +✓", r"grpo +✓ 50.0 %", r"gigpo +12/50 25.0 %", r"hgpo +eval 15 %", r"salt +✗ failed")
    for row in (*rows, r"rloo +·"):
        assert re.search(row, text), text
    assert "salt, seed 0: it broke" in text
    overview.took = [400.0]
    left = overview.left()  # gigpo expects 1000 s, hgpo has just begun, rloo waits: 400 s each; two at a time
    assert left == pytest.approx((1000 + 400 + 400) / 2)
