"""How often the garbage collector runs: in this process when asked, in worker processes and in the program always."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from turncredit.processes.concurrent_process import ConcurrentProcess
from turncredit.processes.garbage_collection import NEW_OBJECTS, collect_garbage_less_often


@pytest.fixture(autouse=True)
def _threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, *before[1:])  # the tests themselves raised it
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("first", "then"), [(700, NEW_OBJECTS), (2000, NEW_OBJECTS), (0, 0), (NEW_OBJECTS + 1, NEW_OBJECTS + 1)]
)
def test_only_a_lower_threshold_is_changed(first: int, then: int) -> None:
    gc.set_threshold(first, 7, 9)
    collect_garbage_less_often()
    assert gc.get_threshold()[:2] == (then, 7)


def _threshold_there() -> int:
    return gc.get_threshold()[0]


def _make() -> object:
    return _threshold_there


def test_worker_processes_collect_less_often() -> None:
    process = ConcurrentProcess(_make)  # type: ignore[arg-type]
    try:
        assert process.submit(0, 60.0).result(60.0) == NEW_OBJECTS
    finally:
        process.kill()


def test_the_program_collects_less_often() -> None:
    code = (
        "import gc, sys; from turncredit.cli import main as m; m.app = lambda: print(gc.get_threshold()[0]); m.main()"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(NEW_OBJECTS)]
