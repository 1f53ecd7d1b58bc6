"""`turncredit demo`: what it trains and says, and folders that are taken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from toys.commands import Call, one_sentence


def test_a_demo_trains_evaluates_draws_and_says_where(turncredit: Call, run_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "demo"
    words = ("demo", "--config", run_file, "--method", "grpo", "--seed", 1, "--output", folder)
    said = turncredit(*words)
    assert said.code == 0, said.err
    for part in (
        "warm start",
        "trained",
        "all tasks",
        "McNemar",
        "success while training",
        "play --policy",
        "turncredit report",
    ):
        assert part in said.out
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert 'method = "grpo"' in (folder / "run.toml").read_text()
    one_sentence(turncredit(*words), "already holds a run")


def test_a_demo_without_evaluation_is_refused(turncredit: Call, run_file: Path, tmp_path: Path) -> None:
    one_sentence(
        turncredit("demo", "--config", run_file, "--output", tmp_path / "x", "evaluation.episodes=0"),
        "evaluation.episodes",
    )


def test_a_quick_demo_has_one_file(turncredit: Call, run_file: Path) -> None:
    one_sentence(turncredit("demo", "--quick", "--config", run_file), "--quick", "--config", "one of them")


@pytest.mark.slow
def test_a_quick_demo_improves_beyond_the_noise(
    turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turncredit.evaluation.comparison import compare
    from turncredit.evaluation.results import EvaluationResult

    monkeypatch.chdir(tmp_path)
    said = turncredit("demo", "--quick")
    assert said.code == 0, said.err
    folder = Path("runs/demo-quick-gigpo-0")
    before, after = (EvaluationResult.load(folder / f"{name}.json") for name in ("before", "after"))
    comparison = compare(before, after)
    assert (after.summary().success.value or 0) > (before.summary().success.value or 1)
    assert comparison.p_success < comparison.alpha
    assert f"turncredit eval {folder} --episodes 500 --trust" in said.out


def test_demo_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turncredit.cli.demo import choose_folder

    monkeypatch.chdir(tmp_path)
    first = Path("runs/demo-gigpo-0")
    assert choose_folder(None, "demo-gigpo-0") == (first, False)
    first.mkdir(parents=True)
    (first / "run.toml").touch()
    assert choose_folder(None, "demo-gigpo-0") == (first, True)
    (first / "after.json").touch()
    assert choose_folder(None, "demo-gigpo-0") == (Path("runs/demo-gigpo-0-2"), False)
    assert choose_folder(first, "demo-gigpo-0") == (first, False)


@pytest.mark.parametrize(("words", "rule"), [((), "hgpo"), (("--method", "grpo"), "grpo")])
def test_the_rule_is_that_of_the_file_unless_it_is_named(
    turncredit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], rule: str
) -> None:
    from turncredit.training.config.run import Run

    seen: list[Run] = []

    def stop(run: Run, **_: object) -> None:
        seen.append(run)
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("turncredit.cli.demo.train_with_progress", stop)
    assert turncredit("demo", *words).code == 130
    assert (seen[0].credit.method, seen[0].folder) == (rule, Path(f"runs/demo-{rule}-0"))


def test_a_second_run_in_the_same_folder_is_refused(turncredit: Call, trained: Path) -> None:
    import fcntl

    with (trained / ".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        one_sentence(turncredit("train", trained, "--resume"), "already training in")


def copy_of_the_sources(folder: Path) -> Path:
    skipped = shutil.ignore_patterns(".*", "tests", "docs", "runs", "build", "*.egg-info", "__pycache__")
    shutil.copytree(Path(__file__).parents[2], folder, ignore=skipped)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("build", ["build_wheel", "build_editable"])
def test_an_installation_prints_no_warning(tmp_path: Path, build: str) -> None:
    """As `pip install .` and the Makefile build it."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    (told,) = re.findall(r"export PYTHONWARNINGS := (.*)", makefile)
    source = copy_of_the_sources(tmp_path / "source")
    code = f"import setuptools.build_meta as b; b.{build}({str(tmp_path)!r})"
    env = {**os.environ, "PYTHONWARNINGS": told if build == "build_editable" else ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=env, check=True, capture_output=True, text=True, timeout=300
    )
    assert "Warning" not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_demo_of_an_installed_wheel_has_its_settings(tmp_path: Path) -> None:
    """Built from a copy of the sources and unpacked where nothing else of the repository is."""
    source, site = copy_of_the_sources(tmp_path / "source"), tmp_path / "site"
    code = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    assert (site / "turncredit/py.typed").is_file()
    assert (site / "turncredit/envs/household/domain.pddl").is_file()
    words = ["demo", "imitation.episodes=0", "--output", str(tmp_path / "run")]  # refused once the settings were read
    done = subprocess.run(
        [sys.executable, "-m", "turncredit.cli.main", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "a new policy needs demonstrations to train its tokenizer" in done.stderr
