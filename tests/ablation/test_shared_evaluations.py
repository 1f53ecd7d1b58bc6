"""Arms of an ablation take over the evaluation of the policy that they begin with, and are the same runs otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toys.corridor

pytest.importorskip("torch")

import turncredit.training.monitor.evaluation as evaluation
from turncredit.ablation.axes import is_axis
from turncredit.ablation.plan import Ablation, plan
from turncredit.ablation.process_pool import PooledRun
from turncredit.ablation.results import ablation_results
from turncredit.agents.models.model_folder import load_model
from turncredit.cli.ablate import AblationProgress, jobs_of
from turncredit.training import Run, train
from turncredit.training.monitor.shared_evaluations import SharedEvaluations
from turncredit.training.run_folder.metrics import read_events

HOLD = """
import sys
from pathlib import Path
from turncredit.agents.files.folder_lock import locked

with locked(Path(sys.argv[1]), "evaluating for"):
    print("locked", flush=True)
    input()
"""
TABLE = {
    "name": "corridor",
    "threads": 1,
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 3, "lr": 5e-3},
    "train": {"iterations": 1, "groups": 2, "group_size": 3},
    "evaluation": {"episodes": 4, "temperature": 1.0},
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the evaluations that were played."""
    names: list[str] = []
    evaluate = evaluation.evaluate

    def counted(*arguments: Any, name: str, **options: Any) -> Any:
        names.append(name)
        return evaluate(*arguments, name=name, **options)

    monkeypatch.setattr(evaluation, "evaluate", counted)
    return names


def ablation(folder: Path, *words: str, table: dict[str, Any] = TABLE) -> Ablation:
    plain = [word for word in words if not is_axis(word)]
    return plan(Run.parse(table, plain), [word for word in words if is_axis(word)], folder)


def train_jobs(jobs: list[PooledRun]) -> None:
    for job in jobs:
        train(job.run, evaluated=job.evaluated)


def result(folder: Path, name: str = "before.json") -> dict[str, Any]:
    """What an evaluation found, without what the clock and the machine say."""
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    return {key: value for key, value in content.items() if key not in {"seconds", "memory"}}


def events(folder: Path) -> list[dict[str, Any]]:
    """The evaluations in the metrics, without what the clock says."""
    stored = [event for event in read_events(folder / "metrics.jsonl") if event["phase"] == "evaluation"]
    return [{key: event[key] for key in event if key not in {"seconds", "time"}} for event in stored]


def test_arms_take_over_what_the_warm_start_measured_and_are_the_runs_that_they_were(
    tmp_path: Path, measured: list[str]
) -> None:
    shared = ablation(tmp_path / "shared", "credit=grpo,gigpo", "agent.temperature=1.0", "seeds=2")
    train_jobs(jobs_of(shared))
    before = [name for name in measured if name.endswith("iteration 0")]
    assert before == [f"warm-start, seed {seed}, iteration 0" for seed in (0, 1)]
    assert len(measured) - len(before) == 4  # after training, one for each arm and seed

    measured.clear()
    alone = ablation(tmp_path / "alone", "credit=grpo,gigpo", "agent.temperature=1.0")
    for job in jobs_of(alone):
        train(job.run)
    assert len([name for name in measured if name.endswith("iteration 0")]) == 3
    for arm in shared.arms:
        here, there = shared.folder_of(arm.folder, 0), alone.folder_of(arm.folder, 0)
        assert result(here) == result(there) == result(here, "evaluations/000000.json")
        assert result(here, "after.json") == result(there, "after.json")
        assert events(here) == events(there)
        weights, others = (load_model(folder / "checkpoints/000001").state_dict() for folder in (here, there))
        assert all((weights[name] == others[name]).all() for name in weights)


def test_seconds_of_a_shared_evaluation_count_once(tmp_path: Path) -> None:
    shared = ablation(tmp_path / "shared", "credit=grpo,gigpo")
    train_jobs(jobs_of(shared))
    results = ablation_results(shared)
    runs = [results["warm_start"]["seeds"]["0"], *(arm["seeds"]["0"] for arm in results["arms"].values())]
    once = runs[0]["evaluated"]
    assert once > 0
    assert [run["evaluated"] for run in runs] == [once] * 3
    assert results["seconds"] == pytest.approx(sum(run["seconds"] for run in runs) - 2 * once)


def test_arms_that_are_asked_in_another_way_are_measured_once_for_all_of_them(
    tmp_path: Path, measured: list[str]
) -> None:
    train_jobs(jobs_of(ablation(tmp_path / "abl", "credit=grpo,gigpo", "agent.max_turns=6,3")))
    assert [name.partition(",")[0] for name in measured if name.endswith("iteration 0")] == ["warm-start", "grpo"]


def test_arms_with_new_adapters_are_measured_once(tmp_path: Path, measured: list[str]) -> None:
    pytest.importorskip("peft")
    (warm, *_) = jobs_of(ablation(tmp_path / "whole", "credit=grpo,gigpo"))
    train(warm.run)
    measured.clear()
    adapted = {"model": str(warm.run.folder), "context": 400, "lora": {"rank": 2}}
    table = {**TABLE, "policy": adapted, "imitation": {"episodes": 2, "epochs": 1}}
    train_jobs(jobs_of(ablation(tmp_path / "adapted", "credit=grpo,gigpo", table=table)))
    before = [name.partition(",")[0] for name in measured if name.endswith("iteration 0")]
    assert before == ["warm-start", "grpo"]  # merged weights are rounded otherwise than weights beside an adapter


def test_an_arm_that_was_killed_before_or_in_its_evaluation_goes_on(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, first, second = jobs_of(ablation(tmp_path / "abl", "credit=grpo,gigpo"))
    train_jobs([warm])

    def killed(*_: object) -> None:
        raise RuntimeError("killed")

    for step in ("result", "key"):
        with monkeypatch.context() as patch:
            patch.setattr(SharedEvaluations, step, killed)
            with pytest.raises(RuntimeError, match="killed"):
                train(first.run, evaluated=first.evaluated, resume=(first.run.folder / "run.toml").exists())
        assert not (first.run.folder / "before.json").exists()
    assert train(first.run, evaluated=first.evaluated, resume=True).finished
    train_jobs([second])
    assert result(first.run.folder)["rows"] == result(second.run.folder)["rows"] == result(warm.run.folder)["rows"]
    assert [event["iteration"] for event in events(first.run.folder)] == [0, 1]
    assert [name for name in measured if name.endswith("iteration 0")] == ["warm-start, seed 0, iteration 0"]


def test_a_stored_evaluation_that_cannot_be_read_is_made_again(tmp_path: Path, measured: list[str]) -> None:
    warm, first, second = jobs_of(ablation(tmp_path / "abl", "credit=grpo,gigpo"))
    train_jobs([warm])
    assert warm.evaluated is not None
    (stored,) = warm.evaluated.glob("*/result.json")
    stored.write_text("{}", encoding="utf-8")
    train_jobs([first, second])
    assert [name.partition(",")[0] for name in measured if name.endswith("iteration 0")] == ["warm-start", "grpo"]


def test_whatever_decides_the_episodes_makes_another_evaluation(tmp_path: Path) -> None:
    (warm, *_) = jobs_of(ablation(tmp_path / "abl", "credit=grpo,gigpo"))
    train(warm.run)
    panel = evaluation.Panel.load(warm.run.folder / "panel.json")
    table = warm.run.model_dump(exclude_unset=True)

    def key(*words: str) -> str:
        return SharedEvaluations(tmp_path, Run.parse(table, words)).key(panel)

    assert key() == key("name=other", "agent.temperature=0.5", "train.groups=5", "credit.method=gigpo")
    words = ["evaluation.temperature=0.5", "agent.top_p=0.9", "seed=1", "train.concurrency=2", "sampler.dtype=bfloat16"]
    assert len({key(), *map(key, words)}) == 1 + len(words)
    other = SharedEvaluations(tmp_path, Run.parse(table)).key(
        evaluation.Panel(panel.env, panel.tasks[1:], panel.kwargs)
    )
    assert other != key()
    weights = warm.run.folder / "checkpoints/000000/manifest.json"
    manifest = json.loads(weights.read_text(encoding="utf-8"))
    manifest["model.safetensors"]["sha256"] = "0" * 64
    begun = key()
    weights.write_text(json.dumps(manifest), encoding="utf-8")
    assert key() != begun


def test_a_run_says_which_process_it_waits_for(tmp_path: Path, measured: list[str]) -> None:
    (warm, first, *_) = jobs_of(ablation(tmp_path / "abl", "credit=grpo,gigpo"))
    train(warm.run, evaluated=warm.evaluated)
    (folder,) = [path.parent for path in tmp_path.glob("abl/**/result.json")]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    heard: list[dict[str, Any]] = []
    overview = AblationProgress([first], 1)
    first.state = "running"

    def listen(event: dict[str, Any]) -> None:
        heard.append(event)
        overview(first, event)
        if event.get("waits"):
            assert overview.cell(first).plain == "waits"
            holder.communicate("\n")  # the other process has measured

    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        train(first.run, evaluated=first.evaluated, on_event=listen)
    (text,) = [event["text"] for event in heard if event.get("waits")]
    assert text == f"waiting for process {holder.pid}, which evaluates the same weights on the same tasks"
    assert overview.cell(first).plain != "waits"
    assert len([name for name in measured if name.endswith("iteration 0")]) == 1
