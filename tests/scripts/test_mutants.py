"""The mutants of a source: what changes, that it is Python, and which tests are nearest."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
"""A header with 1 number."""

def share(won: int, *, of: int = 2) -> float:
    """Return 1 number."""
    if not of:
        raise ValueError(f"of must be > 0, got {of - 1}" + "!")
    counts.append(won)
    self.last = won
    return won / of if won is not None and won >= 0 else -0.5
'''


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants_script", ROOT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the types of their fields
    spec.loader.exec_module(module)
    return module


def test_what_changes_in_a_small_function(mutants: ModuleType) -> None:
    changes = [(mutant.line, mutant.before, mutant.after) for mutant in mutants.mutants_of("a.py", SOURCE)]
    assert changes == [
        (4, "2", "3"),
        (6, "not ", ""),
        (8, "counts.append(won)", "pass"),
        (9, "self.last = won", "pass"),
        (10, "and", "or"),
        (10, "is not", "is"),
        (10, ">=", ">"),
        (10, "0", "1"),
        (10, "/", "*"),
        (10, "-", ""),
        (10, "0.5", "1.5"),
    ]
    assert {mutant.names for mutant in mutants.mutants_of("a.py", SOURCE)} == {("share",)}


@pytest.mark.parametrize("file", ["credit/turn/gigpo.py", "training/objectives/kl.py", "envs/shop/pages.py"])
def test_a_mutant_is_another_program(mutants: ModuleType, file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    changed = [mutants.changed(text, mutant) for mutant in mutants.mutants_of(file, text)]
    assert len(changed) > 10
    assert len({ast.dump(ast.parse(each)) for each in [text, *changed]}) > len(changed) * 0.9
    assert ast.dump(ast.parse(text)) not in [ast.dump(ast.parse(each)) for each in changed]


def test_the_nearest_tests_name_what_is_around_the_mutant(mutants: ModuleType) -> None:
    folders = [ROOT / "credit", ROOT / "tests" / "credit"]
    files = [str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.py")]
    imports = mutants.Imports.read(files)
    (mutant, *_) = mutants.mutants_of("credit/turn/gigpo.py", (ROOT / "credit/turn/gigpo.py").read_text("utf-8"))
    assert imports.nearest(mutant)[0] in ("tests/credit/test_gigpo.py", "tests/credit/test_gigpo_peer.py")
