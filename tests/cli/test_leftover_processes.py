"""What environments start ends with the program that plays them, without worker processes too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from toys.waiting import eventually

pytestmark = pytest.mark.waits

PROGRAM = """
import subprocess, sys
import turncredit.envs
from toys.corridor import Corridor

class Starting(Corridor):
    def reset(self, **options):
        subprocess.Popen(["sleep", SECONDS])
        subprocess.Popen(["sleep", SECONDS], start_new_session=True)
        return super().reset(**options)

turncredit.envs.register("toys/Starting-v0", Starting)
sys.argv = ["turncredit", *sys.argv[1:]]
from turncredit.cli.main import main
main()
"""


def running(seconds: str) -> list[int]:
    """Return the processes whose command line ends with a number."""
    pids = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            pids.append(int(pid))
    return pids


def test_nothing_that_an_environment_started_outlives_the_program(tmp_path: Path) -> None:
    seconds = str(100_000 + os.getpid())
    program = f"SECONDS = {seconds!r}\n{PROGRAM}"
    words = ["eval", "random", "toys/Starting-v0", "--episodes", "3", "--output", str(tmp_path / "e.json")]
    result = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    try:
        assert result.returncode == 0, result.stderr
        assert eventually(lambda: not running(seconds))
    finally:
        for pid in running(seconds):
            os.kill(pid, 9)
