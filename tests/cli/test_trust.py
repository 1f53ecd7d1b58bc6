"""What a file names is not run: registered and installed names only, unless the user types the name or `--trust`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from toys import corridor
from toys.commands import Call, one_sentence

from turncredit.cli.command_line import resume_command
from turncredit.registry import Untrusted, names_from_files, require_trust
from turncredit.report.run_report.report_data import open_report
from turncredit.report.run_report.server import LiveServer
from turncredit.training.config.file_options import needs_trust, require_safe_run
from turncredit.training.config.run import Run

EVIL = """
from pathlib import Path
from turncredit.credit import gigpo

Path("ran").touch()

def rule(steps):
    return gigpo(steps)
"""
Stranger = Callable[..., Path]


@pytest.fixture
def stranger(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    """Return a run folder of somebody else in the working directory, beside a module that tells when it is imported."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/evil.py").write_text(EVIL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def make(*changes: tuple[str, str], keys: str = "") -> Path:
        for name in [name for name in sys.modules if name.partition(".")[0] == "folder"]:
            monkeypatch.delitem(sys.modules, name)
        (tmp_path / "ran").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "theirs", ignore_errors=True)
        shutil.copytree(trained, tmp_path / "theirs")
        file = tmp_path / "theirs/run.toml"
        text = file.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file.write_text(text + keys, encoding="utf-8")
        return Path("theirs")

    return make


def method_of(folder: Path) -> tuple[str, str]:
    return (f'method = "{Run.load(folder / "run.toml").credit.method}"', 'method = "folder.evil:rule"')


@pytest.mark.parametrize(
    "words", [["show"], ["credit"], ["report", "--output", "page.html"], ["audit"], ["credit", "--json"]]
)
def test_a_rule_that_a_file_names_is_left_out(
    turncredit: Call, trained: Path, stranger: Stranger, words: list[str]
) -> None:
    folder = stranger(method_of(trained))
    said = turncredit(words[0], folder, *words[1:])
    assert said.code == 0, said.err
    assert not Path("ran").exists()
    if words != ["audit"]:
        assert "left out: the credit rule 'folder.evil:rule' is code that a file names; --trust lets it run" in said.err
        trusted = turncredit(words[0], folder, *words[1:], "--trust")
        assert trusted.code == 0, trusted.err
        assert Path("ran").exists()
        assert "left out" not in trusted.err


def test_a_live_report_answers_without_the_rule_of_the_file(
    trained: Path, stranger: Stranger, turncredit: Call
) -> None:
    from turncredit.registry import names_from_files

    folder = stranger(method_of(trained))
    with names_from_files():
        server = LiveServer(open_report(folder))
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            for path in ("", "news?since=0", "turns/1"):
                assert urllib.request.urlopen(server.url + path, timeout=60).status == 200
        finally:
            server.close()
            thread.join()
    assert not Path("ran").exists()


def test_names_that_the_user_typed_are_loaded(turncredit: Call, trained: Path, stranger: Stranger) -> None:
    folder = stranger()
    said = turncredit("show", folder, "--credit", "grpo,folder.evil:rule")
    assert said.code == 0, said.err
    assert Path("ran").exists()
    assert str(Path.cwd()) not in sys.path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('parser = "bare"', 'parser = "folder.evil:rule"'), ["eval", "theirs"]),
        (('template = "plain"', 'template = "folder.evil:rule"'), ["play", "--policy", "theirs"]),
        (('id = "toys/Corridor-v0"', 'id = "folder.evil:toys/Corridor-v0"'), ["eval", "theirs"]),
        (('id = "toys/Corridor-v0"', 'id = "folder.evil:toys/Corridor-v0"'), ["play", "--policy", "theirs"]),
        (('id = "toys/Corridor-v0"', 'id = "folder.evil:toys/Corridor-v0"'), ["report", "theirs", "--screens", "1"]),
        (('id = "toys/Corridor-v0"', 'id = "folder.evil:toys/Corridor-v0"'), ["plan", "theirs"]),
        (('id = "toys/Corridor-v0"', 'id = "folder.evil:toys/Corridor-v0"'), ["train", "theirs", "--resume"]),
        (("lengths = [3]", 'lengths = "folder/evil.py"'), ["eval", "theirs"]),
        (("lengths = [3]", 'lengths = ["folder/evil.py"]'), ["play", "--policy", "theirs"]),
        (("lengths = [3]", 'lengths = ["folder"]'), ["report", "theirs", "--screens", "1"]),
        (("lengths = [3]", 'lengths = ["~/x"]'), ["train", "theirs", "--resume"]),
    ],
)
def test_what_cannot_go_on_stops_with_one_sentence(
    turncredit: Call, stranger: Stranger, change: tuple[str, str], words: list[str]
) -> None:
    stranger(change)
    one_sentence(turncredit(*words), "--trust")
    assert not Path("ran").exists()


def test_a_run_is_continued_with_the_names_of_its_file_only_on_trust(
    turncredit: Call, trained: Path, stranger: Stranger
) -> None:
    folder = stranger(method_of(trained), ("steps = 2", "steps = 3"))
    one_sentence(turncredit("train", folder, "--resume"), "folder.evil:rule", "--trust")
    assert not Path("ran").exists()
    assert resume_command(folder) == "turncredit train theirs --resume --trust"
    said = turncredit("train", folder, "--resume", "--trust")
    assert said.code == 0, said.err
    assert Path("ran").exists()
    assert resume_command(trained) == f"turncredit train {trained} --resume"


def test_the_file_of_a_run_that_the_user_names_is_their_own_program(
    turncredit: Call, trained: Path, stranger: Stranger, tmp_path: Path
) -> None:
    folder = stranger(method_of(trained))
    said = turncredit("train", folder / "run.toml", "--output", tmp_path / "again", "train.iterations=1")
    assert said.code == 0, said.err
    assert Path("ran").exists()


@pytest.mark.parametrize(
    ("options", "trusted"),
    [
        ({"device": "emulator-5554"}, False),
        ({"observation": "text"}, True),
        ({"device": None}, True),
    ],
)
def test_options_that_act_on_something_outside_need_trust(options: dict[str, Any], trusted: bool) -> None:
    run = Run.parse({"env": {"id": "turncredit/Android-v0", "kwargs": options}})
    assert needs_trust(run) is not trusted


@pytest.mark.parametrize(
    ("word", "trusted"),
    [
        ("policy.device=cuda:0", True),
        ("cluster.address=127.0.0.1:6379", True),
        ("sampling.judge=transformers:Qwen/Qwen3-8B", True),
        ("agent.image_note=image:gone", True),
        ("credit.method=folder.evil:rule", False),
        ("sampling.tasks=folder.evil:rule", False),
        ("objective.name=folder.evil:rule", False),
    ],
)
def test_a_colon_in_a_value_is_not_always_the_name_of_code(word: str, trusted: bool) -> None:
    assert needs_trust(Run.parse({}, [word])) is not trusted


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("credit=mine:rule:gamma=0.9,grpo", "mine:rule"),
        ("credit=grpo:objective.name=mine:loss:power=2", "mine:loss"),
        ("sampling.tasks=uniform,mine.rules:near:target=0.3", "mine.rules:near"),
        ('sampling.groups=["mine:one_more"]', "mine:one_more"),
        ("mine:examples/Mine-v0", "mine:examples/Mine-v0"),
    ],
)
def test_a_typed_name_is_found_in_every_syntax_and_no_other_one_is(word: str, name: str) -> None:
    with names_from_files([word]):
        require_trust(name, "rule")
        for other in ("mine:other", "evil:rule", f"{name}x", f"x{name}"):
            with pytest.raises(Untrusted):
                require_trust(other, "rule")


@pytest.mark.parametrize(
    ("part", "trusted"),
    [
        ({"id": "turncredit/Android-v0", "kwargs": {"device": "emulator-5554"}}, False),
        ({"id": "turncredit/Android-v0", "evaluation": {"device": "emulator-5554"}}, False),
        ({"id": "turncredit/Search-v0", "kwargs": {"levels": ["tiny"], "keep": "indexes"}}, False),
        ({"id": "folder.evil:toys/Corridor-v0"}, False),
        ({"id": "turncredit/Search-v0", "kwargs": {"levels": ["tiny"]}}, True),
    ],
)
def test_options_and_names_of_a_part_need_trust_like_those_of_one_environment(
    part: dict[str, Any], trusted: bool
) -> None:
    run = Run.parse({"env": {"mix": [{"id": "turncredit/Household-v0"}, part]}})
    assert needs_trust(run) is not trusted
    with names_from_files():
        with nullcontext() if trusted else pytest.raises(Untrusted, match="--trust"):
            require_safe_run(run)
        require_safe_run(run, ["env.mix=[]"])  # what the file says is not used


def test_a_panel_file_names_no_module(turncredit: Call, stranger: Stranger) -> None:
    stranger()
    said = turncredit("eval", "random", "toys/Corridor-v0", "lengths=[3]", "--panel", "panel.json", "--episodes", "2")
    assert said.code == 0, said.err
    stored = json.loads(Path("panel.json").read_text(encoding="utf-8"))
    panel = stored["panel"]
    panel["env"] = "folder.evil:toys/Corridor-v0"
    Path("panel.json").write_text(json.dumps(stored), encoding="utf-8")
    one_sentence(turncredit("eval", "random", "--panel", "panel.json"), "folder.evil:toys/Corridor-v0", "--trust")
    assert not Path("ran").exists()
    panel |= {"env": "turncredit/Mixture-v0", "kwargs": {"parts": [{"id": "folder.evil:toys/Corridor-v0"}]}}
    Path("panel.json").write_text(json.dumps(stored), encoding="utf-8")
    one_sentence(turncredit("eval", "random", "--panel", "panel.json"), "folder.evil:toys/Corridor-v0", "--trust")
    assert not Path("ran").exists()
    panel |= {"env": "toys/Corridor-v0", "kwargs": {"lengths": "folder"}}
    Path("panel.json").write_text(json.dumps(stored), encoding="utf-8")
    one_sentence(turncredit("eval", "random", "--panel", "panel.json"), "lengths", "--trust")


SUITE = """
name = "theirs"
about = "Somebody's panels."
[[panels]]
name = "code"
env = "folder.evil:toys/Corridor-v0"
episodes = 1
[[panels]]
name = "device"
env = "turncredit/Android-v0"
kwargs = { device = "emulator-5554" }
episodes = 1
[[panels]]
name = "harmless"
env = "toys/Corridor-v0"
kwargs = { lengths = [3] }
episodes = 1
"""


def test_a_suite_of_somebody_else_is_played_without_what_needs_trust(turncredit: Call, stranger: Stranger) -> None:
    stranger()
    Path("suite.toml").write_text(SUITE, encoding="utf-8")
    said = turncredit("bench", "random", "--suite", "suite.toml", "--output", "results")
    assert said.code == 0, said.err
    assert said.out.count("--trust") >= 2
    assert "[3/3] harmless: " in said.out
    assert not Path("ran").exists()


STAND_IN = "from pathlib import Path\nPath('ran').touch()\nraise ImportError('a stand-in')\n"
OPTIONAL = ("simplejson", "peft", "vllm", "wandb", "bitsandbytes", "spacy", "docker", "ray", "miniwob", "gguf")


@pytest.mark.parametrize(
    "words", ["doctor", "list envs", "eval random turncredit/Household-v0 level=tiny --episodes 1"]
)
def test_modules_of_the_working_directory_do_not_stand_in_for_packages(tmp_path: Path, words: str) -> None:
    for name in OPTIONAL:
        (tmp_path / f"{name}.py").write_text(STAND_IN, encoding="utf-8")
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[gymnasium.envs]\n__root__ = simplejson:register\n", encoding="utf-8")
    program = [sys.executable, "-P", "-m", "turncredit.cli.main"]
    said = subprocess.run([*program, *words.split()], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert said.returncode in (0, 1), said.stderr
    assert not (tmp_path / "ran").exists()


ROOMS = """
from toys.corridor import Corridor
from turncredit.envs import register

class Rooms(Corridor):
    pass

register("mine/Rooms-v0", Rooms, max_episode_steps=9)
"""


def test_environments_of_the_working_directory_also_live_in_other_processes(tmp_path: Path) -> None:
    (tmp_path / "my_rooms.py").write_text(ROOMS, encoding="utf-8")
    toys = str(Path(corridor.__file__).parent.parent)
    code = f"import sys; sys.path.append({toys!r}); from turncredit.cli.main import main; main()"
    words = ["eval", "random", "my_rooms:mine/Rooms-v0", "--episodes", "2", "--workers", "1"]
    said = subprocess.run(
        [sys.executable, "-P", "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert said.returncode == 0, said.stderr
    assert "mine/Rooms-v0" in said.stdout
