"""Fixtures for all tests: the folder of real data, and the toys, which tests import by name.

`from toys.corridor import Corridor` works in every test, wherever it lies: tests/ is put on the path here, since the
test folders are not packages (their file names are unique instead).
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
import setuptools  # noqa: F401 - torch's compiler imports it, and it refuses to come after the distutils of Python 3.11
import typer.testing
from hypothesis import HealthCheck, settings

from turncredit.processes.garbage_collection import collect_garbage_less_often
from turncredit.training.learner.threads import AVX2

# No test measures time, so Hypothesis does not either: a busy machine makes any example slow, and so any drawing of it.
settings.register_profile("turncredit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", settings.get_profile("turncredit"), max_examples=20_000, database=None)
settings.load_profile("turncredit")
# Tables are as wide as without a terminal, whatever the terminal is from which the tests are started.
os.environ["COLUMNS"] = "80"
# Before torch is imported: two test workers with two threads each wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Runs with one thread use AVX2 and nothing newer. In this process other tests may have used torch before, which then
# would compute differently from the processes that tests start.
if Path("/proc/cpuinfo").is_file() and "avx2" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"):
    for variable, value in AVX2.items():
        os.environ.setdefault(variable, value)
# Tests compute on the CPU, on a machine with a GPU too: torch's gradients in forks work only where it sees no GPU.
ON_GPU = os.environ.get("TURNCREDIT_GPU") == "1"
if not ON_GPU:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
# The runner of the tests would build all commands of the program anew for each line of a command.
typer.testing._get_command = cache(typer.testing._get_command)
# As the program does; the modules of all tests are a million objects, which the collector would visit in every test.
collect_garbage_less_often()
# A job that a shell starts in the background ignores Ctrl-C, and so would what the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
BROWSERS = {"browser", "tab"}
"""Fixtures that start Chromium."""
BY_USE = r"\"docker\"|def \w+\([^)]*\b(browser|tab)\b"
"""What stands in a module whose tests are marked as waiting by what they use."""
TESTS = Path(__file__).resolve().parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))


def pytest_configure(config: pytest.Config) -> None:
    """Start what forks the processes of tests, for all workers together, while they collect."""
    required = marks_of(config.option.markexpr)[1]
    if getattr(config.option, "numprocesses", None) and {"waits", "slow"} & required:
        from toys.warm_processes import server

        server()
    elif "vllm" in required and not ON_GPU and importlib.util.find_spec("vllm") is not None:
        from toys.warm_engines import spawn_warm, start_server

        start_server()
        spawn_warm()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without collecting garbage, and never look at what was collected again: half of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a module whose tests all have a mark that is left out, or lack one that is asked for."""
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        text = collection_path.read_text(encoding="utf-8")
        left_out, required = marks_of(config.option.markexpr)
        if left_out & set(re.findall(r"^pytestmark = pytest\.mark\.(\w+)$", text, re.M)):
            return True
        if not all(re.search(sign_of(mark), text) for mark in required):
            return True
    return None


def sign_of(mark: str) -> str:
    """Return the pattern of what stands in each module some of whose tests have a mark."""
    return rf"mark\.{mark}\b" + (f"|{BY_USE}" if mark == "waits" else "")


def marks_of(expression: str) -> tuple[set[str], set[str]]:
    """Return the marks that no test of `-m expression` has, and those that all have: ``slow and not waits``."""
    if re.search(r"\bor\b|\(", expression):
        return set(), set()
    parts = [part.split() for part in expression.split(" and ")]
    return {part[1] for part in parts if part[:1] == ["not"]}, {part[0] for part in parts if len(part) == 1}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest modules, mark what waits by what it uses, and skip what needs another environment."""
    from toys.longest_modules import LONGEST

    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    without_vllm = importlib.util.find_spec("vllm") is None
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        containers = any(isinstance(value, str) and value == "docker" for value in parameters)
        if containers or BROWSERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.waits)
            if not re.search(sign_of("waits"), item.path.read_text(encoding="utf-8")):
                raise pytest.UsageError(f"{item.path}: its tests wait; give it pytest.mark.waits")
        if without_vllm and item.get_closest_marker("vllm") is not None:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed here: make test-vllm"))
        if not ON_GPU and item.get_closest_marker("gpu") is not None:
            item.add_marker(pytest.mark.skip(reason="needs a GPU: make test-gpu"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data (games, transcripts, ...) that $TURNCREDIT_DATA names; without it the test is skipped."""
    value = os.environ.get("TURNCREDIT_DATA", "")
    if not value:
        pytest.skip("TURNCREDIT_DATA is not set")
    folder = Path(value)
    if not folder.is_dir():
        # A wrong path must not look like a machine without data.
        pytest.fail(f"TURNCREDIT_DATA names {folder}, which is not a folder")
    return folder


@pytest.fixture(autouse=True)
def _registrations() -> Iterator[None]:
    """Forget the environments that a test registers."""
    from toys.registrations import forgotten

    with forgotten():
        yield


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Begin every test with one thread of torch, whatever the test before it chose: workers share the processors."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
