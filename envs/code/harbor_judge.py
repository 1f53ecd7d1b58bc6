"""The tests of a code task that was written as a Harbor folder: calls of a function, and programs with input.

Runs in the container of the task with nothing but Python; task.json lies beside it. Each test runs the candidate in a
new process. Results are compared here, as plain data. Unlike with `CodeGrader`, which keeps the candidate in a sandbox
of its own, nothing keeps a candidate from the reward file: this is as safe as other tests of Harbor.

    python3 /tests/harbor_judge.py /work
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

START = 3.0  # seconds in which an interpreter starts
CALL = """
import ast, importlib.util, os, sys
main, name, arguments, keywords, target = sys.argv[1:]
sys.path.insert(0, os.getcwd())
spec = importlib.util.spec_from_file_location(main.removesuffix(".py").replace("/", "."), main)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
value = eval(name, vars(module))(*ast.literal_eval(arguments), **ast.literal_eval(keywords))
with open(target, "w", encoding="utf-8") as file:
    file.write(repr(value))
"""


class _Numbers(ast.NodeTransformer):
    """Turns inf and nan, as `repr` writes them, into numbers."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Return the number, or the name."""
        return ast.Constant(float(node.id)) if node.id in ("inf", "nan") else node


def value_of(text: str) -> object:
    """Return the value of a literal; `ValueError` if it is none."""
    try:
        return ast.literal_eval(_Numbers().visit(ast.parse(text, mode="eval")))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


def with_lists(value: object) -> object:
    """Return JSON-like data with lists in place of tuples."""
    if isinstance(value, (list, tuple)):
        return [with_lists(item) for item in value]
    return {key: with_lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def equal(value: object, expected: object, form: str) -> bool:
    """Return whether a result is right; `form` is that of `CallTest`."""
    if form == "python":
        return bool(value == expected)
    value = with_lists(value)
    alone = form == "listed" and isinstance(expected, list) and len(expected) == 1
    return bool(value == expected or (alone and value == expected[0]))  # type: ignore[index]


def call_passes(root: str, main: str, test: dict[str, str], seconds: float) -> bool:
    """Return whether a call of the candidate gives the expected result."""
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "result")
        words = [sys.executable, "-c", CALL, main, test["name"], test["arguments"], test["keywords"], target]
        try:
            run = subprocess.run(words, cwd=root, capture_output=True, timeout=seconds + START, check=False)
            if run.returncode:
                return False
            return equal(value_of(Path(target).read_text(encoding="utf-8")), value_of(test["returns"]), test["form"])
        except (subprocess.TimeoutExpired, OSError, ValueError):
            return False


def lines(text: str) -> list[str]:
    """Return the lines that count: white space at their ends does not, nor do empty lines before and after all."""
    rows = [line.rstrip() for line in text.rstrip().split("\n")]
    return rows[next((index for index, line in enumerate(rows) if line), 0) :]


def program_passes(root: str, main: str, test: dict[str, str], seconds: float) -> bool:
    """Return whether the candidate writes the expected output."""
    words = [sys.executable, "-E", "-s", "-B", main]
    try:
        data = test["stdin"].encode("utf-8", "surrogateescape")
        run = subprocess.run(words, cwd=root, input=data, capture_output=True, timeout=seconds + START, check=False)
    except subprocess.TimeoutExpired:
        return False
    return not run.returncode and lines(run.stdout.decode("utf-8", "replace")) == lines(test["stdout"])


def judge(root: str, tests: Path) -> list[bool]:
    """Return for each test whether it passes."""
    task = json.loads((tests / "task.json").read_text(encoding="utf-8"))
    main, seconds = task["main"], task["seconds"]
    passes = {"call": call_passes, "program": program_passes}
    return [passes[test["kind"]](root, main, test, seconds) for test in task["tests"]]


def run() -> None:
    """Judge the folder that the command names, and write the share of tests that pass."""
    results = judge(sys.argv[1], Path(__file__).resolve().parent)
    sys.stdout.write(f"{sum(results)} of {len(results)} tests pass\n")
    Path("/logs/verifier/reward.txt").write_text(f"{sum(results) / len(results)}\n", encoding="utf-8")


if __name__ == "__main__":
    run()
