"""`turncredit eval` and `turncredit compare`: panels, pairs, what is kept, and bad input."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from toys.commands import ENV, Call, one_sentence

from turncredit.agents.errors import AgentError
from turncredit.cli.evaluate import usage
from turncredit.cli.players import load_player
from turncredit.engines import Random
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult


def test_a_panel_is_written_read_and_paired(turncredit: Call, tmp_path: Path) -> None:
    panel, a, b = tmp_path / "panel.json", tmp_path / "a.json", tmp_path / "b.json"
    said = turncredit("eval", "random", ENV, "lengths=[5]", "--episodes", 6, "--panel", panel, "--output", a)
    assert said.code == 0, said.err
    said = turncredit("eval", "expert", "--panel", panel, "--output", b)
    assert said.code == 0, said.err
    assert re.search(r"all tasks +100\.0 % +61\.0 to 100\.0 % +6/6", said.out)
    assert "mean turns" in said.out
    tasks = json.loads(panel.read_text())["panel"]["tasks"]
    assert [row["task"] for row in json.loads(b.read_text())["rows"]] == tasks
    said = turncredit("compare", a, b)
    assert said.code == 0, said.err
    assert "McNemar" in said.out
    as_json = json.loads(turncredit("compare", a, b, "--json").out)
    assert as_json["pairs"] == 6
    assert as_json["only_first"] == 0
    same = turncredit("compare", b, b)
    assert "within the noise" in same.out


def test_several_trials_are_one_result_and_one_group_for_each_task(turncredit: Call, tmp_path: Path) -> None:
    result, kept = tmp_path / "r.json", tmp_path / "t.jsonl.gz"
    words = ("random", ENV, "lengths=[2]", "--episodes", 4)
    said = turncredit("eval", *words, "--trials", 3, "--output", result, "--trajectories", kept)
    assert said.code == 0, said.err
    assert {file.name for file in tmp_path.iterdir()} == {"r.json", "t.jsonl.gz"}
    rows = json.loads(result.read_text())["rows"]
    tasks = json.loads(result.read_text())["panel"]["tasks"]
    assert [(row["trial"], row["task"]) for row in rows] == [(trial, task) for trial in range(3) for task in tasks]
    won = sum(row["won"] for row in rows)
    assert 0 < won < len(rows)
    assert f"{len(tasks)} tasks x 3 trials" in said.out
    assert re.search(rf"all tasks +{100 * won / len(rows):.1f} % .* {won}/{len(rows)}", said.out)
    wins = [[row["won"] for row in rows if row["task"] == task] for task in tasks]
    some, each = (100 * sum(map(test, wins)) / len(wins) for test in (any, all))
    assert re.search(rf"\n *3 +{some:.1f} % .* {each:.1f} % ", said.out)
    facts = json.loads(turncredit("credit", kept, "--json").out)["facts"]
    assert (facts["groups"], facts["trajectories"], facts["groups_of_one"]) == (len(tasks), 3 * len(tasks), 0)
    shown = turncredit("show", kept, "--limit", 1).out
    assert ": 3 trajectories" in shown
    said = turncredit("report", kept, "--output", tmp_path / "page.html")
    assert said.code == 0, said.err


def test_results_with_several_trials_are_paired_by_task_and_trial(turncredit: Call, tmp_path: Path) -> None:
    files = {}
    for name, player, trials in (("a", "random", 3), ("b", "expert", 3), ("c", "expert", 1)):
        files[name] = tmp_path / f"{name}.json"
        words = (player, ENV, "lengths=[2]", "--episodes", 4, "--trials", trials, "--output", files[name])
        assert turncredit("eval", *words).code == 0
    rows = json.loads(files["a"].read_text())["rows"]
    pairs = json.loads(turncredit("compare", files["a"], files["b"], "--json").out)
    assert (pairs["pairs"], pairs["only_first"]) == (len(rows), 0)
    assert pairs["only_second"] == sum(not row["won"] for row in rows)
    said = turncredit("compare", files["a"], files["c"])
    assert said.code == 0, said.err
    assert "2 trials of each task left out" in said.out


def test_a_demonstrator_of_the_environment_plays(turncredit: Call) -> None:
    said = turncredit("eval", "searcher", "turncredit/Household-v0", "level=tiny", "--episodes", 3)
    assert said.code == 0, said.err
    assert re.search(r"all tasks .* 3/3", said.out)


def test_a_panel_is_a_sample_drawn_by_its_seed(turncredit: Call, tmp_path: Path) -> None:
    from toys.corridor import Corridor

    panels = []
    for number, seed in enumerate((1, 1, 2)):
        file = tmp_path / f"{number}.json"
        said = turncredit("eval", "expert", ENV, "--episodes", 6, "--seed", seed, "--panel", file)
        assert said.code == 0, said.err
        panels.append(json.loads(file.read_text())["panel"]["tasks"])
    everything = Corridor().task_ids()
    assert panels[0] == panels[1] != panels[2]
    for panel in panels:
        assert panel == [task for task in everything if task in panel]  # in the environment's order, each once
    assert len({task for panel in panels for task in panel}) > 6


def test_a_panel_of_more_tasks_than_there_are_is_all_of_them(turncredit: Call) -> None:
    said = turncredit("eval", "expert", ENV, "lengths=[3]", "--episodes", 50)
    assert "4/4" in said.out
    assert "all there are" in said.out


def test_a_run_knows_its_environment(turncredit: Call, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    said = turncredit("eval", trained, "--episodes", 3, "agent.temperature=0", "--output", file)
    assert said.code == 0, said.err
    result = json.loads(file.read_text())
    assert result["panel"]["env"] == ENV
    assert result["panel"]["kwargs"] == {"lengths": [3]}
    assert result["settings"]["temperature"] == 0
    assert result["memory"]["process"] > 2**26
    prompts, sampled = (sum(row[f"{kind}_tokens"] for row in result["rows"]) for kind in ("prompt", "response"))
    assert prompts > sampled > 0
    assert re.search(
        r"speed: [\d.]+[kM]? prompt and [\d.]+[kM]? sampled tokens per second; memory: process \d+", said.out
    )
    newest = sorted((trained / "checkpoints").iterdir())[-1]
    assert turncredit("eval", newest, "--panel", trained / "panel.json").code == 0


@pytest.mark.parametrize(
    ("said", "meant"),
    [([], (7.0, 1)), (["--deadline", "3"], (3.0, 1)), (["--deadline", "0", "--workers", "0"], (None, 0))],
)
def test_an_evaluation_plays_as_the_run_did(
    turncredit: Call,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: list[str],
    meant: tuple[float | None, int],
) -> None:
    import torch

    from turncredit.evaluation import evaluation

    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    text = (folder / "run.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^deadline = .*", "deadline = 7.0", text)
    text = text.replace("[env.workers]\ncount = 0\n", "[env.workers]\ncount = 1\n")
    (folder / "run.toml").write_text(text, encoding="utf-8")
    asked, real = [], evaluation.evaluate

    def evaluate(agent: Any, sampler: Any, panel: Any, pool: Any, **options: Any) -> Any:
        workers = pool.hosts.workers if pool.hosts else 0
        asked.append(((pool.deadline, workers), torch.get_num_threads()))
        return real(agent, sampler, panel, pool, **options)

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    torch.set_num_threads(2)
    assert turncredit("eval", folder, "--episodes", "2", *said).code == 0
    assert asked == [(meant, 1)]


def test_how_the_model_runs_can_be_chosen(
    turncredit: Call, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from turncredit.evaluation import evaluation

    seen, real = [], evaluation.evaluate

    def evaluate(agent: Any, sampler: Any, *given: Any, **options: Any) -> Any:
        seen.append((torch.get_num_threads(), sampler))
        return real(agent, sampler, *given, **options)

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    words = ("--threads", "2", "--dtype", "bfloat16", "--device", "cpu", "--batch-size", "3")
    said = turncredit("eval", trained, "--episodes", "1", *words)
    assert said.code == 0, said.err
    threads, sampler = seen[0]
    assert (threads, sampler._concurrency) == (2, 3)
    assert {weights.dtype for weights in sampler._model.parameters()} == {torch.bfloat16}
    text = (trained / "run.toml").read_text().replace("threads = 1", "threads = 0")
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "run" / "run.toml").write_text(text)
    assert turncredit("eval", tmp_path / "run", "--episodes", "1").code == 0
    assert seen[1][0] == 1  # a small model
    for word, value, parts in (
        ("--device", "gpu", ("'gpu'",)),
        ("--device", "cuda:7", ("cuda",)),
        ("--dtype", "float23", ("'float23'", "float32")),
    ):
        one_sentence(turncredit("eval", trained, word, value), *parts)
    one_sentence(turncredit("eval", "expert", ENV, "--threads", "2"), "expert is not a model")


def test_a_run_and_an_evaluation_of_it_have_one_panel(turncredit: Call, trained: Path, tmp_path: Path) -> None:
    """However the run was seeded; so results of several runs, and later ones, can be paired."""
    file, result = tmp_path / "panel.json", tmp_path / "result.json"
    said = turncredit("eval", trained, "--episodes", 4, "--panel", file, "--output", result)
    assert said.code == 0, said.err
    assert json.loads(file.read_text()) == json.loads((trained / "panel.json").read_text())
    assert turncredit("compare", trained / "after.json", result).code == 0


def test_an_evaluation_keeps_its_episodes(turncredit: Call, tmp_path: Path) -> None:
    from turncredit.agents.files.trajectory_files import read_trajectories

    file = tmp_path / "episodes.jsonl.gz"
    assert turncredit("eval", "expert", ENV, "--episodes", 3, "--trajectories", file).code == 0
    assert len(list(read_trajectories(file))) == 3


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("eval", "nowhere", ENV), ("nowhere does not exist",)),
        (("eval", "nobody", "turncredit/Household-v0"), ("a run or checkpoint, searcher, expert or random",)),
        (("eval", "expert"), ("the id of an environment", "turncredit/Household-v0")),
        (("play", ENV, "lengths=3"), ("lengths=3", "not iterable")),
        (("eval", "{tmp}", ENV), ("holds no checkpoint",)),
        (("eval", "expert", ENV, "--output", "{tmp}"), ("is a folder",)),
        (("eval", "expert", ENV, "--output", "/dev/null"), ("is a device",)),
        (("eval", "expert", ENV, "--output", "{file}/x.json"), ("cannot be written",)),
        (("eval", "expert", ENV, "--output", "{tmp}/no/x.json"), ("the folder {tmp}/no does not exist",)),
        (("eval", "expert", ENV, "--panel", "{tmp}/no/x.json"), ("the folder {tmp}/no does not exist",)),
        (("eval", "expert", ENV, "--trajectories", "{tmp}/no/x.jsonl"), ("the folder {tmp}/no does not exist",)),
        (("eval", "expert", ENV, "--trajectories", "{tmp}/x.txt"), (".jsonl",)),
        (("eval", "expert", ENV, "--panel", "{file}"), ("is not valid JSON",)),
        (("eval", "expert", ENV, "agent.temprature=0"), ("temperature",)),
        (("compare", "{file}", "{file}"), ("is not valid JSON",)),
        (("compare", "{tmp}/none.json", "{file}"), ("none.json does not exist",)),
        (("show", "{tmp}/none.jsonl"), ("none.jsonl does not exist",)),
        (("show", "{file}"), (".jsonl",)),
        (("train", "{tmp}/none.toml"), ("does not exist",)),
        (("train", "{file}"), ("not a TOML file",)),
        (("train", "{tmp}"), ("run.toml",)),
        (("data", "pack", "{tmp}/none", "{tmp}/out.jsonl.xz"), ("not a folder",)),
        (("data", "generate", "{tmp}/games", "--split", "tran"), ("'train'",)),
        (("data", "generate", "{tmp}/games", "--level", "smal"), ("'small'",)),
        (("data", "generate", "{file}", "--count", "1"), ("output folder", "File exists")),
        (("data", "shop", "{tmp}/shop", "--level", "smal"), ("'small'",)),
        (("data", "shop", "{file}"), ("output folder", "File exists")),
    ],
)
def test_mistakes_are_one_sentence(
    turncredit: Call, tmp_path: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    file = tmp_path / "file.txt"
    file.write_text("this is nothing that we know")
    names = {"tmp": tmp_path, "file": file}
    one_sentence(turncredit(*(word.format(**names) for word in words)), *(part.format(**names) for part in parts))
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("damage", ["{", "[]", '{"version": 1}', '{"version": 1, "rows": [], "panel": {}}', "\x00\xff"])
def test_damaged_results_are_one_sentence(turncredit: Call, tmp_path: Path, damage: str) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(damage.encode("latin-1"))
    one_sentence(turncredit("compare", file, file), "result.json")


def test_any_sampler_can_be_named_by_module_and_attribute() -> None:
    player = load_player("turncredit.engines.scripted:Random.from_settings", {"parser": "think-action"}, seed=3)
    assert isinstance(player.sampler, Random)
    with pytest.raises(AgentError, match=r"the sampler 'turncredit.agents:Nobody' cannot be loaded"):
        load_player("turncredit.agents:Nobody")


def test_an_attempt_that_failed_is_paid_for() -> None:
    played = EpisodeRow("t", None, True, 1.0, 2, "terminated", 0, 0, prompt_tokens=20, response_tokens=4, cost=0.5)
    failed = EpisodeRow("t", None, False, 0.0, 1, "error", 0, 0, "gone", prompt_tokens=10, response_tokens=2, cost=0.25)
    (line,) = usage(EvaluationResult(Panel("e", ("t",)), (played,), repeated=(failed,)))
    assert line == "tokens: 30 of prompts, 6 of answers (30 and 6 a task); cost: 0.7500 (0.750000 a task)"
