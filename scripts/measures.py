"""Measures of the sources: sizes, layout, and the rules of language, at any commit.

    python scripts/measures.py [--at REVISION ...] [--json]

Without --at it reads the working tree. Several revisions make several columns. Nothing is imported: sources are parsed.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = (
    *("ablation", "agents", "benchmarks", "cli", "credit", "curriculum", "engines", "envs", "evaluation", "phone"),
    *("processes", "report", "tools", "training"),
)
WEAK = frozenset(
    """part parts first other others left at last own most shown seen held told asked one found said wanted kept
    given""".split()  # noqa: SIM905
)
"""Names of locals that are leftovers of a sentence."""
NO_NOUNS = frozenset(
    """of whether how as what which where when in on at by to from for with without after before until while if that
    whose who why so under over between beside against than then it they them is are was were has have may can also only
    else not given known said shown found kept wanted asked told held""".split()  # noqa: SIM905
)
"""First words of a description that lacks its noun."""
ENGINES = frozenset({"vllm", "transformers", "openai"})
ENTRY = re.compile(r"^ {4}\*{0,2}\w+(?: \([^)]*\))?: +(\S.*)$")
CLAUSE = re.compile(r"(What|How|Which|Whether)\b")


def without_noun(description: str) -> bool:
    """Return whether the description of an argument begins with a word that is no noun."""
    word = re.match(r"[A-Za-z]+", description)
    return word is not None and word[0].lower() in NO_NOUNS


def entries(docstring: str) -> Iterator[str]:
    """Yield the descriptions of the arguments and attributes of a cleaned docstring."""
    inside = False
    for line in docstring.splitlines():
        if line and not line.startswith(" "):
            inside = line in ("Args:", "Attributes:")
        elif inside and (entry := ENTRY.match(line)):
            yield entry[1]


def locals_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that a function binds, without its parameters and without names of inner functions."""
    names: set[str] = set()
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        waiting.extend(ast.iter_child_nodes(node))
    return names


def own_imports(module: ast.Module, names: frozenset[str]) -> set[str]:
    """Return the modules of ours that a module imports when it is imported.

    Args:
        module: parsed source.
        names: dotted names of all modules of ours, without the name of the package.
    """
    result: set[str] = set()
    waiting: list[ast.AST] = [*module.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [name if name.removeprefix("turncredit.") in names else node.module for name in members]
        result |= {name.removeprefix("turncredit.") for name in targets if name.startswith("turncredit.")} & names
        waiting.extend(ast.iter_child_nodes(node))
    return result


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return what can be reached from a node, which is itself counted only if it lies on a circle."""
    result: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - result
        result |= new
        waiting.extend(new)
    return result


def circles_and_floors(graph: Mapping[str, set[str]]) -> tuple[int, int]:
    """Return the number of circles of a graph, and the length of its longest chain once each circle is one node."""
    reach = {node: reached(graph, node) for node in graph}
    group = {node: frozenset({node} | {other for other in reach[node] if node in reach[other]}) for node in graph}

    @cache
    def height(members: frozenset[str]) -> int:
        below = {group[target] for node in members for target in graph[node]} - {members}
        return 1 + max((height(lower) for lower in below), default=0)

    groups = set(group.values())
    return sum(len(members) > 1 for members in groups), max((height(members) for members in groups), default=0)


def layout_of_training(graph: Mapping[str, set[str]]) -> dict[str, float]:
    """Return the measures of training's rooms: sub-folders with modules, at any depth.

    An arrow up is an import, by a module in a room, of a loose module that imports rooms itself. The corridor is
    the number of modules of training that training/loop.py imports, directly or through others, when it is imported.
    """
    modules = [name for name in graph if name.startswith("training.")]
    room = {name: ".".join(name.split(".")[1:-1]) for name in modules}
    rooms: dict[str, set[str]] = {name: set() for name in room.values() if name}
    inside = {name: graph[name] & set(modules) for name in modules}
    for name, targets in inside.items():
        if room[name]:
            rooms[room[name]] |= {room[target] for target in targets} - {"", room[name]}
    circles, floors = circles_and_floors(rooms)
    above = {name for name in modules if not room[name] and any(room[target] for target in inside[name])}
    up = sum(len(inside[name] & above) for name in modules if room[name])
    return {
        "training: rooms": len(rooms),
        "training: floors of rooms": floors,
        "training: circles of rooms": circles,
        "training: arrows up": up,
        "training: corridor behind loop.py": len(reached(inside, "training.loop") - {"training.loop"}),
    }


def measure(files: Mapping[str, str]) -> dict[str, float]:
    """Return the measures of a tree, by name.

    Args:
        files: texts by path from the root of the repository.
    """
    ours = {path: text for path, text in files.items() if path.endswith(".py") and path.split("/")[0] in OURS}
    trees = {path: ast.parse(text) for path, text in ours.items()}
    modules = {path: path[:-3].replace("/", ".") for path in trees if not path.endswith("/__init__.py")}
    graph = {name: own_imports(trees[path], frozenset(modules.values())) for path, name in modules.items()}
    result: dict[str, float] = {}
    for folder in (*OURS, "tests", "docs"):
        suffix = ".md" if folder == "docs" else ".py"
        texts = [text for path, text in files.items() if path.startswith(f"{folder}/") and path.endswith(suffix)]
        if texts:
            result[f"lines: {folder}"] = sum(len(text.splitlines()) for text in texts)
    for folder in OURS:
        if loose := sum(path.count("/") == 1 and path.startswith(f"{folder}/") for path in modules):
            result[f"loose modules: {folder}"] = loose
    result |= layout_of_training(graph)
    bound, weak, descriptions, nameless, long, headers = 0, 0, 0, 0, 0, 0
    engine_lines: set[tuple[str, int]] = set()
    uses: dict[str, int] = {}
    for path, tree in trees.items():
        headers += CLAUSE.match(ast.get_docstring(tree) or "") is not None
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = locals_of(node)
                bound += len(names)
                weak += len(names & WEAK)
                long += (node.end_lineno or node.lineno) - node.lineno + 1 > 60
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for entry in entries(ast.get_docstring(node) or ""):
                    descriptions += 1
                    nameless += without_noun(entry)
            name = node.value if isinstance(node, ast.Constant) else node.id if isinstance(node, ast.Name) else None
            if name == "Any":
                uses[path.split("/")[0]] = uses.get(path.split("/")[0], 0) + isinstance(node, ast.Name)
            outside = not path.startswith(("agents/samplers/", "engines/", "benchmarks/"))
            if outside and isinstance(name, str) and name in ENGINES and isinstance(node, ast.expr):
                engine_lines.add((path, node.lineno))
    result |= {
        "engine names outside their folder: lines": len(engine_lines),
        "engine names outside their folder: files": len({path for path, _ in engine_lines}),
        "Args lines": descriptions,
        "Args lines without a noun": nameless,
        "module headers that are clauses": headers,
        "weak locals per 1,000": round(1000 * weak / max(1, bound), 1),
        "functions over 60 lines": long,
        "files over 400 lines": sum(len(text.splitlines()) > 400 for text in ours.values()),
        "modules with over 15 own imports": sum(len(targets) > 15 for targets in graph.values()),
    }
    for folder, count in sorted(uses.items()):
        result[f"Any per 1,000 lines: {folder}"] = round(1000 * count / result[f"lines: {folder}"], 1)
    return result


def files_at(revision: str | None) -> dict[str, str]:
    """Return the texts of the repository at a revision, or of the working tree's tracked files."""
    if revision is None:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        paths = [path for path in listed.splitlines() if path.endswith((".py", ".md")) and (ROOT / path).is_file()]
        return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    archive = subprocess.run(["git", "archive", "--end-of-options", revision], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise SystemExit(f"--at wants a commit of this repository, got {revision!r}: {archive.stderr.decode().strip()}")
    result = {}
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        for member in tar:
            if member.name.endswith((".py", ".md")) and (file := tar.extractfile(member)):
                result[member.name] = file.read().decode()
    return result


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description="Measures of the sources.")
    parser.add_argument("--at", nargs="+", metavar="REVISION", help="commits to compare; default: the working tree")
    parser.add_argument("--json", action="store_true", help="print an object by revision")
    options = parser.parse_args()
    columns = {at or "working tree": measure(files_at(at)) for at in options.at or [None]}
    if options.json:
        print(json.dumps(columns, indent=2))
        return
    print(f"{'':43}" + "".join(f" {title[:12]:>12}" for title in columns))
    for name in dict.fromkeys(name for column in columns.values() for name in column):
        cells = [f"{column[name]:,}" if name in column else "-" for column in columns.values()]
        print(f"{name:43}" + "".join(f" {cell:>12}" for cell in cells))


if __name__ == "__main__":
    main()
