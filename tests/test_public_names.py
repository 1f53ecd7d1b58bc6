"""Every name that a module lists in `__all__` or imports when it is first used can be had."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ablation",
    "agents",
    "cli",
    "credit",
    "curriculum",
    "engines",
    "envs",
    "evaluation",
    "phone",
    "processes",
    "report",
    "tools",
    "training",
)
OPTIONAL = {"docker", "fastapi", "inspect_ai", "openenv", "playwright", "ray", "trl", "vllm"}
"""Packages that an installation may lack, and whose modules some of ours import at their top."""


def assigned(tree: ast.Module) -> set[str]:
    """The names that a module assigns or defines as a function at its top."""
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@cache
def modules() -> list[str]:
    """The modules that say which names are public."""
    found = []
    files = [ROOT / "package" / "__init__.py", *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))]
    for file in sorted(files):
        text = file.read_text(encoding="utf-8")
        if ("__all__" in text or "__getattr__" in text) and {"__all__", "__getattr__"} & assigned(ast.parse(text)):
            parts = file.relative_to(ROOT).with_suffix("").parts
            name = ".".join(part for part in parts if part not in ("__init__", "package"))
            found.append(f"turncredit.{name}".rstrip("."))
    return found


def lazy_names(module: ModuleType) -> set[str]:
    """The names in the tables that a module's `__getattr__` reads."""
    function = vars(module).get("__getattr__")
    read = () if function is None else function.__code__.co_names
    tables = [vars(module)[name] for name in read if isinstance(vars(module).get(name), dict | tuple | list | set)]
    return {name for table in tables for name in table}


def load(name: str) -> ModuleType:
    """The module; a test of one whose package is not installed is skipped."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in OPTIONAL:
            raise
        pytest.skip(f"{package} is not installed")


def test_there_is_something_to_judge() -> None:
    assert {"turncredit", "turncredit.training", "turncredit.engines", "turncredit.envs.household"} <= set(modules())
    assert {"train", "gspo"} <= lazy_names(load("turncredit.training"))
    assert {"HouseholdEnv", "World"} <= lazy_names(load("turncredit.envs.household"))
    assert "credit" in lazy_names(load("turncredit"))


def test_every_public_name_can_be_had(subtests: pytest.Subtests) -> None:
    for name in modules():
        with subtests.test(module=name):
            module = load(name)
            listed = list(getattr(module, "__all__", ()))
            assert len(listed) == len(set(listed))
            missing = []
            for public in {*listed, *lazy_names(module)}:
                try:
                    getattr(module, public)
                except (AttributeError, ImportError) as error:
                    missing.append(f"{public}: {type(error).__name__}: {error}")
            assert not missing


def test_a_star_imports_what_training_offers() -> None:
    pytest.importorskip("torch")
    names: dict[str, object] = {}
    exec("from turncredit.training import *", names)
    from turncredit.agents.steps import steps_of

    assert names["steps_of"] is steps_of
    assert set(load("turncredit.training").__all__) <= set(names)
