"""`turncredit train` and `turncredit show`: what is left behind, what stops them, and how to go on."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from toys.commands import ENV, Call, one_sentence
from toys.warm_processes import WarmPopen


def test_train_leaves_what_can_be_gone_on_with(turncredit: Call, trained: Path) -> None:
    assert {"run.toml", "metrics.jsonl", "before.json", "after.json", "panel.json"} <= {
        path.name for path in trained.iterdir()
    }
    one_sentence(turncredit("train", trained), "already holds a run", "--resume")
    said = turncredit("train", trained, "--resume")
    assert said.code == 0
    assert "finished 2 iterations" in said.out


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("train.iteratons=3", ("train.iteratons", "iterations")),
        ("train.iterations=many", ("train.iterations", "many")),
        ("credit.method=gigop", ("gigop", "gigpo")),
        ("env.id=toys/Coridor-v0", ("toys/Corridor-v0",)),
        ("objective.aggregation.norm=3", ("objective.aggregation.norm",)),
        ("train.iterations", ("key=value",)),
    ],
)
def test_wrong_keys_and_values_of_a_run(
    turncredit: Call, run_file: Path, tmp_path: Path, override: str, parts: tuple[str, ...]
) -> None:
    pytest.importorskip("torch")
    one_sentence(turncredit("train", run_file, override, "--output", tmp_path / "run"), *parts)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("output", ["file", "file/run"])
def test_an_output_that_cannot_be_written(turncredit: Call, run_file: Path, tmp_path: Path, output: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "file").touch()
    one_sentence(
        turncredit("train", run_file, "--output", tmp_path / output), str(tmp_path / output), "cannot be written"
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


def test_a_full_disk_during_a_checkpoint_keeps_the_one_before(turncredit: Call, run_file: Path, tmp_path: Path) -> None:
    """The first checkpoint has no state of the optimiser yet; the next is larger, and does not fit any more."""
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    words = ("train", run_file, "evaluation.episodes=0", "imitation.epochs=1", "--output", folder)
    with largest_file(300_000):
        said = turncredit(*words)
    one_sentence(said, "checkpoint 1 could not be written", f"the last one is {folder / 'checkpoints' / '000000'}")
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["000000"]
    assert turncredit("eval", folder, "--episodes", 1).code == 0
    said = turncredit("train", folder, "--resume")
    assert said.code == 0, said.err
    assert "finished 2 iterations" in said.out


@pytest.mark.parametrize(
    "name", ["run.toml", "before.json", "trajectories/000001.jsonl.gz", "trajectories/000001.jsonl"]
)
def test_a_full_disk_at_any_other_file_is_one_sentence_that_names_it(
    turncredit: Call, run_file: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    # the links to the full device would be refused before anything is written
    monkeypatch.setattr("turncredit.agents.files.folder_lock.require_plain_files", lambda folder: None)
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    if "/" in name:
        path.symlink_to("/dev/full")
    else:
        beside = path.with_name(f".{name}.part")

        def opened(file: Path) -> IO[bytes]:
            return open("/dev/full" if file == beside else file, "wb")

        monkeypatch.setattr("turncredit.agents.files.json_files.fresh_file", opened)
    suffix = name[name.index(".") :] if "/" in name else ".jsonl"
    words = ("imitation.epochs=1", "evaluation.episodes=1", f"trajectory_format={suffix}")
    said = turncredit("train", run_file, *words, "--output", tmp_path / "run")
    one_sentence(said, str(path), "No space left on device")
    if name.startswith("trajectories"):
        assert (tmp_path / "run" / "checkpoints" / "000000").is_dir()
        path.unlink()
        assert turncredit("train", tmp_path / "run", "--resume").code == 0


@pytest.mark.parametrize(
    ("command", "name"), [("generate", "games"), ("shop", "shop")], ids=["generated games", "generated catalogue"]
)
def test_a_full_disk_while_data_is_written_names_the_folder(
    turncredit: Call, tmp_path: Path, command: str, name: str
) -> None:
    with largest_file(1000):
        said = turncredit("data", command, tmp_path / name, "--level", "tiny")
    one_sentence(said, str(tmp_path / name), "File too large")


def test_the_command_lines_of_a_run_are_recorded(
    turncredit: Call, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    words = ["train", str(run_file), "train.iterations=1", "evaluation.episodes=0", "--output", str(folder)]
    monkeypatch.setattr("sys.argv", ["/usr/bin/turncredit", *words])
    assert turncredit(*words).code == 0
    first = f"turncredit {shlex.join(words)}\n"
    assert (folder / "commands.txt").read_text() == first
    one_sentence(turncredit(*words), "already holds a run")  # nothing began, so nothing is recorded
    assert (folder / "commands.txt").read_text() == first
    monkeypatch.setattr("sys.argv", ["turncredit", "train", str(folder), "--resume", "train.iterations=2"])
    assert turncredit("train", folder, "--resume", "train.iterations=2").code == 0
    assert (folder / "commands.txt").read_text() == f"{first}turncredit train {folder} --resume train.iterations=2\n"


def test_a_checkpoint_of_another_vocabulary_is_refused(turncredit: Call, run_file: Path, tmp_path: Path) -> None:
    """Every file is whole, but the tokenizer is another one than the weights were trained with."""
    checkpoint = pytest.importorskip("turncredit.training.run_folder.checkpoint")
    folder = tmp_path / "run"
    words = ("evaluation.episodes=0", "imitation.epochs=0", "train.iterations=0", "--output", folder)
    assert turncredit("train", run_file, *words).code == 0
    point = folder / "checkpoints" / "000000"
    tokenizer = json.loads((point / "tokenizer.json").read_text(encoding="utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    (point / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (point / "manifest.json").write_text(json.dumps(checkpoint.manifest(point)), encoding="utf-8")
    one_sentence(turncredit("train", folder, "--resume", "train.iterations=1"), str(point), "another vocabulary")


def test_ctrl_c_in_the_warm_start_and_how_to_go_on(
    turncredit: Call, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmstart = pytest.importorskip("turncredit.training.imitation.warmstart")
    folder = tmp_path / "a run"

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(warmstart.WarmStart, "learner", press)
        said = turncredit("train", run_file, "train.iterations=1", "evaluation.episodes=0", "--output", folder)
    assert said.code == 130
    assert f"to continue: turncredit train '{folder}' --resume" in said.out.replace("\n", " ")
    assert turncredit("train", folder, "--resume").code == 0
    assert (folder / "checkpoints" / "000001").is_dir()


def test_a_demo_that_was_stopped_in_the_warm_start_goes_on(
    turncredit: Call, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmstart = pytest.importorskip("turncredit.training.imitation.warmstart")
    words = ("demo", "--config", run_file, "--output", tmp_path / "demo", "train.iterations=0")

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(warmstart.WarmStart, "learner", press)
        assert turncredit(*words).code == 130
    assert turncredit(*words).code == 0


@pytest.mark.parametrize("keep", [True, False])
def test_ctrl_c_in_an_evaluation_keeps_what_is_finished_and_says_so(tmp_path: Path, keep: bool) -> None:
    from turncredit.agents.files.trajectory_files import read_trajectories

    file, result = tmp_path / "episodes.jsonl.gz", tmp_path / "result.json"
    code = (
        "import os, signal, sys\n"
        "from turncredit.cli import evaluate; from turncredit.cli.main import app; from toys.corridor import register\n"
        "count = evaluate.EpisodeCounter.__call__\n"
        "def press(self, trajectory):\n"
        "    count(self, trajectory)\n"
        "    if self.done == 7: os.kill(os.getpid(), signal.SIGINT)\n"
        "evaluate.EpisodeCounter.__call__ = press\n"
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
        timeout=300,
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
    assert "loading random for 18 tasks" in said.stdout
    assert "0/18 episodes, 0 won" in said.stdout
    if keep:
        assert f"they are in {file}" in err
        assert len(list(read_trajectories(file))) == finished
    else:
        assert "--trajectories FILE would keep them" in err


@pytest.mark.waits
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, "closed pipe"])
def test_ctrl_c_ends_a_run_in_good_order(run_file: Path, tmp_path: Path, how: signal.Signals | str) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    code = "import sys; from toys.corridor import register; from turncredit.cli.main import main\nregister(); main()"
    process = WarmPopen(
        [sys.executable, "-c", code, "train", str(run_file), "train.iterations=5000", "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.split()[:1] == ["1/5000"]:
                break
        if isinstance(how, signal.Signals):
            process.send_signal(how)
        else:
            process.stdout.close()
            process.stdout = None
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert f"to continue: turncredit train {folder} --resume" in (out or err)
    assert "Traceback" not in err
    assert any((folder / "checkpoints").glob("[0-9]*"))


@pytest.mark.waits
@pytest.mark.parametrize(
    ("sign", "words", "progress"),
    [
        ("collecting 50,000 demonstrations", ["imitation.episodes=50000"], r"[\d,]+ demonstrations?"),
        ("tokenizing", ["imitation.episodes=2000", "imitation.epochs=100000"], "2,000 demonstrations"),
        ("imitation        step", ["imitation.epochs=5000"], r"step [\d,]+ of [\d,]+"),
    ],
)
def test_sigterm_ends_the_warm_start_of_a_model_in_every_step_and_says_what_is_kept(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str, words: list[str], progress: str
) -> None:
    """None of these steps would end by itself within the patience of the test."""
    pytest.importorskip("torch")
    from toys.corridor import Corridor

    from turncredit.training.learner.policy import build_policy, save_policy

    folder, model = tmp_path / "run", tmp_path / "model"
    save_policy(*build_policy([Corridor().reset()[0]], vocab=300, hidden=48, layers=1, heads=2, context=400), model)
    code = "import sys; from toys.corridor import register\nfrom turncredit.cli.main import main\nregister(); main()"
    text = run_file.read_text(encoding="utf-8")
    file = tmp_path / "pretrained.toml"
    file.write_text(text.replace("new = { vocab = 300, hidden = 48, layers = 1, heads = 2 }", f'model = "{model}"'))
    process = WarmPopen(
        [sys.executable, "-c", code, "train", str(file), *words, "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
    )
    told = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            told.append(line.strip())
            if sign in line:
                break
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=250)
    finally:
        process.kill()
    assert process.returncode == 130, (told, err)
    assert "Traceback" not in err
    phrases = [f"--resume continues the warm start from {progress}"]
    if sign.startswith("collecting"):  # the signal may come before the first demonstration is stored
        phrases.append("the warm start was not finished, and --resume starts it again")
    assert re.search(f"interrupted; ({'|'.join(phrases)})", " ".join(out.split())), out
    assert f"stopped in the warm start; to continue: turncredit train {folder} --resume" in " ".join(out.split())
    steps = [f"loading the model {model} ...", "collecting", "tokenizing"]
    assert [step for step in steps if any(line.startswith(step) for line in told)] == steps[: 2 + ("demo" not in sign)]


def test_show_prints_every_turn_with_its_credit(turncredit: Call, trained: Path) -> None:
    file = next((trained / "trajectories").glob("000001*"))
    said = turncredit("show", file, "--limit", 1)
    assert said.code == 0, said.err
    assert re.search(r"turn advantage +episode +step", said.out)
    assert len(re.findall(r"^  \S+#\d+@\d+: (?:won|not won), \d+ turns", said.out, re.MULTILINE)) == 3
    grpo = turncredit("show", file, "--credit", "grpo", "--limit", 1)
    assert grpo.code == 0
    assert grpo.out != said.out
    one_sentence(turncredit("show", file, "--credit", "gigo"), "gigpo")
    one_sentence(turncredit("show", file, "gama=1"), "gamma")
    one_sentence(turncredit("show", file, "--task", "open-99"), "open-99")
    one_sentence(turncredit("show", file, "--anchor", "sate"), "'state'")


def test_show_agrees_with_the_credit_library(tmp_path: Path, turncredit: Call) -> None:
    """A table computed by hand: two episodes of one task, one won at its second turn, both beginning in one state."""
    from turncredit.agents.files.trajectory_files import TrajectoryWriter
    from turncredit.agents.trajectory import Trajectory, Turn

    def turn(action: str, state: str, reward: float) -> Turn:
        return Turn((), (), (), 0, f"in {state}", action, action, state, reward, True)

    def episode(member: int, turns: tuple[Turn, ...], won: bool) -> Trajectory:
        return Trajectory(f"t#{member}@0", "t", None, 0, turns, "terminated", won, float(won), "z", "end", None, 0.1)

    file = tmp_path / "two.jsonl"
    with TrajectoryWriter(file) as writer:
        writer.write(episode(0, (turn("good", "a", 0.0), turn("done", "b", 1.0)), True))
        writer.write(episode(1, (turn("bad", "a", 0.0), turn("lost", "c", 0.0)), False))
    said = turncredit("show", file, "scale=none", "gamma=0.5")
    # returns 0.5 and 0 in state a: step +0.25 and -0.25; episode scores 1 and 0: +0.5 and -0.5
    assert re.search(r"1 +\+0\.750 +\+0\.500 +\+0\.250 +S1x2 +good", said.out), said.out
    assert re.search(r"2 +\+0\.500 +\+0\.500 +0\.000 +- +done", said.out)
    assert re.search(r"1 +-0\.750 +-0\.500 +-0\.250 +S1x2 +bad", said.out)
    assert re.search(r"S1x2 +in a\n +\+0\.750 +1 x +good\n +-0\.750 +1 x +bad", said.out)


def test_show_prints_episodes_that_went_the_same_way_once(tmp_path: Path, turncredit: Call) -> None:
    from turncredit.agents.files.trajectory_files import TrajectoryWriter
    from turncredit.agents.trajectory import Trajectory, Turn

    file = tmp_path / "three.jsonl"
    with TrajectoryWriter(file) as writer:
        for member, action in enumerate(("left", "right", "left")):
            turn = Turn((), (), (), 0, "a fork", action, action, "fork", float(action == "left"), True)
            writer.write(
                Trajectory(f"t#{member}@0", "t", None, 0, (turn,), "terminated", True, 1.0, "z", "", None, 0.1)
            )
    said = turncredit("show", file)
    assert re.search(r"t#0@0: won.*\n  t#2@0: won.*\n  turn .*\n +1 .* left.*\n\n  t#1@0", said.out), said.out
    assert len(re.findall(r"^ +1 .* (?:left|right)", said.out, re.MULTILINE)) == 2


def test_a_torn_line_is_said_and_the_rest_is_shown(tmp_path: Path, turncredit: Call) -> None:
    file = tmp_path / "torn.jsonl"
    assert turncredit("eval", "expert", ENV, "--episodes", 2, "--trajectories", file).code == 0
    file.write_bytes(file.read_bytes()[:-20])
    said = turncredit("show", file)
    assert said.code == 0
    assert "warning:" in said.err
    assert "1 trajectories" in said.out


@pytest.mark.parametrize("before", [True, False])
def test_an_evaluation_that_is_interrupted_at_once_names_no_file_that_does_not_exist(
    turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    from turncredit.evaluation import evaluation

    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    file, result = tmp_path / "episodes.jsonl", tmp_path / "result.json"
    if before:
        file.write_text("")
    monkeypatch.setattr(evaluation, "evaluate", press)
    words = ("eval", "random", "toys.corridor:toys/Corridor-v0", "--episodes", "5", "--output", str(result))
    done = turncredit(*words, "--trajectories", str(file))
    said = " ".join(done.err.split())
    assert done.code == 130
    assert f"0 of 5 episodes were finished; {file} {'is as it was before' if before else 'was not written'}" in said
    assert f"{result} was not written" in said
    assert "they are in" not in said
    assert file.exists() == before
