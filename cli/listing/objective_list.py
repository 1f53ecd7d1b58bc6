"""What `turncredit list objectives` prints, also where torch is not installed.

The modules of objectives compute with torch. Without it, their tables are read from their sources: the literals of the
entries, without objectives of other packages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

__all__ = ["from_modules", "from_sources", "objective_rows"]

Rows = list[tuple[str, str]]


def objective_rows() -> Rows:
    """Return name and description of objectives, aggregations, divergence estimators and corrections."""
    return from_sources() if find_spec("torch") is None else from_modules()


def from_modules() -> Rows:
    """Return the rows of the registries, which know objectives of other packages, too."""
    from turncredit.training.objectives import AGGREGATIONS, CORRECTIONS, KL_ESTIMATORS, objectives

    rows = [
        (name, _described(entry.title, entry.arxiv, entry.needs, entry.evidence, entry.use))
        for name, entry in sorted(objectives().items())
    ]
    rows += [(f"aggregation={name}", text) for name, text in AGGREGATIONS.items()]
    rows += [(f"kl_estimator={name}", text) for name, text in KL_ESTIMATORS.items()]
    return rows + [(f"correction={name}", correction.about) for name, correction in CORRECTIONS.items()]


def from_sources() -> Rows:
    """Return the rows of what turncredit has, as its sources say."""
    rows: Rows = []
    for call in _calls("catalogue.py", "ObjectiveInfo"):
        name, title, arxiv, needs, evidence, use = (ast.literal_eval(word) for word in call.args[:6])
        rows.append((name, _described(title, arxiv, needs, evidence, use)))
    rows.sort()
    rows += [(f"aggregation={key}", ast.literal_eval(value)) for key, value in _table("aggregate.py", "AGGREGATIONS")]
    rows += [(f"kl_estimator={key}", ast.literal_eval(value)) for key, value in _table("kl.py", "KL_ESTIMATORS")]
    for key, value in _table("correction.py", "CORRECTIONS"):
        rows.append((f"correction={key}", ast.literal_eval(cast("ast.Call", value).args[0])))
    return rows


def _described(title: str, arxiv: str | None, needs: tuple[str, ...], evidence: str, use: str) -> str:
    source = f" (arXiv {arxiv})" if arxiv else ""
    needed = f" Needs {', '.join(needs)}." if needs else ""
    return f"{title}{source}. {use}{needed} Checked against: {evidence}."


def _tree(file: str) -> ast.Module:
    package = find_spec("turncredit.training")
    assert package is not None
    folders = list(package.submodule_search_locations or ())
    return ast.parse((Path(folders[0]) / "objectives" / file).read_text(encoding="utf-8"))


def _calls(file: str, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a name whose first argument is a literal, as in the entries of a table."""
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield from [node] if node.args and isinstance(node.args[0], ast.Constant) else []


def _table(file: str, name: str) -> Iterator[tuple[object, ast.expr]]:
    for node in _tree(file).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            table = cast("ast.Dict", node.value)
            for key, value in zip(table.keys, table.values, strict=True):
                yield cast("ast.Constant", key).value, value
