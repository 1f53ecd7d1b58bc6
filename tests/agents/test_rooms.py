"""The rooms of `agents/`: its folders, and the modules beside them, import each other in one direction."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx

FOLDER = Path(__file__).resolve().parents[2] / "agents"


def imported(file: Path) -> set[str]:
    """The rooms that a module imports from: folders, and the modules beside them; imports for types are left out."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [tuple(module.split(".")[2:]) for module in modules if module.startswith("turncredit.agents.")]
    return {parts[0] for parts in names}


def test_rooms_import_each_other_in_one_direction() -> None:
    rooms = networkx.DiGraph()
    for file in FOLDER.rglob("*.py"):
        parts = file.relative_to(FOLDER).with_suffix("").parts
        if parts != ("__init__",):
            rooms.add_edges_from((parts[0], room) for room in imported(file) if room != parts[0])
    assert {"prompts", "rollouts", "models", "agent"} <= set(rooms)
    circles = [sorted(circle) for circle in networkx.strongly_connected_components(rooms) if len(circle) > 1]
    assert not circles
