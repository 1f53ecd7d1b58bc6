"""Every command on a small environment, and what it says when it is asked for what cannot be."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ENV = "toys/Corridor-v0"
Call = Any


def one_sentence(said: Any, *parts: str) -> None:
    """The command ended as a mistake of the user does: code 2, one line, with these parts in it."""
    assert said.code == 2, (said.out, said.err)
    assert said.err.startswith("turnwise: ")
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err


# ---- the program ----


def test_help_names_every_command_and_the_sentence_of_the_house(turnwise: Call) -> None:
    said = turnwise("--help")
    assert said.code == 0
    for command in ("demo", "play", "train", "eval", "compare", "show", "check", "list", "data"):
        assert re.search(rf"^  {command} ", said.out, re.MULTILINE)
    assert "An environment gives a task" in said.out


def test_version(turnwise: Call) -> None:
    assert re.fullmatch(r"turnwise \d+\.\d+\.\d+\S*\n", turnwise("--version").out)


def test_wrong_commands_and_options_name_the_near_one(turnwise: Call) -> None:
    one_sentence(turnwise("tain"), "Did you mean 'train'?")
    one_sentence(turnwise("eval", "expert", ENV, "--episods", 3), "--episodes")
    one_sentence(turnwise("eval"), "WHO", "turnwise eval --help")


def test_without_a_command_the_help_is_shown(turnwise: Call) -> None:
    assert "Commands:" in turnwise().out


def program(*words: str, **extra: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnwise.cli.main", *words], capture_output=True, text=True, timeout=60, **extra
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from turnwise.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'torch', 'transformers', 'gymnasium', 'numpy', 'pydantic', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_a_fault_of_the_user_is_one_sentence_in_a_real_process() -> None:
    done = program("list", "env")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Did you mean 'envs'?" in done.stderr


def test_debugging_shows_the_traceback() -> None:
    done = program("list", "env", env={**os.environ, "TURNWISE_DEBUG": "1"})
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m turnwise.cli.main list keys | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


# ---- list ----


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("envs", "turnwise/Household-v0"),
        ("credit", "gigpo"),
        ("samplers", "expert"),
        ("parsers", "think-action"),
        ("templates", "plain"),
        ("transforms", "hicra"),
        ("keys", "train.lr"),
    ],
)
def test_lists_name_what_exists(turnwise: Call, kind: str, name: str) -> None:
    said = turnwise("list", kind)
    assert said.code == 0
    assert re.search(rf"^{name}  +\S", said.out, re.MULTILINE), said.out


def test_without_a_kind_the_kinds_are_listed(turnwise: Call) -> None:
    said = turnwise("list")
    assert said.code == 0
    assert "turnwise list envs\n" in said.out


def test_objectives_are_listed(turnwise: Call) -> None:
    pytest.importorskip("torch")
    said = turnwise("list", "objectives").out
    assert "aggregation=token-mean" in said
    assert all(part in said for part in ("gspo_token", "arXiv 2507.18071", "our reading", "correction=icepop"))


# ---- check ----


def test_check_passes_what_keeps_the_contract(turnwise: Call) -> None:
    said = turnwise("check", ENV, "lengths=[3]", "--tasks", 2)
    assert said.code == 0, said.out
    assert "keeps the contract" in said.out


def test_check_says_what_is_broken_and_how_to_see_it(turnwise: Call) -> None:
    import gymnasium
    from toys.corridor import Corridor

    class Forgetful(Corridor):
        """Says that it carries nothing in its state key, whatever it carries."""

        def _info(self, *, valid: bool) -> dict[str, Any]:
            return {**super()._info(valid=valid), "state": "always the same"}

    if "toys/Forgetful-v0" not in gymnasium.registry:
        gymnasium.register("toys/Forgetful-v0", entry_point=lambda **options: Forgetful(**options))
    said = turnwise("check", "toys/Forgetful-v0", "--tasks", 1)
    assert said.code == 1
    assert re.search(r"^ *failed", said.out, re.MULTILINE)
    assert "to see it again:\n" in said.out
    assert "breaks" in said.out


def test_unknown_environments_are_named_with_the_near_one(turnwise: Call) -> None:
    for command in (("check",), ("play",), ("eval", "random")):
        one_sentence(turnwise(*command, "toys/Coridor-v0"), "toys/Corridor-v0")
    one_sentence(turnwise("play", ENV, "lenghts=[3]"), "lengths")
    one_sentence(turnwise("play", ENV, "--task", "open-9-9"), "open-9-9", "did you mean")
    one_sentence(turnwise("play", ENV, "lengths"), "key=value")


# ---- play ----


def test_a_script_can_win(turnwise: Call) -> None:
    said = turnwise("play", ENV, "--task", "open-3-1", stdin="take key\ng e\n2\n3\ngo east\n")
    assert said.code == 0
    assert "> take key" in said.out
    said = turnwise("play", ENV, "--task", "open-3-1", stdin="take key\ng e\nunl\ngo east\n")
    assert "Won after 4 turns, reward 1" in said.out


def test_hints_lead_to_the_goal(turnwise: Call) -> None:
    typed = ""
    for _ in range(20):
        said = turnwise("play", ENV, "--task", "fetch-3-2", "--hint", stdin=typed)
        if "Won" in said.out:
            break
        typed += re.findall(r"hint: (.+?)   \(", said.out)[-1] + "\n"
    assert "Won" in said.out


def test_history_undo_actions_and_mistakes(turnwise: Call) -> None:
    said = turnwise(
        "play",
        ENV,
        "--task",
        "open-3-1",
        stdin="take key\nfly\n:history\n:undo\n:actions\n:undo\n:hisory\n:hi\n:undo x\n:ask\n!fly\n:quit\nlook\n",
    )
    assert said.code == 0
    assert "'fly' is not possible here" in said.out
    assert "1  > take key" in said.out
    assert "(1 taken back)" in said.out
    assert re.search(r"1  go east +2  look +3  take key", said.out)
    assert "(nothing to take back)" in said.out
    assert "no command ':hisory'. Did you mean ':history'?" in said.out
    assert "':hi' can mean: :hint, :history" in said.out
    assert "A number of turns was expected, not 'x'" in said.out
    assert "--policy CHECKPOINT" in said.out
    assert "the turn is spent" in said.out
    assert "> look" not in said.out


def test_the_same_seed_draws_the_same_task(turnwise: Call) -> None:
    first, second = (turnwise("play", ENV, "--seed", 7, stdin=":task\n").out for _ in range(2))
    assert first == second
    assert turnwise("play", ENV, "--seed", 8, stdin=":task\n").out != first


def test_a_trained_agent_can_be_asked_and_watched(turnwise: Call, trained: Path) -> None:
    said = turnwise("play", "--policy", trained, "--task", "open-3-1", stdin=":ask\ntake key\n:ask\n:watch 1\n")
    assert said.code == 0, said.err
    assert said.out.count("agent: ") == 2
    assert "go east" in said.out or "in which there is no action" in said.out


def test_the_expert_can_be_watched_to_the_end(turnwise: Call) -> None:
    said = turnwise("play", ENV, "--task", "fetch-4-2", "--policy", "expert", stdin="look\n:watch\n:ask\n")
    assert "Won after 10 turns" in said.out
    assert "The episode is over." in said.out


# ---- eval, compare ----


def test_a_panel_is_written_read_and_paired(turnwise: Call, tmp_path: Path) -> None:
    panel, a, b = tmp_path / "panel.json", tmp_path / "a.json", tmp_path / "deep" / "b.json"
    said = turnwise("eval", "random", ENV, "lengths=[5]", "--episodes", 6, "--panel", panel, "--output", a)
    assert said.code == 0, said.err
    said = turnwise("eval", "expert", "--panel", panel, "--output", b)
    assert said.code == 0, said.err
    assert re.search(r"all tasks +100\.0 % +61\.0 to 100\.0 % +6/6", said.out)
    assert "mean turns" in said.out
    tasks = json.loads(panel.read_text())["panel"]["tasks"]
    assert [row["task"] for row in json.loads(b.read_text())["rows"]] == tasks
    said = turnwise("compare", a, b)
    assert said.code == 0, said.err
    assert "McNemar" in said.out
    as_json = json.loads(turnwise("compare", a, b, "--format", "json").out)
    assert as_json["pairs"] == 6
    assert as_json["only_first"] == 0
    same = turnwise("compare", b, b)
    assert "within the noise" in same.out


def test_a_demonstrator_of_the_environment_plays(turnwise: Call) -> None:
    said = turnwise("eval", "searcher", "turnwise/Household-v0", "level=tiny", "--episodes", 3)
    assert said.code == 0, said.err
    assert re.search(r"all tasks .* 3/3", said.out)


def test_a_panel_is_a_sample_drawn_by_its_seed(turnwise: Call, tmp_path: Path) -> None:
    from toys.corridor import Corridor

    panels = []
    for number, seed in enumerate((1, 1, 2)):
        file = tmp_path / f"{number}.json"
        said = turnwise("eval", "expert", ENV, "--episodes", 6, "--seed", seed, "--panel", file)
        assert said.code == 0, said.err
        panels.append(json.loads(file.read_text())["panel"]["tasks"])
    everything = Corridor().task_ids()
    assert panels[0] == panels[1] != panels[2]
    for panel in panels:
        assert panel == [task for task in everything if task in panel]  # in the environment's order, each once
    assert len({task for panel in panels for task in panel}) > 6


def test_a_panel_of_more_tasks_than_there_are_is_all_of_them(turnwise: Call) -> None:
    said = turnwise("eval", "expert", ENV, "lengths=[3]", "--episodes", 50)
    assert "4/4" in said.out
    assert "all that there are" in said.out


def test_a_run_knows_its_environment(turnwise: Call, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    said = turnwise("eval", trained, "--episodes", 3, "agent.temperature=0", "--output", file)
    assert said.code == 0, said.err
    result = json.loads(file.read_text())
    assert result["panel"]["env"] == ENV
    assert result["panel"]["kwargs"] == {"lengths": [3]}
    assert result["settings"]["temperature"] == 0
    newest = sorted((trained / "checkpoints").iterdir())[-1]
    assert turnwise("eval", newest, "--panel", trained / "panel.json").code == 0


@pytest.mark.parametrize(("said", "meant"), [([], 7.0), (["--deadline", "3"], 3.0), (["--deadline", "0"], None)])
def test_an_evaluation_plays_as_the_run_did(
    turnwise: Call, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], meant: float | None
) -> None:
    import torch

    from turnwise.agents import evaluation

    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    text = (folder / "run.toml").read_text(encoding="utf-8")
    (folder / "run.toml").write_text(re.sub(r"(?m)^deadline = .*", "deadline = 7.0", text), encoding="utf-8")
    asked, real = [], evaluation.evaluate

    def evaluate(*given: Any, **options: Any) -> Any:
        asked.append((options["deadline"], torch.get_num_threads()))
        return real(*given, **options)

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    torch.set_num_threads(2)
    assert turnwise("eval", folder, "--episodes", "2", *said).code == 0
    assert asked == [(meant, 1)]


def test_a_run_and_an_evaluation_of_it_have_one_panel(turnwise: Call, trained: Path, tmp_path: Path) -> None:
    """However the run was seeded; so results of several runs, and later ones, can be paired."""
    file, result = tmp_path / "panel.json", tmp_path / "result.json"
    said = turnwise("eval", trained, "--episodes", 4, "--panel", file, "--output", result)
    assert said.code == 0, said.err
    assert json.loads(file.read_text()) == json.loads((trained / "panel.json").read_text())
    assert turnwise("compare", trained / "after.json", result).code == 0


def test_an_evaluation_keeps_its_episodes(turnwise: Call, tmp_path: Path) -> None:
    from turnwise.agents.store import read_trajectories

    file = tmp_path / "episodes.jsonl.gz"
    assert turnwise("eval", "expert", ENV, "--episodes", 3, "--trajectories", file).code == 0
    assert len(list(read_trajectories(file))) == 3


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("eval", "nowhere", ENV), ("nowhere does not exist",)),
        (("eval", "nobody", "turnwise/Household-v0"), ("a checkpoint, searcher, expert or random",)),
        (("eval", "expert"), ("Which environment?", ENV)),
        (("play", ENV, "lengths=3"), ("lengths=3", "not iterable")),
        (("eval", "{tmp}", ENV), ("holds no checkpoint",)),
        (("eval", "expert", ENV, "--output", "{tmp}"), ("is a folder",)),
        (("eval", "expert", ENV, "--output", "/dev/null"), ("is a device",)),
        (("eval", "expert", ENV, "--output", "{file}/x.json"), ("cannot be written",)),
        (("eval", "expert", ENV, "--trajectories", "{tmp}/x.txt"), (".jsonl",)),
        (("eval", "expert", ENV, "--panel", "{file}"), ("is no JSON",)),
        (("eval", "expert", ENV, "agent.temprature=0"), ("temperature",)),
        (("compare", "{file}", "{file}"), ("is no JSON",)),
        (("compare", "{tmp}/none.json", "{file}"), ("No such file",)),
        (("show", "{tmp}/none.jsonl"), ("No such file",)),
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
    turnwise: Call, tmp_path: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    file = tmp_path / "file.txt"
    file.write_text("this is nothing that we know")
    one_sentence(turnwise(*(word.format(tmp=tmp_path, file=file) for word in words)), *parts)


@pytest.mark.parametrize("damage", ["{", "[]", '{"version": 1}', '{"version": 1, "rows": [], "panel": {}}', "\x00\xff"])
def test_damaged_results_are_one_sentence(turnwise: Call, tmp_path: Path, damage: str) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(damage.encode("latin-1"))
    one_sentence(turnwise("compare", file, file), "result.json")


# ---- train, show ----


def test_train_leaves_what_can_be_gone_on_with(turnwise: Call, trained: Path) -> None:
    assert {"run.toml", "metrics.jsonl", "before.json", "after.json", "panel.json"} <= {
        path.name for path in trained.iterdir()
    }
    one_sentence(turnwise("train", trained), "already holds a run", "--resume")
    said = turnwise("train", trained, "--resume")
    assert said.code == 0
    assert "done after 2 iterations" in said.out


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("train.stps=3", ("train.stps", "steps")),
        ("train.steps=many", ("train.steps", "many")),
        ("credit.method=gigop", ("gigop", "gigpo")),
        ("env.id=toys/Coridor-v0", ("toys/Corridor-v0",)),
        ("objective.norm=3", ("objective.norm",)),
        ("train.steps", ("key=value",)),
    ],
)
def test_wrong_keys_and_values_of_a_run(
    turnwise: Call, run_file: Path, tmp_path: Path, override: str, parts: tuple[str, ...]
) -> None:
    pytest.importorskip("torch")
    one_sentence(turnwise("train", run_file, override, "--output", tmp_path / "run"), *parts)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("output", ["file", "file/run"])
def test_an_output_that_cannot_be_written(turnwise: Call, run_file: Path, tmp_path: Path, output: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "file").touch()
    one_sentence(
        turnwise("train", run_file, "--output", tmp_path / output), str(tmp_path / output), "cannot be written"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The system refuses to let any file grow beyond a size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_during_a_checkpoint_keeps_the_one_before(turnwise: Call, run_file: Path, tmp_path: Path) -> None:
    """The first checkpoint has no state of the optimiser yet; the next is larger, and does not fit any more."""
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    words = ("train", run_file, "evaluation.episodes=0", "imitation.epochs=1", "--output", folder)
    with largest_file(300_000):
        said = turnwise(*words)
    one_sentence(said, "checkpoint 1 was not written", f"the last good one is {folder / 'checkpoints' / '000000'}")
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["000000"]
    assert turnwise("eval", folder, "--episodes", 1).code == 0
    said = turnwise("train", folder, "--resume")
    assert said.code == 0, said.err
    assert "done after 2 iterations" in said.out


@pytest.mark.parametrize(
    "name", ["run.toml", "before.json", "trajectories/000001.jsonl.gz", "trajectories/000001.jsonl"]
)
def test_a_full_disk_at_any_other_file_is_one_sentence_that_names_it(
    turnwise: Call, run_file: Path, tmp_path: Path, name: str
) -> None:
    pytest.importorskip("torch")
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    beside = path if "/" in name else path.with_name(f".{name}.part")
    beside.symlink_to("/dev/full")
    suffix = name[name.index(".") :] if "/" in name else ".jsonl"
    words = ("imitation.epochs=1", "evaluation.episodes=1", f"trajectories={suffix}")
    said = turnwise("train", run_file, *words, "--output", tmp_path / "run")
    one_sentence(said, str(path), "No space left on device")
    if name.startswith("trajectories"):
        assert (tmp_path / "run" / "checkpoints" / "000000").is_dir()
        beside.unlink()
        assert turnwise("train", tmp_path / "run", "--resume").code == 0


def test_a_checkpoint_of_another_vocabulary_is_refused(turnwise: Call, run_file: Path, tmp_path: Path) -> None:
    """Every file is whole, but the tokenizer is another one than the weights were trained with."""
    checkpoint = pytest.importorskip("turnwise.training.checkpoint")
    folder = tmp_path / "run"
    words = ("evaluation.episodes=0", "imitation.epochs=0", "train.steps=0", "--output", folder)
    assert turnwise("train", run_file, *words).code == 0
    point = folder / "checkpoints" / "000000"
    tokenizer = json.loads((point / "tokenizer.json").read_text(encoding="utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    (point / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (point / "manifest.json").write_text(json.dumps(checkpoint.manifest(point)), encoding="utf-8")
    one_sentence(turnwise("train", folder, "--resume", "train.steps=1"), str(point), "another vocabulary")


def test_ctrl_c_in_the_warm_start_and_how_to_go_on(
    turnwise: Call, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = pytest.importorskip("turnwise.training.loop")
    folder = tmp_path / "run"

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "first_policy", press)
        said = turnwise("train", run_file, "train.steps=1", "evaluation.episodes=0", "--output", folder)
    assert said.code == 130
    assert f"turnwise train {folder} --resume begins it again" in said.out.replace("\n", " ")
    assert turnwise("train", folder, "--resume").code == 0
    assert (folder / "checkpoints" / "000001").is_dir()


def test_a_demo_that_was_stopped_in_the_warm_start_goes_on(
    turnwise: Call, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = pytest.importorskip("turnwise.training.loop")
    words = ("demo", "--config", run_file, "--output", tmp_path / "demo", "train.steps=0")

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "first_policy", press)
        assert turnwise(*words).code == 130
    assert turnwise(*words).code == 0


@pytest.mark.parametrize("keep", [True, False])
def test_ctrl_c_in_an_evaluation_keeps_what_is_finished_and_says_so(tmp_path: Path, keep: bool) -> None:
    from turnwise.agents.store import read_trajectories

    file, result = tmp_path / "episodes.jsonl.gz", tmp_path / "result.json"
    code = (
        "import os, signal, sys\n"
        "from turnwise.cli import evaluate; from turnwise.cli.main import app; from toys.corridor import register\n"
        "count = evaluate.Counter.__call__\n"
        "def press(self, trajectory):\n"
        "    count(self, trajectory)\n"
        "    if self.done == 7: os.kill(os.getpid(), signal.SIGINT)\n"
        "evaluate.Counter.__call__ = press\n"
        "register(); app(sys.argv[1:])"
    )
    words = [
        "eval",
        "random",
        "toys/Corridor-v0",
        "--output",
        str(result),
        *(["--trajectories", str(file)] if keep else []),
    ]
    said = subprocess.run(
        [sys.executable, "-c", code, *words, "--concurrency", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert said.returncode == 130, said.stderr
    assert "Traceback" not in said.stderr
    err = " ".join(said.stderr.split())
    finished = int(err.split(" of 18 episodes were finished")[0].split()[-1])
    assert 7 <= finished < 18
    assert f"{result} was not written" in err
    assert not result.exists()
    if keep:
        assert f"they are in {file}" in err
        assert len(list(read_trajectories(file))) == finished
    else:
        assert "--trajectories FILE would keep them" in err


def test_ctrl_c_ends_a_run_in_good_order(run_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    code = (
        "import sys; from toys.corridor import register; from turnwise.cli.main import app\n"
        "register(); app(sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", str(run_file), "train.steps=5000", "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("3/5000"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "--resume goes on" in out
    assert "Traceback" not in err
    assert any((folder / "checkpoints").glob("[0-9]*"))


def test_show_prints_every_turn_with_its_credit(turnwise: Call, trained: Path) -> None:
    file = next((trained / "trajectories").glob("000001*"))
    said = turnwise("show", file, "--limit", 1)
    assert said.code == 0, said.err
    assert re.search(r"turn advantage +episode +step", said.out)
    assert len(re.findall(r"^  \S+#\d+@\d+: (?:won|not won), \d+ turns", said.out, re.MULTILINE)) == 3
    grpo = turnwise("show", file, "--credit", "grpo", "--limit", 1)
    assert grpo.code == 0
    assert grpo.out != said.out
    one_sentence(turnwise("show", file, "--credit", "gigo"), "gigpo")
    one_sentence(turnwise("show", file, "gama=1"), "gamma")
    one_sentence(turnwise("show", file, "--task", "open-99"), "open-99")
    one_sentence(turnwise("show", file, "--anchor", "sate"), "'state'")


def test_show_agrees_with_the_credit_library(tmp_path: Path, turnwise: Call) -> None:
    """A table computed by hand: two episodes of one task, one won at its second turn, both beginning in one state."""
    from turnwise.agents.store import TrajectoryWriter
    from turnwise.agents.trajectory import Trajectory, Turn

    def turn(action: str, state: str, reward: float) -> Turn:
        return Turn((), (), (), 0, f"in {state}", action, action, state, reward, True)

    def episode(member: int, turns: tuple[Turn, ...], won: bool) -> Trajectory:
        return Trajectory(f"t#{member}@0", "t", None, 0, turns, "terminated", won, float(won), "z", "end", None, 0.1)

    file = tmp_path / "two.jsonl"
    with TrajectoryWriter(file) as writer:
        writer.write(episode(0, (turn("good", "a", 0.0), turn("done", "b", 1.0)), True))
        writer.write(episode(1, (turn("bad", "a", 0.0), turn("lost", "c", 0.0)), False))
    said = turnwise("show", file, "scale=none", "gamma=0.5")
    # returns 0.5 and 0 in state a: step +0.25 and -0.25; episode scores 1 and 0: +0.5 and -0.5
    assert re.search(r"1 +\+0\.750 +\+0\.500 +\+0\.250 +S1x2 +good", said.out), said.out
    assert re.search(r"2 +\+0\.500 +\+0\.500 +0\.000 +- +done", said.out)
    assert re.search(r"1 +-0\.750 +-0\.500 +-0\.250 +S1x2 +bad", said.out)
    assert re.search(r"S1x2 +in a\n +\+0\.750 +1 x +good\n +-0\.750 +1 x +bad", said.out)


def test_show_prints_episodes_that_went_the_same_way_once(tmp_path: Path, turnwise: Call) -> None:
    from turnwise.agents.store import TrajectoryWriter
    from turnwise.agents.trajectory import Trajectory, Turn

    file = tmp_path / "three.jsonl"
    with TrajectoryWriter(file) as writer:
        for member, action in enumerate(("left", "right", "left")):
            turn = Turn((), (), (), 0, "a fork", action, action, "fork", float(action == "left"), True)
            writer.write(
                Trajectory(f"t#{member}@0", "t", None, 0, (turn,), "terminated", True, 1.0, "z", "", None, 0.1)
            )
    said = turnwise("show", file)
    assert re.search(r"t#0@0: won.*\n  t#2@0: won.*\n  turn .*\n +1 .* left.*\n\n  t#1@0", said.out), said.out
    assert len(re.findall(r"^ +1 .* (?:left|right)", said.out, re.MULTILINE)) == 2


def test_a_torn_line_is_said_and_the_rest_is_shown(tmp_path: Path, turnwise: Call) -> None:
    file = tmp_path / "torn.jsonl"
    assert turnwise("eval", "expert", ENV, "--episodes", 2, "--trajectories", file).code == 0
    file.write_bytes(file.read_bytes()[:-20])
    said = turnwise("show", file)
    assert said.code == 0
    assert "warning:" in said.err
    assert "1 trajectories" in said.out


# ---- demo ----


def test_a_demo_trains_evaluates_draws_and_says_where(turnwise: Call, run_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "demo"
    words = ("demo", "--config", run_file, "--method", "grpo", "--seed", 1, "--output", folder)
    said = turnwise(*words)
    assert said.code == 0, said.err
    for part in ("warm start", "trained", "all tasks", "McNemar", "success while training", "play --policy"):
        assert part in said.out
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert 'method = "grpo"' in (folder / "run.toml").read_text()
    one_sentence(turnwise(*words), "already holds a run")


def test_a_demo_without_evaluation_is_refused(turnwise: Call, run_file: Path, tmp_path: Path) -> None:
    one_sentence(
        turnwise("demo", "--config", run_file, "--output", tmp_path / "x", "evaluation.episodes=0"),
        "evaluation.episodes",
    )


def test_demo_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.cli.demo import choose_folder

    monkeypatch.chdir(tmp_path)
    first = Path("runs/demo-gigpo-0")
    assert choose_folder(None, "gigpo", 0) == (first, False)
    first.mkdir(parents=True)
    (first / "run.toml").touch()
    assert choose_folder(None, "gigpo", 0) == (first, True)
    (first / "after.json").touch()
    assert choose_folder(None, "gigpo", 0) == (Path("runs/demo-gigpo-0-2"), False)
    assert choose_folder(first, "gigpo", 0) == (first, False)


def test_a_second_run_in_the_same_folder_is_refused(turnwise: Call, trained: Path) -> None:
    import fcntl

    with (trained / ".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        one_sentence(turnwise("train", trained, "--resume"), "another process")
