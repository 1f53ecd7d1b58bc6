"""What environments start ends with the program that plays them, without worker processes too."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from toys.waiting import eventually

from turncredit.processes.child_process import MARKS

pytestmark = pytest.mark.waits

PROGRAM = """
import os, subprocess, sys
import turncredit.envs
from toys.corridor import Corridor

def become_daemon():
    # forks twice, with a session between, so that the process has no parent here any more
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    os.execvp("sleep", ["sleep", SECONDS])

class Starting(Corridor):
    def reset(self, **options):
        subprocess.Popen(["sleep", SECONDS])
        subprocess.Popen(["sleep", SECONDS], start_new_session=True)
        subprocess.Popen(["sh", "-c", "setsid sleep $1 > /dev/null 2>&1 < /dev/null &", "sh", SECONDS]).wait()
        become_daemon()
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


@pytest.mark.parametrize("command", ["eval", "play"])
def test_nothing_that_an_environment_started_outlives_the_program(tmp_path: Path, command: str) -> None:
    """Nor do daemons; what others have started stays, also under the mark of another program."""
    seconds, others = str(100_000 + os.getpid()), str(2_100_000 + os.getpid())
    program = f"SECONDS = {seconds!r}\n{PROGRAM}"
    words = {
        "eval": ["eval", "random", "toys/Starting-v0", "--episodes", "3", "--output", str(tmp_path / "e.json")],
        "play": ["play", "toys/Starting-v0"],
    }[command]
    stranger = subprocess.Popen(["sleep", others], env={**os.environ, MARKS: secrets.token_hex(8)})
    try:
        result = subprocess.run(
            [sys.executable, "-c", program, *words],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            input=":quit\n",
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            start_new_session=True,
        )
        assert result.returncode == 0, result.stderr
        assert ("toys/Starting-v0" if command == "eval" else "You are in room 1") in result.stdout
        assert eventually(lambda: not running(seconds))
        assert running(others) == [stranger.pid]
    finally:
        stranger.kill()
        stranger.wait()
        for pid in running(seconds):
            os.kill(pid, 9)
