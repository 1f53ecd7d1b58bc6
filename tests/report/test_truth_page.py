"""The tables of docs/truth.md are those of the forks in docs/recorded_runs/truth, to the printed digit."""

from __future__ import annotations

import importlib.util
import re
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/truth.md").read_text(encoding="utf-8")
ARCHIVES = ROOT / "docs/recorded_runs/truth"
SECTIONS = {
    "household": ("Results in the household", (21, 30), ("rank", "against", "leak")),
    "phone": ("Results on the phone", (1,), ("rank", "against", "within", "leak")),
    "search": ("Results in search", (1,), ("rank", "against", "within", "leak")),
}
"""Archive -> its section, the iterations and the measures of its table, column by column."""


@pytest.fixture(scope="module")
def truth_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("truth_table", ROOT / "benchmarks/truth_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def section(title: str) -> str:
    match = re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[1]


def test_every_archive_has_a_section() -> None:
    assert {path.name.partition(".")[0] for path in ARCHIVES.iterdir()} == SECTIONS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_the_table_is_that_of_the_stored_forks(truth_table: ModuleType, tmp_path: Path, name: str) -> None:
    title, iterations, measures = SECTIONS[name]
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    measured = {number: truth_table.scores_of(tmp_path / f"truth-{name}", number) for number in iterations}
    text = section(title)
    table = re.findall(r"^\| `(\w+)` \| (.*?) ?\|$", text, re.MULTILINE)
    assert len(table) > 10
    for rule, cells in table:
        expected = []
        for measure in measures:
            for scores in measured.values():
                entry = next((member for member in scores.rules if member.name == rule), None)
                expected.append("" if entry is None else truth_table.cell(entry, measure))
        assert [cell.strip() for cell in cells.split("|")] == expected, rule
    words = " ".join(text.split())
    for scores in measured.values():
        for number in (f"{scores.histories:,}", f"{scores.turns:,}", f"{scores.reliability:.2f}"):
            assert number in words
        for share in (scores.density.significant, scores.density.top_tenth):
            assert re.search(rf"\b({100 * share:.1f}|{100 * share:.0f})\b", words), share
