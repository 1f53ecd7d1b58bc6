"""Examples of the package by their names, in every command that takes the file of a run, and their list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from toys.commands import Call

from turncredit.cli.doctor import EXTRAS
from turncredit.cli.errors import UserError
from turncredit.cli.listing.examples import FOLDER, examples, run_file
from turncredit.cli.train import load_run

RUNS = sorted(path.stem for path in FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", ["demo", "demo.toml", "examples/demo.toml", "./examples/demo", "examples/demo"])
def test_an_example_is_known_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_file(Path(name)) == FOLDER / "demo.toml"
    assert capsys.readouterr().err == f"there is no {Path(name)} here; the example {FOLDER / 'demo.toml'} is used\n"
    assert load_run(Path(name), ["seed=3"], None).seed == 3


@pytest.mark.parametrize("name", ["demo", "demo.toml", "examples/demo.toml"])
def test_a_file_of_the_user_comes_first(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('name = "mine"\n[env]\nid = "turncredit/Household-v0"\n', encoding="utf-8")
    assert load_run(Path(name), [], None).name == "mine"


@pytest.mark.parametrize("name", ["runs/demo.toml", "demo.json", "../examples/demo.toml", "dmeo", "examples/dmeo.toml"])
def test_other_paths_are_no_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"does not exist; .*an example of `turncredit list examples`; did you mean .*demo"
    ):
        load_run(Path(name), [], None)
    with pytest.raises(UserError, match=r"`turncredit list examples`$"):
        load_run(Path("zzzzz.toml"), [], None)


def test_one_of_several_processes_says_which_file_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    assert run_file(Path("demo")) == FOLDER / "demo.toml"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["plan", "demo"], ["ablate", "demo", "credit=grpo", "train.grops=2"]])
def test_commands_take_the_name(
    words: list[str], turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = turncredit(*words)
    assert "demo.toml is used" in result.err
    assert (result.code == 0) or "did you mean 'train.groups'" in result.err


def test_every_example_says_what_it_does_and_needs(turncredit: Call) -> None:
    listed = examples()
    assert [example.name for example in listed if "." not in example.name] == RUNS
    assert {example.name for example in listed if "." in example.name} == {
        "my_tools.py",
        "parcels.py",
        "slurm.sh",
        "kuberay.yaml",
    }
    for example in listed:
        assert example.about, example.name
        assert ". " not in example.about, f"{example.name}: one sentence"
        assert "Needs" not in example.about
        assert example.needs.startswith("the extra") or not example.name.isidentifier(), example.name
    text = turncredit("list", "examples").out
    assert all(re.search(rf"^{re.escape(example.name)}  +\S", text, re.MULTILINE) for example in listed)
    assert text.endswith(f"The files lie in {FOLDER}\n")


def test_what_examples_need_is_an_extra() -> None:
    for example in examples():
        match = re.search(r"the extras? ([\w-]+(?:, [\w-]+)*(?: and [\w-]+)?)", example.needs)
        names = re.split(r", | and ", match[1]) if match else []
        assert set(names) <= set(EXTRAS), example.name
