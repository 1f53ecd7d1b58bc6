"""`turncredit train` that is ended in its warm start, by a request or without one, and `--resume` after that."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toys.commands import Call, one_sentence
from toys.warm_processes import WarmPopen

pytestmark = pytest.mark.waits

PHASES = ("setup", "imitation", "model", "train", "evaluation")
"""Of the events that a run writes once; other tests may resume the finished run, which adds a "done" to its metrics."""

CODE = """
import sys, time
from toys.corridor import Corridor, register
from turncredit.cli.main import main
from turncredit.training.imitation import imitation, imitation_run
from turncredit.training.run_folder import warm_start_recovery

warm_start_recovery.INTERVAL, warm_start_recovery.SHARE, imitation_run.PACE = 0.0, 1e9, 0.0
place, count = sys.argv.pop(1), int(sys.argv.pop(1))

def stuck(function):
    def wrapped(*args, **options):
        global count
        count -= 1
        if count == 0:
            print("here", flush=True)
            time.sleep(600)  # to be ended now, and not some time later
        return function(*args, **options)
    return wrapped

if place == "demonstrations":
    Corridor.step = stuck(Corridor.step)
if place == "imitation":
    imitation.clip_gradient = stuck(imitation.clip_gradient)  # with the gradient of a step, before the step
register()
main()
"""


def start(*words: object) -> WarmPopen:
    """Start a program in a process group of its own."""
    return WarmPopen(
        [sys.executable, "-c", CODE, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
    )


def ended(process: WarmPopen, number: signal.Signals) -> tuple[str, str]:
    """Send a signal to the whole group of a process when it is there, and return what it says."""
    try:
        assert process.stdout is not None
        assert "here\n" in process.stdout
        os.killpg(process.pid, number)
        return process.communicate(timeout=250)
    finally:
        process.kill()


def events(folder: Path) -> list[dict[str, object]]:
    stored = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    timed = re.compile("second|_memory$|^folder$|^name$")
    return [{key: value for key, value in event.items() if not timed.search(key)} for event in stored]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(
    ("place", "count", "progress"),
    [("demonstrations", 30, r"\d+ demonstrations?"), ("imitation", 8, r"step 7 of \d+")],
)
def test_a_run_that_is_ended_in_its_warm_start_goes_on_there_and_ends_the_same(
    trained: Path,
    run_file: Path,
    tmp_path: Path,
    turncredit: Call,
    number: signal.Signals,
    place: str,
    count: int,
    progress: str,
) -> None:
    from safetensors.torch import load_file

    folder = tmp_path / "corridor"
    process = start(place, count, "train", run_file, "--output", folder)
    out, err = ended(process, number)
    assert process.returncode == (130 if number == signal.SIGTERM else -number), err
    assert "Traceback" not in err
    if number == signal.SIGTERM:
        said = " ".join(out.split())
        assert re.search(f"interrupted; --resume continues the warm start from {progress}", said), out
        assert f"stopped in the warm start; to continue: turncredit train {folder} --resume" in said
    one_sentence(turncredit("eval", folder), "holds no checkpoint yet: its warm start is at ", "--resume")
    said = turncredit("train", folder, "--resume")
    assert said.code == 0, said.err
    told = " ".join(said.out.split())
    before = r"of which \d+ were played before" if place == "demonstrations" else "continuing the warm start from"
    assert re.search(before if place == "demonstrations" else f"{before} {progress}", told), said.out
    assert "finished 2 iterations" in said.out
    assert not (folder / "imitation").exists()
    first, other = (load_file(path / "checkpoints/000002/model.safetensors") for path in (folder, trained))
    assert first.keys() == other.keys()
    assert all((first[name] == other[name]).all() for name in first)
    steps, reference = ([event for event in events(path) if event["phase"] in PHASES] for path in (folder, trained))
    assert steps == reference
