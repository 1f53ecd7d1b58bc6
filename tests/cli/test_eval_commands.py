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
from turncredit.agents.samplers import Random
from turncredit.cli.evaluate import usage
from turncredit.cli.players import load_player
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


def test_several_trials_print_how_reliable_a_player_is(turncredit: Call, tmp_path: Path) -> None:
    result, kept = tmp_path / "r.json", tmp_path / "t.jsonl.gz"
    words = ("random", ENV, "lengths=[2]", "--episodes", 4, "--trials", 3, "--output", result, "--trajectories", kept)
    said = turncredit("eval", *words)
    assert said.code == 0, said.err
    assert "in 3 trials, of which the table shows the first:" in said.out
    results = [json.loads((tmp_path / name).read_text()) for name in ("r.json", "r-2.json", "r-3.json")]
    assert [result["panel"]["seed"] for result in results] == [0, 1, 2]
    wins = [[row["won"] for row in result["rows"]] for result in results]
    everywhere = sum(all(trials) for trials in zip(*wins, strict=True)) / len(wins[0])
    assert f"pass^3 {100 * everywhere:.1f} %" in said.out
    assert all((tmp_path / name).is_file() for name in ("t.jsonl.gz", "t-2.jsonl.gz", "t-3.jsonl.gz"))
    assert "pass^" not in turncredit("eval", "random", ENV, "lengths=[2]", "--episodes", 4).out


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
        (("data", "generate", "{file}", "--count", "1"), ("Not a directory",)),
        (("data", "shop", "{tmp}/shop", "--level", "smal"), ("'small'",)),
        (("data", "shop", "{file}"), ("exists",)),
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
    player = load_player("turncredit.agents.samplers.scripted:Random.from_settings", {"parser": "think-action"}, seed=3)
    assert isinstance(player.sampler, Random)
    with pytest.raises(AgentError, match=r"the sampler 'turncredit.agents:Nobody' cannot be loaded"):
        load_player("turncredit.agents:Nobody")


def test_an_attempt_that_failed_is_paid_for() -> None:
    played = EpisodeRow("t", None, True, 1.0, 2, "terminated", 0, 0, prompt_tokens=20, response_tokens=4, cost=0.5)
    failed = EpisodeRow("t", None, False, 0.0, 1, "error", 0, 0, "gone", prompt_tokens=10, response_tokens=2, cost=0.25)
    (line,) = usage(EvaluationResult(Panel("e", ("t",)), (played,), repeated=(failed,)))
    assert line == "tokens: 30 of prompts, 6 of answers (30 and 6 a task); cost: 0.7500 (0.750000 a task)"
