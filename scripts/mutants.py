"""Change one place of the sources at a time, and count how often the tests notice.

    python scripts/mutants.py credit training/objectives --count 200
    python scripts/mutants.py --changed main --count 20       what differs from a commit

A mutant is one small change: a comparison, a sign, a number, a condition, a statement left out. For each, the nearest
tests run in a copy of the repository: the test modules that name the changed function most often, and after these
others of the same tests folder that import the module. Tests that wait are left out. A mutant dies when a test fails,
or when the tests run far longer than without it; one that lives is either a gap of the tests or changes nothing that a
test could see. The latter are named in tests/equivalent_mutants.toml, each with its reason, and are left out of the
rate.

Mutants are drawn by the seed from all that the sources have, so a rate has an interval, and the same command draws the
same mutants from the same sources.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

from turncredit.evaluation.statistics import wilson

ROOT: Final = Path(__file__).resolve().parent.parent
EQUIVALENT: Final = ROOT / "tests" / "equivalent_mutants.toml"
PACKAGE: Final = "turncredit"
COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
}
BOOLEAN: Final[dict[type[ast.boolop], tuple[str, str]]] = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
OUTSIDE: Final = ("tests/", "benchmarks/", "docs/", "examples/", "scripts/")
NEAREST: Final = 4
"""Test modules that run first; twice as many run after them if the mutant lives."""
SLOWER: Final = 5.0
"""How many times as long as without a mutant the tests may take."""
PATIENCE: Final = 60.0
"""Seconds that are always granted."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*")
Fate = Literal["died", "timed out", "lives", "equivalent"]
Equivalent = tuple[str, str, str, str]
"""The file of a mutant, its line, and what stands there before and after."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file: the text between two offsets is replaced."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str
    source: str
    """The line that changes, without its indentation."""
    names: tuple[str, ...] = ()
    """The functions and classes around it, from the outside."""

    def __str__(self) -> str:
        """Return where it is and what changes, on one line."""
        return f"{self.file}:{self.line}: {self.before!r} -> {self.after!r} in `{self.source}`"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant, and the test that noticed it."""

    mutant: Mutant
    fate: Fate
    test: str = ""
    seconds: float = 0.0


class Finder(ast.NodeVisitor):
    """Collects the mutants of one file. Annotations, docstrings, f-strings and the texts of errors stay as they are."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.mutants = file, text, list[Mutant]()
        self._lines = text.splitlines(keepends=True)
        self._names: tuple[str, ...] = ()
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def visit_Compare(self, node: ast.Compare) -> None:
        """Change each operator."""
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._between(left, right, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Change the operator; texts that are put together stay."""
        if type(node.op) in ARITHMETIC and not _is_text(node.left) and not _is_text(node.right):
            self._between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Change `and` and `or`."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, *BOOLEAN[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave out `not` and the sign."""
        if isinstance(node.op, ast.Not | ast.USub):
            start, end = self._offset(node.lineno, node.col_offset), self._start(node.operand)
            self._add(node.lineno, start, end, "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Change numbers and truth values."""
        start, end = self._start(node), self._end(node)
        if isinstance(node.value, bool):
            self._add(node.lineno, start, end, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add(node.lineno, start, end, repr(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        """Turn a condition round that is no comparison."""
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            start = self._start(node.test)
            self._add(node.lineno, start, start, "not ")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out a call whose value nobody reads."""
        if isinstance(node.value, ast.Call | ast.Await):
            self._add(node.lineno, self._start(node), self._end(node), "pass")
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Leave out what is written to an attribute or an entry."""
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._add(node.lineno, self._start(node), self._end(node), "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Change the operator."""
        if type(node.op) in ARITHMETIC and not _is_text(node.value):
            before, after = ARITHMETIC[type(node.op)]
            self._between(node.target, node.value, before + "=", after + "=")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave the annotation alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Leave annotations and the decorators alone."""
        with self._inside(node.name):
            for child in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
                self.visit(child)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Look into the body alone."""
        with self._inside(node.name):
            for statement in node.body:
                self.visit(statement)

    @contextlib.contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        names, self._names = self._names, (*self._names, name)
        yield
        self._names = names

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the texts of errors alone."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave f-strings alone, since Python does not say where in them something stands."""

    def _between(self, left: ast.expr, right: ast.expr, before: str, after: str) -> None:
        start, end = self._end(left), self._start(right)
        gap = self.text[start:end]
        place = gap.find(before)
        if place >= 0 and gap.count(before) == 1 and "#" not in gap:
            line = self.text.count("\n", 0, start + place) + 1
            self._add(line, start + place, start + place + len(before), after)

    def _add(self, line: int, start: int, end: int, after: str) -> None:
        before = self.text[start:end]
        source = self._lines[line - 1].strip()
        self.mutants.append(Mutant(self.file, line, start, end, before, after, source, self._names))

    def _start(self, node: ast.stmt | ast.expr) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.stmt | ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Return the offset of a place that Python counts in bytes of UTF-8."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + len(text.encode()[:column].decode())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return every mutant of a file that is still Python.

    >>> for mutant in mutants_of("a.py", "def f(a: int = 1) -> int:\\n    return a - 2 if a > 1 else -a\\n"):
    ...     print(f"{mutant.before} -> {mutant.after}".strip())
    1 -> 2
    > -> >=
    1 -> 2
    - -> +
    2 -> 3
    - ->
    """
    finder = Finder(file, text)
    finder.visit(ast.parse(text))
    return [mutant for mutant in finder.mutants if _parses(changed(text, mutant))]


def changed(text: str, mutant: Mutant) -> str:
    """Return the text of a file with its mutant."""
    return text[: mutant.start] + mutant.after + text[mutant.end :]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@dataclass(frozen=True)
class Imports:
    """Who imports whom, read from the sources: modules of the package by their files, and those of the tests."""

    graph: dict[str, frozenset[str]]
    tests: dict[str, frozenset[str]]
    words: dict[str, Counter[str]]
    """How often each test module says each word."""

    @classmethod
    def read(cls, files: Sequence[str]) -> Imports:
        """Return the imports of all Python files of the repository."""
        modules = {_module(file): file for file in files if not file.startswith(OUTSIDE)}
        graph = {file: cls._of(file, modules) for file in modules.values()}
        tests = {file: cls._of(file, modules) for file in files if Path(file).name.startswith("test_")}
        words = {file: Counter(_WORD.findall((ROOT / file).read_text(encoding="utf-8"))) for file in tests}
        return cls(graph, tests, words)

    @staticmethod
    def _of(file: str, modules: dict[str, str]) -> frozenset[str]:
        names = set()
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        return frozenset(modules[name] for name in names if name in modules)

    def nearest(self, mutant: Mutant) -> list[str]:
        """Return the test modules that reach a mutant: first who names most often what is around it, then by imports.

        Args:
            mutant: mutant to test.
        """
        steps = self._steps(mutant.file)
        stem, names = Path(mutant.file).stem, [name.strip("_") for name in mutant.names]

        def rank(test: str) -> tuple[bool, int, int, str]:
            mentions = sum(self.words[test][name] for name in {stem, *names})
            distance = min(steps[module] for module in self.tests[test] & steps.keys())
            return not test.startswith(f"tests/{mutant.file.split('/')[0]}/"), -mentions, distance, test

        return sorted((test for test, modules in self.tests.items() if modules & steps.keys()), key=rank)

    def _steps(self, file: str) -> dict[str, int]:
        """Return the modules that import a file, and over how many others."""
        users: dict[str, set[str]] = {}
        for importer, modules in self.graph.items():
            for module in modules:
                users.setdefault(module, set()).add(importer)
        steps, waiting = {file: 0}, deque([file])
        while waiting:
            module = waiting.popleft()
            for user in users.get(module, set()) - steps.keys():
                steps[user] = steps[module] + 1
                waiting.append(user)
        return steps


def _module(file: str) -> str:
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{PACKAGE}.{name}"


class Copy:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder = folder
        self._time = int(time.time())
        for file in files:
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        links = folder / ".links" / PACKAGE
        links.mkdir(parents=True)
        for name in sorted({file.split("/")[0] for file in files if "/" in file and file.endswith(".py")}):
            (links / name).symlink_to(folder / name)
        for module in (folder / "package").glob("*.py"):
            (links / module.name).symlink_to(module)

    def run(self, tests: Sequence[str], seconds: float, mutant: Mutant | None = None) -> tuple[bool | None, str]:
        """Return whether the tests pass, None if they do not end, and the first test that fails.

        Args:
            tests: files of tests, run in this order.
            seconds: limit of time.
            mutant: mutant to test; None: the sources as they are.
        """
        with self._with(mutant):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
            command += ["-m", "not slow and not waits", "--tb=no", "-W", "ignore", *tests]
            environment = os.environ | {"PYTHONPATH": str(self.folder / ".links")}
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            try:
                output = process.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        failed = [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if process.returncode in (0, 5):  # 5: all tests were left out
            return True, ""
        return False, failed[0].split(" - ")[0] if failed else output.strip().splitlines()[-1]

    @contextlib.contextmanager
    def _with(self, mutant: Mutant | None) -> Iterator[None]:
        """Change the file within, with another time each: that is how Python sees that a source has changed."""
        if mutant is None:
            yield
            return
        file = self.folder / mutant.file
        text = file.read_text(encoding="utf-8")
        self._write(file, changed(text, mutant))
        try:
            yield
        finally:
            self._write(file, text)

    def _write(self, file: Path, text: str) -> None:
        self._time += 2
        file.write_text(text, encoding="utf-8")
        os.utime(file, (self._time, self._time))


class Runner:
    """Tests mutants, with one copy of the repository for each worker."""

    def __init__(self, copies: Sequence[Copy], imports: Imports, equivalent: frozenset[Equivalent]) -> None:
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            self._copies.put(copy)
        self._imports, self._equivalent = imports, equivalent

    def result(self, mutant: Mutant) -> Result:
        """Return what becomes of a mutant."""
        started = time.monotonic()
        if (mutant.file, mutant.source, mutant.before, mutant.after) in self._equivalent:
            return Result(mutant, "equivalent")
        copy = self._copies.get()
        try:
            fate, test = self._fate(copy, mutant)
        finally:
            self._copies.put(copy)
        return Result(mutant, fate, test, time.monotonic() - started)

    def _fate(self, copy: Copy, mutant: Mutant) -> tuple[Fate, str]:
        tests = self._imports.nearest(mutant)
        folder = f"tests/{mutant.file.split('/')[0]}/"
        batches = [tests[:NEAREST], [test for test in tests[NEAREST : 3 * NEAREST] if test.startswith(folder)]]
        for batch in filter(None, batches):
            passing, seconds = self._passing(copy, tuple(batch))
            if not passing:
                continue
            passes, test = copy.run(passing, PATIENCE + SLOWER * seconds, mutant)
            if passes is None:
                return "timed out", ""
            if not passes:
                return "died", test
        return "lives", ""

    @cache  # noqa: B019 - a runner lives as long as the program
    def _passing(self, copy: Copy, tests: tuple[str, ...]) -> tuple[tuple[str, ...], float]:
        """Return those of some test modules that pass without a mutant, and the seconds that they take together."""
        started = time.monotonic()
        if copy.run(tests, 1800.0)[0]:
            return tests, time.monotonic() - started
        passing = tuple(test for test in tests if copy.run([test], 1800.0)[0])
        print(f"left out, since they fail without a mutant: {', '.join(sorted(set(tests) - set(passing)))}")
        return passing, time.monotonic() - started


def drawn(files: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return the mutants that the seed draws from those of some files."""
    everything = [mutant for file in files for mutant in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))]
    return random.Random(seed).sample(everything, min(count, len(everything)))


def equivalent_mutants() -> frozenset[Equivalent]:
    """Return the mutants that change nothing which a test could see, as the file names them."""
    if not EQUIVALENT.is_file():
        return frozenset()
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return frozenset((entry["file"], entry["source"], entry["before"], entry["after"]) for entry in entries)


def listed(*arguments: str) -> list[str]:
    """Return the paths that a command of git prints."""
    output = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return output.splitlines()


def summary(results: Sequence[Result]) -> str:
    """Return the rate with its 95 % interval, and every mutant that lives."""
    fates = Counter(result.fate for result in results)
    tried = len(results) - fates["equivalent"]
    dead = fates["died"] + fates["timed out"]
    lines = [str(result.mutant) for result in results if result.fate == "lives"]
    if tried:
        low, high = wilson(dead, tried)
        lines.append(
            f"{dead} of {tried} mutants died ({100 * dead / tried:.1f} %, 95 % interval {100 * low:.1f} to "
            f"{100 * high:.1f}), {fates['timed out']} of them by running too long; {fates['equivalent']} equivalent "
            "ones were left out"
        )
    return "\n".join(lines)


def main() -> int:
    """Draw mutants, test them, and print what lives; return 1 if fewer died than asked for."""
    parser = argparse.ArgumentParser(description="Change one place of the sources at a time; count what tests notice.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders and files of the package")
    parser.add_argument("--changed", metavar="COMMIT", help="files that differ from this commit")
    parser.add_argument("--count", type=int, default=20, help="mutants that are drawn; default: 20")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw; default: 0")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="default: one a processor")
    parser.add_argument("--least", type=float, default=0.0, metavar="SHARE", help="share that must die; default: 0")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of all results")
    arguments = parser.parse_args()
    tracked = listed("ls-files", "--cached", "--others", "--exclude-standard")
    sources = [file for file in tracked if file.endswith(".py") and (ROOT / file).is_file()]
    houses = [file for file in sources if not file.startswith(OUTSIDE)]
    chosen = [file for file in houses if any(Path(file).is_relative_to(path) for path in arguments.paths)]
    if arguments.changed:
        changes = set(listed("diff", "--name-only", arguments.changed, "--"))
        chosen += [file for file in houses if file in changes and file not in chosen]
    if not chosen:
        parser.error("no file of the package is named: give folders or files, or --changed COMMIT")
    mutants = drawn(chosen, arguments.count, arguments.seed)
    with tempfile.TemporaryDirectory(prefix="turncredit-mutants-") as name:
        copies = [Copy(Path(name) / str(number), tracked) for number in range(max(arguments.workers, 1))]
        runner = Runner(copies, Imports.read(sources), equivalent_mutants())
        results = []
        with ThreadPoolExecutor(len(copies)) as threads:
            for number, result in enumerate(threads.map(runner.result, mutants), 1):
                results.append(result)
                print(f"[{number}/{len(mutants)}] {result.fate}: {result.mutant} {result.test}", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8")
    print(summary(results))
    tried = [result for result in results if result.fate != "equivalent"]
    dead = sum(result.fate in ("died", "timed out") for result in tried)
    return int(bool(tried) and dead < arguments.least * len(tried))


if __name__ == "__main__":
    sys.exit(main())
