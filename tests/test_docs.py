"""The examples in the documents run, in the order in which they are read; the tables name what exists."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
DOCUMENTS += sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))


def blocks(name: str, language: str = "python") -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if blocks(name)])
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(f"documented_{Path(name).stem.lower()}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # so that what the example defines can be pickled
    for number, block in enumerate(blocks(name), start=1):
        exec(compile(block, f"{name}, example {number}", "exec"), vars(module))


def test_the_example_of_the_readme_does_what_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("README.md")
    assert len(block.split("\n\n\n")[-1].splitlines()) < 20
    seen: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), seen)
    episodes = capsys.readouterr().out.strip().split("\n\n")
    assert len(episodes) == 8
    assert all("won True" in text for text in episodes)
    assert any(line.startswith("-") for text in episodes for line in text.splitlines()[1:])
    assert seen["row"] == sum(len(text.splitlines()) - 1 for text in episodes)


def test_the_examples_of_contributing_are_there() -> None:
    text = "\n".join(blocks("CONTRIBUTING.md"))
    assert "(TextEnv)" in text
    assert "Advantages" in text
    assert "assert report.ok" in text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in link:
            assert ((ROOT / name).parent / link).exists(), f"{name} links to {link}"


def test_the_commands_in_the_documents_exist() -> None:
    from typer.main import get_command

    from turnwise.cli.main import app

    known = set(getattr(get_command(app), "commands"))  # noqa: B009
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        for word in re.findall(r"`turnwise ([a-z]+)", text):
            assert word in known, f"{name} speaks of `turnwise {word}`"


def test_the_table_of_turns_names_the_fields_of_a_turn() -> None:
    from turnwise.agents.trajectory import Trajectory, Turn

    text = (ROOT / "docs/trajectories.md").read_text(encoding="utf-8")
    for field in (*Trajectory.__slots__, *Turn.__slots__):
        assert f"`{field}`" in text
