"""The examples in the documents run, in the order in which they are read; the tables name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

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


@pytest.mark.waits
def test_examples_run_in_a_browser() -> None:
    from toys.chromium import need_chromium

    need_chromium(miniwob=True)
    for number, block in enumerate(blocks("docs/miniwob.md", "python browser"), start=1):
        exec(compile(block, f"docs/miniwob.md, example {number}", "exec"), {})


@pytest.mark.parametrize("name", ["env-household.svg", "env-search.svg", "env-shop.svg", "env-tools.svg"])
def test_pictures_show_what_the_environments_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs/theme")
    from pictures import TRANSCRIPTS

    assert TRANSCRIPTS[name]() == (ROOT / "docs" / name).read_text(encoding="utf-8"), "python docs/theme/pictures.py"


def test_the_readme_prints_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("README.md")
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == blocks("README.md", "text")[0]


def test_what_the_readme_counts() -> None:
    pytest.importorskip("torch")
    import gymnasium

    import turncredit.envs  # noqa: F401
    from turncredit.cli.reference.cases import read_cases
    from turncredit.credit import rules
    from turncredit.training.objectives import objectives

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = " ".join(readme.split())
    ours = {name for name, rule in rules().items() if rule.function.__module__.startswith("turncredit.")}
    for count in re.findall(r"(\d+) (?:published )?credit rules", text):
        assert int(count) == len(ours)
    assert f"the {len(objectives())} training objectives" in text
    cases = sum(len(read_cases(path)) for path in (ROOT / "cli/reference").glob("*.json"))
    assert f"{cases} recorded cases" in text
    registered = {name for name in gymnasium.registry if name.startswith("turncredit/")}
    pages = {name for name in registered if name.startswith("turncredit/MiniWoB-")}
    listed = set(re.findall(r"^\| `(turncredit/[^`*]+)` \|", readme, re.MULTILINE))
    assert listed == registered - pages
    section = readme.partition("## Credit rules")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_`, ]+)` \|.*\|.*\|$", section, re.MULTILINE)
    assert {name for row in rows for name in row.split("`, `")} <= ours


def test_the_readme_names_the_packages_that_are_installed_and_loaded() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.match(r"[a-z]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]
    (sentence,) = re.findall(r"depends on (\w+) packages: ([^.]+)\.", " ".join(text.split()))
    assert sentence[0] == {7: "seven", 8: "eight", 6: "six"}[len(core)]
    assert set(re.split(r", | and ", sentence[1])) == core
    table = re.findall(r"^\| `(turncredit\.[a-z.]+)` \| ([a-z, ]+) \|$", text, re.MULTILINE)
    assert len(table) == 6
    for module, packages in table:
        if "torch" in packages:
            pytest.importorskip("torch")
        code = f"import sys, {module}; print(*sorted(set(sys.modules) & {core | {'torch', 'transformers'}}))"
        found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
        assert set(found.stdout.split()) == set(packages.split(", ")), module


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


@pytest.mark.parametrize("name", [*DOCUMENTS, "SECURITY.md"])
def test_texts_of_links_are_titles_and_not_names_of_pages(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.findall(r"\[[\w./-]+\.md\]\(", text)


def test_the_site_lists_every_page() -> None:
    listed = set(re.findall(r"[\w/]+\.md\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}  # which the site shows as map.md
    assert pages | {"map.md"} <= listed


def test_the_map_says_what_each_folder_may_import() -> None:
    from test_layers import MAY_IMPORT

    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)/\]\(.*\| ([\w, ]+) \|$", text.partition("The rooms of")[0], re.MULTILINE)
    others = {"no other folder": set(), "all": MAY_IMPORT["cli"]}
    table = {
        folder: others[cell] if cell in others else set(cell.replace("types of ", "").split(", "))
        for folder, cell in rows
    }
    assert table == MAY_IMPORT


VERL_AGENT = {"env.rollout", "env.max_steps", "env.history_length"}
"""Keys of another project in docs/coming_from.md that look like ours."""


def code_in(name: str) -> list[str]:
    """Return the inline code of a document, and the lines of its blocks other than Python."""
    flags = re.DOTALL | re.MULTILINE
    text = re.sub(r"^```python[^\n]*\n.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=flags)
    fenced = re.findall(r"^```[a-z]*\n(.*?)^```$", text, flags)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=flags))
    foreign = "vf-eval"  # a configuration of verifiers
    return [*inline, *(line for block in fenced if foreign not in block for line in block.splitlines())]


@pytest.fixture(scope="module")
def program() -> Any:
    """The program's commands, which take a tenth of a second to build."""
    from typer.main import get_command

    from turncredit.cli.main import app

    return get_command(app)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_in_the_documents_exist_with_their_options(name: str, program: Any) -> None:
    for code in code_in(name):
        if not (words := re.findall(r"(?:^|[ $(])turncredit ([a-z][^`#|;]*)", code)):
            continue
        command = program
        for word in words[0].split():
            if not hasattr(command, "commands") or not re.fullmatch("[a-z]+", word):
                break
            assert word in command.commands, f"{name}: turncredit {words[0]}"
            command = command.commands[word]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"(?:^| )(--[a-z][a-z-]*)", words[0]):
            assert option in {*options, "--help"}, f"{name}: turncredit {words[0]}"


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "CHANGELOG.md"])  # which lists old keys
def test_configuration_keys_in_the_documents_exist(name: str, tmp_path: Path) -> None:
    from turncredit.engines.openai.options import OpenAIOptions
    from turncredit.evaluation.suite import Suite
    from turncredit.training.config.run import Run

    fields = {key: getattr(field.annotation, "model_fields", {}) for key, field in Run.model_fields.items()}
    sections = {key: set(keys) for key, keys in fields.items() if keys}
    # on the command line, options of the engine too, also those of the expert
    sections["sampler"] |= {"context", "noise", *OpenAIOptions.model_fields}
    for code in code_in(name):
        for section, key in re.findall(rf"(?<![\w./-])({'|'.join(sections)})\.([a-z_]+)\b(?![(\w/])", code):
            if f"{section}.{key}" in VERL_AGENT and name == "docs/coming_from.md":
                continue
            if key not in ("py", "md", "json", "toml", "unwrapped", "taskset", "player"):
                assert key in sections[section], f"{name}: {section}.{key}"
    for block in blocks(name, "toml"):
        table = tomllib.loads(block)
        if "panels" in table:
            (tmp_path / "suite.toml").write_text(block, encoding="utf-8")
            Suite.load(tmp_path / "suite.toml")
        elif "project" not in table and "vf-eval" not in block:
            Run.model_validate(table)


def test_the_table_of_turns_names_the_fields_of_a_turn() -> None:
    from turncredit.agents.trajectory import Trajectory, Turn

    text = (ROOT / "docs/trajectories.md").read_text(encoding="utf-8")
    for field in (*Trajectory.__slots__, *Turn.__slots__):
        assert f"`{field}`" in text
