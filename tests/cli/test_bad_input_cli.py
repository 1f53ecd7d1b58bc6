"""Bad input at the command line: one sentence, exit code 2, and nothing lost that was finished."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from toys.commands import one_sentence

Call = Any
ENV = "toys/Corridor-v0"
HOUSE = "turncredit/Household-v0"


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


# ---- games ----


@pytest.mark.parametrize("words", [("eval", "random", HOUSE), ("play", HOUSE), ("check", HOUSE)])
def test_missing_torn_and_absent_games(turncredit: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    games = tmp_path / "games"
    one_sentence(turncredit(*words, f"games={games}"), "no such file or folder")
    games.mkdir()
    one_sentence(turncredit(*words, f"games={games}"), "no games in", "game.tw-pddl")
    assert turncredit("data", "generate", games, "--count", "2", "--level", "tiny").code == 0
    file = sorted(games.rglob("game.tw-pddl"))[0]
    file.write_bytes(file.read_bytes()[:500])
    one_sentence(turncredit(*words, f"games={games}"), f"{file}, line 1", "damaged file")
    one_sentence(turncredit("data", "pack", games, tmp_path / "out.jsonl"), f"{file}, line 1", "damaged file")
    assert not (tmp_path / "out.jsonl").exists()


# ---- panels and results ----


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"tasks": 3}, "is not a panel: tasks"),
        ({"tasks": "abc"}, "is not a panel: tasks"),
        ({"tasks": [1, 2]}, "is not a panel: tasks.0"),
        ({"seed": "x"}, "is not a panel: seed"),
        ({"kwargs": [1]}, "is not a panel: kwargs"),
        ({"kwargs": {"lenghts": [3]}}, "did you mean 'lengths'"),
        ({"env": 3}, "is not a panel: env"),
        ({"env": "toys/Coridor-v0"}, "did you mean 'toys/Corridor-v0'"),
        ({"tasks": ["nothing"]}, "every episode failed; the first error: UnknownTask"),
        ({"seed": -1}, "greater or equal to zero"),
    ],
)
def test_panels_that_cannot_be_played(turncredit: Call, tmp_path: Path, change: dict[str, Any], part: str) -> None:
    panel = {"env": ENV, "kwargs": {}, "seed": 0, "tasks": ["open-3-1"], **change}
    (tmp_path / "panel.json").write_text(json.dumps({"version": 1, "panel": panel}))
    one_sentence(turncredit("eval", "random", "--panel", tmp_path / "panel.json"), part)


@pytest.mark.parametrize(
    ("key", "value"), [("won", "x"), ("score", None), ("turns", 1.5), ("task", [1]), ("stop", 3), ("unparsable", "x")]
)
def test_results_with_values_of_another_kind(turncredit: Call, tmp_path: Path, key: str, value: object) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    assert turncredit("eval", "random", ENV, "--episodes", 2, "--output", good).code == 0
    content = json.loads(good.read_text())
    content["rows"][1][key] = value
    bad.write_text(json.dumps(content))
    one_sentence(turncredit("compare", good, bad), f"{bad} is not an evaluation result: rows.1.{key}")


# ---- runs ----


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "seed=" + "9" * 5000, "\xff"], ids=["deep", "digits", "latin"])
def test_files_without_end_are_no_toml(turncredit: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "run.toml").write_text(text, encoding="latin-1")
    one_sentence(turncredit("train", tmp_path / "run.toml"), "is not a TOML file")


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("seed=" + "9" * 5000, "seed must be "),
        ("seed=" + "[" * 100_000, "seed must be "),
        ('output="a\\u0000b"', "output: "),
        ("train.lr=1e300", "train.lr must be <= 1"),
        ("objective.kl=nan", "objective.kl must be finite"),
        ("agent.max_tokens=500", "policy.context is 400, but the first prompt of a task has"),
    ],
)
def test_values_that_no_run_can_have(
    turncredit: Call, run_file: Path, tmp_path: Path, override: str, part: str
) -> None:
    folder = () if override.startswith("output") else ("--output", tmp_path / "run")
    one_sentence(turncredit("train", run_file, override, "train.iterations=1", *folder), part)


def test_a_checkpoint_with_the_tokenizer_of_another_is_refused(turncredit: Call, run_file: Path, copy: Path) -> None:
    from turncredit.training.learner.policy import build_tokenizer

    checkpoint = max((copy / "checkpoints").iterdir())
    build_tokenizer(["other words"], vocab=270).save_pretrained(checkpoint)
    one_sentence(turncredit("eval", checkpoint, ENV), "is damaged: tokenizer")
    text = run_file.read_text().replace(
        "new = { vocab = 300, hidden = 48, layers = 1, heads = 2 }\n", f'model = "{checkpoint}"\n'
    )
    (copy / "next.toml").write_text(text)
    one_sentence(turncredit("train", copy / "next.toml", "--output", copy / "next"), "is damaged: tokenizer")


def test_a_checkpoint_of_another_version_is_refused(turncredit: Call, copy: Path) -> None:
    from turncredit.training.run_folder.checkpoint import MANIFEST, manifest

    checkpoint = max((copy / "checkpoints").iterdir())
    state = json.loads((checkpoint / "state.json").read_text())
    unknown = {key: value for key, value in state.items() if key != "tasks"}
    for changed, part in (({**state, "version": 99}, "(99)"), (unknown, "it lacks tasks")):
        (checkpoint / "state.json").write_text(json.dumps(changed))
        (checkpoint / MANIFEST).write_text(json.dumps(manifest(checkpoint)))
        one_sentence(turncredit("train", copy, "--resume", "train.iterations=3"), "another version of turncredit", part)


def test_a_run_of_another_device_is_evaluated_on_the_cpu(turncredit: Call, copy: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the run's device")
    text = (copy / "run.toml").read_text()
    (copy / "run.toml").write_text(text.replace('device = "cpu"', 'device = "cuda"'))
    assert 'device = "cuda"' in (copy / "run.toml").read_text()
    said = turncredit("eval", copy, "--episodes", "1")
    assert said.code == 0, said.err


def test_a_context_that_is_outgrown_is_said(turncredit: Call, trained: Path) -> None:
    said = turncredit("eval", trained, "agent.max_tokens=330", "--episodes", "2")
    assert said.code == 0, said.err
    assert "ended as: tokens 2" in said.out


def test_results_do_not_destroy_each_other(turncredit: Call, tmp_path: Path) -> None:
    one = tmp_path / "one.jsonl"
    one_sentence(turncredit("eval", "expert", ENV, "--output", one, "--trajectories", one), "must name different files")
    turncredit("eval", "expert", ENV, "lengths=[3]", "--episodes", 2, "--trajectories", one)
    before = one.read_bytes()
    assert before.count(b"\n") == 2
    gone = turncredit("eval", "expert", ENV, "lengths=[3]", "--episodes", 2, "--trajectories", one, "agent.max_turns=x")
    one_sentence(gone, "max_turns must be an integer >= 1, got 'x'")
    assert one.read_bytes() == before


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("agent.max_tokens=2.5", "max_tokens must be an integer >= 1, got 2.5"),
        ("agent.max_turns=true", "max_turns must be an integer >= 1, got True"),
        ("agent.temperature=warm", "temperature must be a number, got 'warm'"),
        ("agent.stop=3", "stop must be a list of strings, got 3"),
        ("agent.prompt=3", "prompt must be a name or a table with a name, got 3"),
        ("agent.template=3", "template must be a name or a table of strings, got 3"),
        ("agent.parser=3", "parser must be a name, got 3"),
    ],
)
def test_options_of_an_agent_have_types(turncredit: Call, word: str, message: str) -> None:
    one_sentence(turncredit("eval", "random", ENV, "lengths=[3]", "--episodes", 1, word), message)


def test_a_panel_that_exists_is_not_played_with_other_arguments(turncredit: Call, tmp_path: Path) -> None:
    panel = tmp_path / "p.json"
    words = ("eval", "expert", ENV, "--episodes", 2, "--panel", panel)
    assert turncredit(*words, "lengths=[3]").code == 0
    assert turncredit(*words, "lengths=[3]").code == 0
    assert turncredit(*words).code == 0
    one_sentence(turncredit(*words, "lengths=[4]"), "is a panel with lengths=[3]; leave out lengths")
    one_sentence(turncredit(*words, "lenghts=[4]"), "leave out lenghts")


def test_a_server_without_http_is_not_taken_for_a_model(turncredit: Call) -> None:
    for url in ("127.0.0.1:8000/v1", "localhost/v1", "models.example.org/v1"):
        one_sentence(turncredit("eval", f"openai:m@{url}", ENV, "--episodes", 1), "must begin with http:// or https://")


def test_a_benchmark_without_its_state_is_not_continued(turncredit: Call, tmp_path: Path) -> None:
    suite, folder = tmp_path / "s.toml", tmp_path / "bench"
    suite.write_text(f'name="s"\n[[panels]]\nname="p"\nenv="{ENV}"\nkwargs={{lengths=[3]}}\nepisodes=2\n')
    assert turncredit("bench", "expert", "--suite", suite, "--output", folder).code == 0
    (folder / "state.json").unlink()
    one_sentence(turncredit("bench", "random", "--suite", suite, "--output", folder), "no state.json that says whose")


# ---- run folders ----


def test_a_finished_run_without_checkpoints_is_not_begun_again(turncredit: Call, copy: Path) -> None:
    shutil.rmtree(copy / "checkpoints")
    before = {name: (copy / name).read_bytes() for name in ("metrics.jsonl", "run.toml")}
    for words in ([], ["train.lr=1.0"]):
        one_sentence(turncredit("train", copy, "--resume", *words), "has no checkpoint", "choose another output")
    assert {name: (copy / name).read_bytes() for name in before} == before


def test_a_run_has_at_least_the_iterations_that_it_has(turncredit: Call, copy: Path) -> None:
    text = (copy / "run.toml").read_text()
    one_sentence(turncredit("train", copy, "--resume", "train.iterations=1"), "train.iterations must be >= 2", "got 1")
    assert (copy / "run.toml").read_text() == text


def test_the_remains_of_a_run_are_not_mixed_with_another(turncredit: Call, copy: Path, run_file: Path) -> None:
    (copy / "run.toml").unlink()
    (copy / "metrics.jsonl").unlink()
    one_sentence(turncredit("train", run_file, "--output", copy), "checkpoints", "but no run.toml")
    assert (copy / "checkpoints/000002").is_dir()


def test_copies_of_files_in_a_run_are_left_alone(turncredit: Call, copy: Path) -> None:
    (newest,) = (copy / "trajectories").glob("000002.*")
    shutil.copy(newest, newest.with_name(f"000002 (copy){newest.name[6:]}"))
    shutil.copy(copy / "evaluations/000000.json", copy / "evaluations/0_old.json")
    for words in (("show", copy), ("credit", copy), ("audit", copy, "--no-scores"), ("train", copy, "--resume")):
        said = turncredit(*words)
        assert said.code == 0, (words, said.err)


def test_an_audit_says_which_iterations_it_could_not_see(turncredit: Call, copy: Path) -> None:
    for number in (2, 1):
        next((copy / "trajectories").glob(f"00000{number}.*")).unlink()
        said = turncredit("audit", copy, "--no-scores").out
        assert f"not stored: iteration{'s 1 to 2' if number == 1 else ' 2'}" in said


def test_an_iteration_that_was_stopped_at_its_beginning_is_not_shown(turncredit: Call, copy: Path) -> None:
    (newest,) = (copy / "trajectories").glob("000002.*")
    newest.with_name("000003.jsonl").touch()
    assert "000002" in turncredit("show", copy).out


def test_a_start_that_failed_can_be_corrected(turncredit: Call, run_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    words = ("train", run_file, "--output", output, "evaluation.episodes=0", "train.iterations=1", "imitation.epochs=1")
    one_sentence(turncredit(*words, "agent.max_tokens=400"), "policy.context")
    # its demonstrations were played with the other limit: they are not thrown away without a word
    one_sentence(turncredit(*words, "--resume"), "agent.max_tokens changed since the warm start", "remove", "imitation")
    shutil.rmtree(output / "imitation")
    assert turncredit(*words, "--resume").code == 0


def test_an_older_checkpoint_is_used_only_with_a_word(turncredit: Call, copy: Path) -> None:
    (copy / "checkpoints/000002/model.safetensors").write_bytes(b"")
    said = turncredit("eval", copy, "--episodes", 1)
    assert said.code == 0
    assert "an older checkpoint is used" in said.err


def test_the_numbers_of_an_audit_fit_into_a_narrow_terminal(
    turncredit: Call, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = turncredit("audit", trained, "--no-scores").out
    assert "passed" in said
    assert "2 iterations" in said


# ---- options without effect ----


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "output=elsewhere"], "output=elsewhere has no effect in the demo; use --output"),
        (["demo", "credit.method=grpo"], "use --method"),
        (["report", "RUN", "--port", "8080"], "--port belongs to --live"),
        (["report", "RUN", "--megabytes", "inf"], "--megabytes"),
        (["ablate", "FILE", "train.lr=1e-3,1e-4", "train.lr=1"], "train.lr=1 has no effect, because the arms set"),
        (["ablate", "FILE", "credit=grpo,gigpo", "credit.method=grpo"], "credit.method=grpo has no effect"),
        (["ablate", "FILE", "credit=grpo,gigpo", "seeds=2", "seeds=3"], "seeds is given twice"),
        (["ablate", "RUN", "credit=grpo,gigpo"], "is not the folder of an ablation: it has no plan.json"),
        (["ablate", "--summary", "RUN"], "is not the folder of an ablation: it has no plan.json"),
        (["plan", "FILE", "policy.model=RUN", "policy.new.vocab=300"], "policy.new.vocab"),
        (["train", "FILE", "threads=100000"], "threads must be <= 1024"),
    ],
)
def test_options_without_effect_are_named(
    turncredit: Call, trained: Path, run_file: Path, words: list[str], message: str
) -> None:
    said = turncredit(*(word.replace("RUN", str(trained)).replace("FILE", str(run_file)) for word in words))
    assert said.code == 2, said.out
    assert message in " ".join(said.err.split())
    assert "Traceback" not in said.err


def test_what_a_model_wrote_does_not_control_the_terminal(turncredit: Call, trained: Path, tmp_path: Path) -> None:
    from turncredit.agents.files.trajectory_files import iteration_files, read_trajectories, to_json

    first = next(iter(iteration_files(trained / "trajectories").values()))
    episode = next(iter(read_trajectories(first)))
    turns = tuple(dataclasses.replace(turn, action="\x1b[2Jgo\x9d0;owned\x07 east") for turn in episode.turns)
    (tmp_path / "t.jsonl").write_text(to_json(dataclasses.replace(episode, turns=turns)) + "\n")
    said = turncredit("show", tmp_path / "t.jsonl").out
    assert r"\x1b[2Jgo\x9d0;owned\x07 east" in said
    assert not set("\x1b\x9d\x07") & set(said)
