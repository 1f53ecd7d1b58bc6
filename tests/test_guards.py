"""The guards of the house, held by parsing the sources: one door for names, one console, one guard before servers.

See docs/threats.md. Nothing is imported here, as in `test_layers`.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from test_layers import nodes, tree

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ablation",
    "agents",
    "cli",
    "credit",
    "envs",
    "evaluation",
    "phone",
    "processes",
    "report",
    "tools",
    "training",
    "package",
)

PRINTS = re.compile(
    r"print|(typer|click)\.(echo|secho|confirm|prompt)|rich\.print|(\w+\.)*Console|sys\.(stdout|stderr)\.write"
    r"|(traceback|tb)\.print_\w+|logging\.basicConfig|(logging\.)?StreamHandler"
)
# The worker writes its own log file, Parquet's rows go to the process that asked for them, and judges of Harbor folders
# write the log of a container.
MAY_PRINT = {
    "cli/console.py",
    "ablation/process_worker.py",
    "tools/readers/parquet_rows.py",
    "envs/bash/harbor/file_judge.py",
    "envs/code/harbor_judge.py",
}

IMPORTS = re.compile(
    r"(importlib\.)?import_module|__import__|exec|eval|runpy\.\w+|pkgutil\.resolve_name|\w+\.exec_module"
)
MAY_IMPORT = {
    "package/registry.py": "the door: registered names, or names that were typed or trusted",
    "package/__init__.py": "its own parts",
    "agents/__init__.py": "its own parts",
    "training/__init__.py": "its own parts",
    "report/__init__.py": "its own parts",
    "envs/household/__init__.py": "its own parts",
    "phone/installed_apps.py": "its own parts",
    "phone/shell/table.py": "its own parts",
    "envs/android/tasks/template.py": "its own parts",
    "engines/cluster/function_actor.py": "functions of turncredit, on another node",
    "cli/listing/list_command.py": "classes of registered environments",
    "envs/code/candidate_runner.py": "runs inside of a box",
    "envs/code/script_runner.py": "runs inside of a box",
    "tools/sandbox/session_driver.py": "runs inside of a box",
    "envs/code/generator/tasks.py": "programs that the generator has written",
}

SERVERS = re.compile(r"(\w+\.)?(ThreadingHTTPServer|HTTPServer|TCPServer|ThreadingTCPServer|start_server|run_simple)")
MAY_SERVE = {
    "phone/adb/server.py": "speaks adb: a connection that begins as HTTP does is ended",
}


@cache
def sources() -> tuple[Path, ...]:
    return tuple(sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")))


@cache
def calls(path: Path) -> list[tuple[str, ast.Call]]:
    return [(name_of(node.func), node) for node in nodes(path) if isinstance(node, ast.Call)]


def name_of(node: ast.expr) -> str:
    """Return the code of what is called, which mostly is a name with dots."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{name_of(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_everything_is_printed_through_the_console() -> None:
    """Which writes control characters as escapes: a text of a model is never obeyed by the terminal."""
    wrong = [
        f"{relative(path)}:{node.lineno} {name}"
        for path in sources()
        if relative(path) not in MAY_PRINT
        for name, node in calls(path)
        if PRINTS.fullmatch(name)
    ]
    assert wrong == []


def test_modules_are_imported_by_a_name_of_data_in_one_place() -> None:
    """A name may come from a file, so it goes through `turncredit.registry`, which knows whether it may be imported."""
    found = {
        relative(path): f"{relative(path)}:{node.lineno} {name}"
        for path in sources()
        for name, node in calls(path)
        if IMPORTS.fullmatch(name) and not (node.args and isinstance(node.args[0], ast.Constant))
    }
    # `from importlib import import_module as ...` would hide a call from this test
    renamed = [
        relative(path)
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "importlib"
        for alias in node.names
        if alias.name == "import_module" and alias.asname
    ]
    assert renamed == []
    assert {file: found[file] for file in found if file not in MAY_IMPORT and not _a_literal_module(file)} == {}


def _a_literal_module(file: str) -> bool:
    """Whether all names that a file imports are constants of the module, as an optional package is."""
    constants = {
        target.id
        for node in tree(ROOT / file).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    return all(
        node.args and (isinstance(node.args[0], ast.Constant) or ast.unparse(node.args[0]) in constants)
        for name, node in calls(ROOT / file)
        if IMPORTS.fullmatch(name)
    )


def test_pickles_of_others_run_no_code() -> None:
    """`torch.load` reads weights only, and numpy no objects."""
    asked = {
        "torch.load": ("weights_only", True),
        "np.load": ("allow_pickle", False),
        "numpy.load": ("allow_pickle", False),
    }
    wrong = []
    for path in sources():
        for name, node in calls(path):
            needed = asked.get(name)
            if needed is None:
                continue
            given = {word.arg: ast.unparse(word.value) for word in node.keywords}
            if given.get(needed[0]) != str(needed[1]):
                wrong.append(f"{relative(path)}:{node.lineno} {name} without {needed[0]}={needed[1]}")
    assert wrong == []


def test_every_server_is_behind_the_guard() -> None:
    """uvicorn is started in `processes/serving.py` only (`test_layers`), which wraps every application."""
    serving = (ROOT / "processes/serving.py").read_text(encoding="utf-8")
    assert "RequestGuard(" in serving
    for path in sources():
        file, names = relative(path), [*_bases(path), *(name for name, _ in calls(path))]
        if file in MAY_SERVE or not any(map(SERVERS.fullmatch, names)):
            continue
        assert any(name == "refusal" for name, _ in calls(path)), f"{file} serves without `request_guard.refusal`"


def _bases(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            yield from map(ast.unparse, node.bases)


TRUSTING = {"cli/ablate.py", "cli/audit.py", "cli/bench.py", "cli/credit/command.py", "cli/evaluate.py", "cli/plan.py"}
TRUSTING |= {"cli/play.py", "cli/playing/command.py", "cli/report.py", "cli/show.py", "cli/train.py"}


@pytest.mark.parametrize("file", sorted(TRUSTING))
def test_a_command_that_reads_runs_has_the_option_trust(file: str) -> None:
    assert "trust: Trust = False" in (ROOT / file).read_text(encoding="utf-8")


def test_every_row_of_the_table_of_threats_has_a_test() -> None:
    """The rows about files, terminals, pages and servers name tests, which exist."""
    page = (ROOT / "docs/threats.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)`", page)
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).is_file()] == []


WRITTEN = (*FOLDERS, "benchmarks", "docs", "examples", "scripts", "tests", ".ci")
BY_NAME = re.compile(
    r"""(?:pip|uv) (?:install|add)\b[^\n|#`]*?['" ]turncredit\b(?!-)|turncredit\[(?=[a-z{$])(?![^\]\n]*\] @ )"""
)
"""An installation from an index by the name, or the name with extras that no address follows."""
SAYS_IT = {
    "package/installation.py": "the one function that makes the command",
    "tests/test_installation.py": "its tests",
    "tests/test_guards.py": "this test",
    "tests/agents/test_own_wheel.py": "a requirement beside its wheel",
    "agents/frameworks/openenv_package.py": "a requirement beside its wheel",
    "pyproject.toml": "extras that contain others",
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text of the repository with its path."""
    suffixes = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".js", ".html", ".txt", ""}
    inside = [path for folder in WRITTEN for path in sorted((ROOT / folder).rglob("*"))]
    for path in [*sorted(ROOT.glob("*")), *inside]:
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
            yield relative(path), path.read_text(encoding="utf-8", errors="replace")


def test_nothing_says_that_the_name_alone_can_be_installed() -> None:
    """Until the package is on an index: `turncredit.installation` knows how this one was installed, and pages speak for
    a clone (`pip install ".[lora]"`). The page on an index may say it, in a comment of README.md."""
    wrong = []
    for file, text in texts():
        shown = re.sub(r"<!-- on an index\s.*?-->", "", text, flags=re.DOTALL) if file == "README.md" else text
        if file not in SAYS_IT:
            wrong += [f"{file}: {match[0]}" for match in BY_NAME.finditer(shown)]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install turncredit", True),
        ("pip install 'turncredit[lora]'", True),
        ('pip install "turncredit[lora]"', True),
        ("install turncredit[lora] first", True),
        ("uv add turncredit", True),
        ('f"turncredit[{extra}]"', True),
        ('pip install -e ".[lora]"', False),
        ("pip install inspect-ai`, where turncredit is installed", False),
        ('pip install "./turncredit-VERSION-py3-none-any.whl[train]"', False),
        ("'turncredit[openenv] @ git+https://example.org/turncredit'", False),
    ],
)
def test_the_guard_of_installations_sees_what_it_should(text: str, found: bool) -> None:
    assert bool(BY_NAME.search(text)) == found


def test_packaging_leaves_folders_of_data_to_package_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["include-package-data"] is False
