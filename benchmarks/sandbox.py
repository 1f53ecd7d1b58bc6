"""Overhead of the sandbox, and what a hostile box can cost the host.

The first table is a program in a box relative to the same program without one, a call of a session, and the grading of
a small candidate of `Code-v0`, with Docker also with a container that is started in advance (`warm`). All variants are
repeated alternately. `bare` is `python3 -c "print(1)"` with the interpreter of the box; the ratios of the local back
ends refer to it. The best times count, since other load can only make them longer; beside them is the median of the
ratios of single rounds. The processor time of the same programs, with all processes that they need, hardly depends on
other load; docker is missing there, since the daemon's processes are not ours.

The last tables are the memory and processor time that programs can cost the process that uses the box (see
`hostile_boxes`), beside a benign program and a benign session.

    python benchmarks/sandbox.py [--rounds 40] [--hostile-rounds 3] [--json PATH]

Goals: bwrap at most 1.6 times bare; Docker, warm, at most 60 ms; a call of a session at most 3 ms.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostile_boxes import CASES, HostCost
from hostile_boxes import LIMITS as HOSTILE_LIMITS
from hostile_boxes import measure as measure_hostile
from rich.console import Console
from rich.table import Table

from turncredit.envs.code.grading import CodeGrader
from turncredit.envs.code.task import CallTest
from turncredit.tools.sandbox import BACKENDS, Limits, SandboxError, start
from turncredit.tools.sandbox.fork_client import ForkServerClient

CODE = "print(1)"
GOALS = {"bwrap": "1.6 times bare", "docker": "60 ms", "session": "3 ms"}
LIMITS = Limits(wall=60)
PAUSE = 0.3  # seconds
LOCAL = ("bwrap", "landlock")
SELDOM = ("start", "grading")  # what is measured in every eighth round


def bare(python: str) -> Callable[[], str]:
    return lambda: subprocess.run([python, "-c", CODE], capture_output=True, text=True, check=True).stdout


def seconds(task: Callable[[], str]) -> float:
    begin = time.perf_counter()
    said = task()
    took = getattr(task, "took", time.perf_counter() - begin)
    assert said.strip() == "1", said
    return took


def tasks(stack: ExitStack) -> dict[str, Callable[[], str]]:
    """Return what can be timed, by name, and print what cannot."""
    found: dict[str, Callable[[], str]] = {}
    for backend in BACKENDS:
        try:
            box = stack.enter_context(start(LIMITS, backend=backend))
        except SandboxError as error:
            print(f"{backend}: {error}")
            continue
        session = stack.enter_context(box.session())
        if backend != "docker":
            found[f"bare, as in {backend}"] = bare(box.python)
        found[backend] = lambda box=box: box.run(CODE).stdout  # type: ignore[misc]
        found[f"session, {backend}"] = lambda session=session: session.run("1").value  # type: ignore[misc]
        found[f"start and close, {backend}"] = lambda backend=backend: whole(backend)  # type: ignore[misc]
        found[f"grading, {backend}"] = grading(backend)
    if "docker" in found:
        found["grading, docker, warm"] = grading("docker", warm=1)
    return found


def grading(backend: str, warm: int = 0) -> Callable[[], str]:
    """Return a function that grades a new candidate, in a new box, and returns "1" if it passed."""
    limits, numbers = LIMITS.but(processes=16 + warm), itertools.count()
    grader = CodeGrader(lambda: start(limits, backend=backend, warm=warm), key=f"{backend} {warm}")
    tests = [CallTest("f", "(1,)", "2")]

    def grade() -> str:
        time.sleep(PAUSE)  # in which an agent writes its next program
        source = f"def f(x):\n    return x + 1  # {next(numbers)}\n"
        begin = time.perf_counter()
        passed = all(one.passed for one in grader({"solution.py": source}, "solution.py", tests).outcomes)
        grade.took = time.perf_counter() - begin  # type: ignore[attr-defined]
        return str(int(passed))

    return grade


def whole(backend: str) -> str:
    with start(LIMITS, backend=backend) as box:
        return box.run(["echo", "1"]).stdout


def measure(rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        todo = tasks(stack)
        for number in range(rounds + 2):
            for name, task in todo.items():
                if name.startswith(SELDOM) and number % 8:
                    continue
                took = seconds(task)
                if number >= 2 or name.startswith(SELDOM):
                    times.setdefault(name, []).append(took)
    return times


def processor_times(rounds: int) -> dict[str, float]:
    """Return the processor time of a program in seconds, by name: the least of three series that alternate."""
    with ExitStack() as stack:
        todo = {name: task for name, task in tasks(stack).items() if name.startswith(("bare", *LOCAL))}
        pids = (os.getpid(), ForkServerClient.get().process.pid)
        series: dict[str, list[float]] = {name: [] for name in todo}
        for _ in range(3):
            for name, task in todo.items():
                before = sum(map(cpu_of_family, pids))
                for _ in range(rounds):
                    task()
                series[name].append((sum(map(cpu_of_family, pids)) - before) / rounds)
    return {name: min(found) for name, found in series.items()}


def cpu_of_family(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def show_processor_times(found: dict[str, float]) -> dict[str, float]:
    table = Table(title=f"{CODE}, processor time in milliseconds")
    for title in ("", "each", "over bare"):
        table.add_column(title, justify="left" if not title else "right")
    for name, spent in found.items():
        base = found.get(f"bare, as in {name}")
        table.add_row(name, f"{spent * 1000:.1f}", f"{spent / base:.2f}" if base else "")
    Console(width=120).print(table)
    return {name: spent * 1000 for name, spent in found.items()}


def show(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    table = Table(title=f"{CODE}, milliseconds")
    for title in ("", "best", "median", "best over bare", "median over bare", "goal"):
        table.add_column(title, justify="left" if not title else "right")
    rows = {}
    for name, values in times.items():
        best, median = min(values), sorted(values)[len(values) // 2]
        base = times.get(f"bare, as in {name}")
        rows[name] = {"best_ms": best * 1000, "median_ms": median * 1000}
        shares = ["", ""]
        if base:
            ratios = sorted(one / other for one, other in zip(values, base, strict=True))
            rows[name] |= {"over_bare": best / min(base), "median_over_bare": ratios[len(ratios) // 2]}
            shares = [f"{rows[name][key]:.2f}" for key in ("over_bare", "median_over_bare")]
        table.add_row(name, f"{best * 1000:.2f}", f"{median * 1000:.2f}", *shares, GOALS.get(name.split(",")[0], ""))
    Console(width=120).print(table)
    return rows


def hostile(rounds: int) -> dict[str, dict[str, HostCost]]:
    """Return the greatest cost of each case, by back end."""
    found: dict[str, dict[str, HostCost]] = {}
    for backend in BACKENDS:
        try:
            start(HOSTILE_LIMITS, backend=backend).close()
        except SandboxError as error:
            print(f"{backend}: {error}")
            continue
        for name, case in CASES.items():
            costs = [
                measure_hostile(lambda backend=backend: start(HOSTILE_LIMITS, backend=backend), case)  # type: ignore[misc]
                for _ in range(rounds)
            ]
            outcome = next((cost.outcome for cost in costs if cost.outcome), "")
            most = [max(getattr(cost, name) for cost in costs) for name in ("memory", "cpu", "wall")]
            found.setdefault(backend, {})[name] = HostCost(int(most[0]), most[1], most[2], outcome)
    return found


def show_hostile(found: dict[str, dict[str, HostCost]]) -> dict[str, Any]:
    for backend, costs in found.items():
        table = Table(title=f"cost to the host, {backend}")
        for title in ("", "memory MB", "x benign", "cpu ms", "x benign", "wall ms", "error"):
            table.add_column(title, justify="left" if title in ("", "error") else "right")
        for name, cost in costs.items():
            benign = costs[
                "benign session" if any(word in name for word in ("session", "answer", "value")) else "benign run"
            ]
            ratio = [
                f"{cost.memory / max(benign.memory, 1 << 20):.1f}",
                f"{cost.cpu / max(benign.cpu, 0.01):.1f}",
            ]
            table.add_row(
                name,
                f"{cost.memory / 2**20:.1f}",
                ratio[0],
                f"{cost.cpu * 1000:.0f}",
                ratio[1],
                f"{cost.wall * 1000:.0f}",
                cost.outcome,
            )
        Console(width=120).print(table)
    return {backend: {name: asdict(cost) for name, cost in costs.items()} for backend, costs in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--hostile-rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: dict[str, Any] = show(measure(arguments.rounds)) if arguments.rounds else {}
    if arguments.rounds:
        rows["processor_ms"] = show_processor_times(processor_times(arguments.rounds))
    rows["hostile"] = show_hostile(hostile(arguments.hostile_rounds)) if arguments.hostile_rounds else {}
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
