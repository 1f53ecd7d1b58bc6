"""The program as a whole, and its commands that list and check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toys.commands import ENV, Call, one_sentence


def test_help_names_every_command_and_the_sentence_of_the_house(turncredit: Call) -> None:
    said = turncredit("--help")
    assert said.code == 0
    for command in ("demo", "play", "train", "eval", "compare", "show", "check", "list", "data"):
        assert re.search(rf"^  {command} ", said.out, re.MULTILINE)
    assert "step-level credit assignment" in said.out


def test_version(turncredit: Call) -> None:
    assert re.fullmatch(r"turncredit \d+\.\d+\.\d+\S*\n", turncredit("--version").out)


def test_wrong_commands_and_options_name_the_near_one(turncredit: Call) -> None:
    one_sentence(turncredit("tain"), "Did you mean 'train'?")
    one_sentence(turncredit("eval", "expert", ENV, "--episods", 3), "--episodes")
    one_sentence(turncredit("eval"), "AGENT", "turncredit eval --help")


def test_without_a_command_the_help_is_shown(turncredit: Call) -> None:
    assert "Commands:" in turncredit().out


def program(*words: str, **extra: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turncredit.cli.main", *words], capture_output=True, text=True, timeout=300, **extra
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from turncredit.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'torch', 'transformers', 'gymnasium', 'numpy', 'pydantic', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_a_fault_of_the_user_is_one_sentence_in_a_real_process() -> None:
    done = program("list", "env")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "did you mean 'envs'?" in done.stderr


def test_debugging_shows_the_traceback() -> None:
    done = program("list", "env", env={**os.environ, "TURNCREDIT_DEBUG": "1"})
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m turncredit.cli.main list keys | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("envs", "turncredit/Household-v0"),
        ("credit", "gigpo"),
        ("transforms", "hicra"),
        ("keys", "train.lr"),
    ],
)
def test_lists_name_what_exists(turncredit: Call, kind: str, name: str) -> None:
    said = turncredit("list", kind)
    assert said.code == 0
    assert re.search(rf"^{name}  +\S", said.out, re.MULTILINE), said.out


@pytest.mark.parametrize("kind", ["samplers", "prompts", "templates", "parsers"])
def test_everything_in_a_registry_is_listed_with_a_description(turncredit: Call, kind: str) -> None:
    from turncredit import engines
    from turncredit.agents.prompts import parsing, prompt, templates

    found = {"samplers": engines.SAMPLERS, "prompts": prompt.PROMPTS, "templates": templates.TEMPLATES}
    names = found.get(kind, parsing.PARSERS).names()
    lines = [line.split(maxsplit=1) for line in turncredit("list", kind).out.splitlines()]
    assert [line[0] for line in lines if line[0] != "PATH"] == names
    assert all(len(line) == 2 for line in lines)


def test_environments_with_many_variants_are_one_line(turncredit: Call) -> None:
    lines = [line for line in turncredit("list", "envs").out.splitlines() if "MiniWoB" in line]
    assert len(lines) == 1
    assert re.search(r"and \d+ variants turncredit/MiniWoB-TASK-v0", lines[0])
    assert turncredit("eval", "expert").err.count("MiniWoB") == 1


def test_without_a_kind_the_kinds_are_listed(turncredit: Call) -> None:
    said = turncredit("list")
    assert said.code == 0
    assert re.search(r"^turncredit list envs +environments$", said.out, re.MULTILINE)


def test_objectives_are_listed(turncredit: Call) -> None:
    pytest.importorskip("torch")
    said = turncredit("list", "objectives").out
    assert "aggregation=token-mean" in said
    assert all(part in said for part in ("gspo_token", "arXiv 2507.18071", "our reading", "correction=icepop"))


def test_check_passes_what_keeps_the_contract(turncredit: Call) -> None:
    said = turncredit("check", ENV, "lengths=[3]", "--tasks", 2)
    assert said.code == 0, said.out
    assert "keeps the contract" in said.out


def test_check_says_what_is_broken_and_how_to_see_it(turncredit: Call) -> None:
    import gymnasium
    from toys.corridor import Corridor

    class Forgetful(Corridor):
        """Says that it carries nothing in its state key, whatever it carries."""

        def _info(self, *, valid: bool) -> dict[str, Any]:
            return {**super()._info(valid=valid), "state": "always the same"}

    if "toys/Forgetful-v0" not in gymnasium.registry:
        gymnasium.register("toys/Forgetful-v0", entry_point=lambda **options: Forgetful(**options))
    said = turncredit("check", "toys/Forgetful-v0", "--tasks", 1)
    assert said.code == 1
    assert re.search(r"^ *failed", said.out, re.MULTILINE)
    assert "to reproduce:\n" in said.out
    assert "breaks" in said.out


def test_unknown_environments_are_named_with_the_near_one(turncredit: Call) -> None:
    for command in (("check",), ("play",), ("eval", "random")):
        one_sentence(turncredit(*command, "toys/Coridor-v0"), "toys/Corridor-v0")
    one_sentence(turncredit("play", ENV, "lenghts=[3]"), "lengths")
    one_sentence(turncredit("play", ENV, "--task", "open-9-9"), "open-9-9", "did you mean")
    one_sentence(turncredit("play", ENV, "lengths"), "key=value")


def test_modules_of_the_working_directory_are_found(tmp_path: Path) -> None:
    (tmp_path / "my_rooms.py").write_text(
        "from turncredit.envs import register\n"
        "from turncredit.envs.household.env import HouseholdEnv\n"
        "class Rooms(HouseholdEnv):\n"
        "    pass\n"
        'register("mine/Rooms-v0", "my_rooms:Rooms", max_episode_steps=9)\n'
    )
    program = [sys.executable, "-P", "-m", "turncredit.cli.main"]
    words = ["eval", "random", "my_rooms:mine/Rooms-v0", "--episodes", "1"]
    said = subprocess.run([*program, *words], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "mine/Rooms-v0" in said.stdout
