"""A test that hangs is ended, and the output shows where every thread of it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HANGS = """
import signal, threading

def lock_that_nobody_opens(lock):
    lock.acquire()

def test_hangs():
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=lock_that_nobody_opens, args=(lock,), daemon=True).start()
    {}
    lock.acquire()

def test_after_it():
    pass
"""


def run(folder: Path, code: str, workers: int, *options: str) -> tuple[int, str]:
    """The exit code and the output of pytest with the settings of this repository and a limit of a second."""
    (folder / "test_that_hangs.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}"]
    command += ["-p", "no:cacheprovider", "--timeout=1", f"--numprocesses={workers}", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


WORKERS = pytest.mark.parametrize("workers", [0, 1])


@WORKERS
def test_a_test_that_hangs_fails_with_the_stacks_of_all_threads(tmp_path: Path, workers: int) -> None:
    code, output = run(tmp_path, HANGS.format(""), workers)
    assert code == 1
    assert "in lock_that_nobody_opens" in output
    assert "Failed: Timeout" in output
    assert "1 failed, 1 passed" in output


@WORKERS
def test_a_process_that_no_signal_reaches_ends_with_the_stacks_of_all_threads(tmp_path: Path, workers: int) -> None:
    deaf = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})"
    code, output = run(tmp_path, HANGS.format(deaf), workers, "-o", "faulthandler_timeout=3")
    assert code == 1
    assert "in lock_that_nobody_opens" in output
    assert "in test_hangs" in output
    assert not workers or "crashed while running 'test_that_hangs.py::test_hangs'" in output
