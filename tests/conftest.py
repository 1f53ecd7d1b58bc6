"""Fixtures for all tests: the folder of real data, and the toys, which tests import by name.

`from toys.corridor import Corridor` works in every test, wherever it lies: tests/ is put on the path here, since the
test folders are not packages (their file names are unique instead).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test measures time, so Hypothesis does not either: a busy machine makes any example slow, and so any drawing of it.
settings.register_profile("turnwise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("turnwise")
# Tables are as wide as without a terminal, whatever the terminal is from which the tests are started.
os.environ["COLUMNS"] = "80"
# Before torch is imported: two test workers with two threads each wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A job that a shell starts in the background ignores Ctrl-C, and so would what the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
TESTS = Path(__file__).resolve().parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data (games, transcripts, ...) that $TURNWISE_DATA names; without it the test is skipped."""
    value = os.environ.get("TURNWISE_DATA", "")
    if not value:
        pytest.skip("TURNWISE_DATA is not set")
    folder = Path(value)
    if not folder.is_dir():
        # A wrong path must not look like a machine without data.
        pytest.fail(f"TURNWISE_DATA names {folder}, which is not a folder")
    return folder
