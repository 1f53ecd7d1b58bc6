"""The measures of a small tree, counted by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = {
    "training/loop.py": "from turncredit.training.low import base\nfrom turncredit.training.mid.step import go\n",
    "training/low/base.py": '"""How it is done."""\nfrom typing import Any\n\nname: Any = "vllm"\n',
    "training/mid/step.py": (
        "from turncredit.training.low import base\n"
        "import turncredit.training.state\n"
        "def go(seed, count):\n"
        '    """Go.\n\n    Args:\n        seed: of the run.\n        count: number of steps.\n    """\n'
        "    first = seed\n"
        "    total = count\n"
    ),
    "training/state.py": "def later():\n    from turncredit.training import loop\n",
    "docs/a.md": "one\ntwo\n",
}


@pytest.fixture(scope="module")
def measures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measures_script", ROOT / "scripts" / "measures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_small_tree_counted_by_hand(measures: ModuleType) -> None:
    result = measures.measure(TREE)
    assert result == {
        "lines: training": 19,
        "lines: docs": 2,
        "loose modules: training": 2,
        "training: rooms": 2,
        "training: floors of rooms": 2,
        "training: circles of rooms": 0,
        "training: arrows up": 0,
        "training: corridor behind loop.py": 3,
        "engine names outside their folder: lines": 1,
        "engine names outside their folder: files": 1,
        "Args lines": 2,
        "Args lines without a noun": 1,
        "module headers that are clauses": 1,
        "weak locals per 1,000": 500.0,
        "functions over 60 lines": 0,
        "files over 400 lines": 0,
        "modules with over 15 own imports": 0,
        "Any per 1,000 lines: training": 52.6,
    }


def test_a_circle_counts_as_one_floor(measures: ModuleType) -> None:
    assert measures.circles_and_floors({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": set()}) == (1, 3)


@pytest.mark.parametrize(
    ("description", "lacks"),
    [("of the run.", True), ("Whether it won.", True), ("seed of the run", False), ("3", False)],
)
def test_a_description_without_a_noun(measures: ModuleType, description: str, lacks: bool) -> None:
    assert measures.without_noun(description) is lacks
