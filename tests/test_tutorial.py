"""The tutorial does what it prints: its files and commands run in an empty folder, as a script and as a notebook."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs/theme"))
from notebook import Block, cells, notebook, read_blocks  # noqa: E402

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
BLOCKS = read_blocks(PAGE)
SHORT = {
    "episodes = 1000": "episodes = 40",
    "iterations = 20": "iterations = 1",
    "groups = 16": "groups = 2",
    "episodes = 200": "episodes = 4",
    "train.iterations=5": "train.iterations=1",
}
"""What makes the tutorial short: the same commands, with less of everything."""
MEASURED = ("train", "ablate", "compare", "report")
"""Commands whose numbers depend on the processor."""
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}


def shortened(text: str) -> str:
    for long, short in SHORT.items():
        text = text.replace(long, short)
    return text


def same(wanted: str, got: str) -> bool:
    """Return whether a text was printed, with "..." for what the page leaves out."""
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def masked(text: str) -> str:
    """Return a text without its numbers and their alignment."""
    return re.sub(r"[+-]?\d[\d.,e-]*", "#", text)


def run(block: Block, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", block.content], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=1100
    )
    assert done.returncode == 0, f"{block.content}{done.stdout}{done.stderr}"
    return done.stdout


def played(folder: Path) -> dict[str, str]:
    """Write the files and run the commands of the page; return what each command printed."""
    printed: dict[str, str] = {}
    for number, block in enumerate(BLOCKS):
        if block.kind == "file":
            (folder / block.name).write_text(block.content, encoding="utf-8")
        if block.kind != "commands":
            continue
        name = re.findall(r"turncredit (\w+)", block.content)[-1]
        # a comparison of rules takes minutes, and its numbers stand in a table that is not compared
        out = run(Block("commands", shortened(block.content)) if name == "ablate" else block, folder)
        printed[name] = out
        following = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else block
        if following.kind != "output":
            continue
        if name in MEASURED:
            assert same(masked(following.content), masked(out)), f"{block.content}{out}"
        else:
            assert same(following.content, out), f"{block.content}{out}"
    return printed


def test_the_page_has_the_steps_of_a_first_hour() -> None:
    commands = "".join(block.content for block in BLOCKS if block.kind == "commands")
    assert re.findall(r"turncredit (\w+)", commands) == [
        *("check", "play", "eval", "eval", "eval", "train", "compare", "eval", "report", "ablate")
    ]
    assert {block.name for block in BLOCKS if block.kind == "file"} == {"my_world.py", "run.toml"}
    (file,) = (block for block in BLOCKS if block.name == "run.toml")
    assert len(file.content.splitlines()) == 10
    for key in SHORT:
        assert sum(block.content.count(key) for block in BLOCKS if block.kind in ("file", "commands")) == 1, key


def test_the_world_of_the_page_is_that_of_the_example() -> None:
    (file,) = (block for block in BLOCKS if block.name == "my_world.py")
    example = (ROOT / "examples/parcels.py").read_text(encoding="utf-8")
    assert file.content.replace('"mine/', '"examples/') == example


def test_the_notebook_is_made_of_the_page() -> None:
    assert (ROOT / "docs/tutorial.ipynb").read_text(encoding="utf-8") == notebook(PAGE), "python docs/theme/notebook.py"
    kinds = [kind for kind, _ in cells(PAGE)]
    assert kinds.count("code") == sum(block.kind in ("file", "commands") for block in BLOCKS)


@pytest.mark.slow
def test_the_tutorial_ends_with_an_agent_that_improved_beyond_the_noise(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from turncredit.evaluation.comparison import compare
    from turncredit.evaluation.results import EvaluationResult

    played(tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    before, after = (EvaluationResult.load(tmp_path / f"runs/parcels/{name}.json") for name in ("before", "after"))
    comparison = compare(before, after)
    assert len(before.panel.tasks) == 200
    assert (after.summary().success.value or 0) > (before.summary().success.value or 1)
    assert comparison.p_success < comparison.alpha


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", ENVIRONMENT["PATH"])
    book = nbformat.reads(shortened(json.dumps(json.loads((ROOT / "docs/tutorial.ipynb").read_text("utf-8")))), 4)
    nbformat.validate(book)
    client.NotebookClient(
        book, timeout=280, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    texts = [output.get("text", "") for cell in book.cells for output in cell.get("outputs", ())]
    assert any("keeps the contract" in text for text in texts)
    assert any("evaluation at 1 " in text for text in texts)
