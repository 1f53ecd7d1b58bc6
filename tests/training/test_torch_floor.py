"""The declared versions of torch: the names of torch that the package uses are those that were found in the lowest one.

`tests/training/torch_names.txt` was written by this file, run with that version:
`python tests/training/test_torch_floor.py > tests/training/torch_names.txt`. Names that are missing there are left out.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from turncredit.training.errors import TrainingError

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("torch_names.txt")
FOLDERS = (
    *("ablation", "agents", "cli", "credit", "curriculum", "engines", "envs"),
    *("evaluation", "processes", "report", "tools", "training"),
)
NEWER = {"torch.distributed.all_gather_single", "torch.distributed.reduce_scatter_single"}
"""Names that only several ranks need; `turncredit.training.learner.ranks` refuses versions without them."""
UNSEEN = {"torch.utils.tensorboard.SummaryWriter"}
"""Names that exist where another package is installed."""


def used_names() -> set[str]:
    """The dotted names of torch in the package's sources, such as torch.nn.Linear."""
    names: set[str] = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            names |= set(_names(ast.parse(path.read_text(encoding="utf-8"))))
    return names


def _names(tree: ast.AST) -> Iterator[str]:
    aliases = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "torch" and name.asname:
                    aliases[name.asname] = name.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from (f"{node.module}.{name.name}" for name in node.names)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            words = []
            while isinstance(node, ast.Attribute):
                words.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name) and node.id in aliases:
                yield ".".join([aliases[node.id], *reversed(words)])


def exists(name: str) -> bool:
    """Whether a dotted name can be reached in the installed version."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        try:
            value: object = importlib.import_module(".".join(words[:count]))
        except ImportError:
            continue
        for word in words[count:]:
            value = getattr(value, word, None)
        return value is not None
    return False


def test_the_package_uses_names_of_the_lowest_version_that_it_declares() -> None:
    version, *names = RECORD.read_text(encoding="utf-8").split()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    declared = {
        re.sub(r"^torch>=", "", line) for lines in extras.values() for line in lines if line.startswith("torch>")
    }
    assert declared == {".".join(version.split(".")[:2])}
    new = used_names() - set(names) - NEWER - UNSEEN
    assert not new, f"{sorted(new)} were not looked for in torch {version}: write torch_names.txt anew with it"


def test_an_old_version_refuses_several_ranks_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = pytest.importorskip("turncredit.training.learner.ranks")
    monkeypatch.delattr(ranks.dist, "all_gather_single", raising=False)
    monkeypatch.setattr(ranks.torch, "__version__", "2.11.0")
    with pytest.raises(TrainingError, match=r"several ranks need torch 2\.13 or newer, got 2\.11\.0"):
        ranks.join()


if __name__ == "__main__":
    import torch

    print(torch.__version__.partition("+")[0], *sorted(filter(exists, used_names())), sep="\n")
