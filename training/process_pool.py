"""Runs in worker processes, a few at a time: who may begin, what they say, and how they end.

A worker that fails or is killed takes nobody along but the jobs that wait for its result. Ctrl-C stops all of them in
good order, a second one at once.

Left out on purpose: other machines, and jobs of different sizes.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from turnwise.training.config import Run
from turnwise.training.process_worker import command, job

State = Literal["waiting", "running", "finished", "stopped", "failed"]
LOG = "worker.log"


@dataclass(slots=True)
class Job:
    """One run with an evaluation to be carried out, and how it stands.

    Attributes:
        name: of the arm.
        seed: of the run.
        run: the configuration.
        after: the job that has to be finished first, or None.
        state: how it stands.
        text: why it failed.
        asked: whether it was told to stop.
    """

    name: str
    seed: int
    run: Run
    after: "Job | None" = None
    state: State = "waiting"
    text: str = ""
    asked: bool = False
    process: "subprocess.Popen[str] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Look whether the run has come to its end already: the evaluation after training is its last file."""
        if (self.run.folder / "after.json").exists():
            self.state = "finished"

    @property
    def log(self) -> Path:
        """What the worker's libraries printed."""
        return self.run.folder / LOG


Told = tuple[Job, dict[str, Any]]
OnTold = Callable[[Job, dict[str, Any]], None]


def carry_out(jobs: Sequence[Job], workers: int, on_event: OnTold, *, idle: Callable[[], None] = lambda: None) -> bool:
    """Carry jobs out, `workers` at a time, in their order, as far as they are not finished.

    Args:
        jobs: a job stands after the one that it waits for.
        workers: most processes at once, from 1.
        on_event: gets each job's events, and "begun", "ended" and "failed" (with "text") of the job itself.
        idle: called several times a second.

    Returns:
        False after Ctrl-C.
    """
    heard: queue.Queue[Told] = queue.Queue()
    going = True
    with _ended_for_good(jobs):
        while True:
            try:
                _begin(jobs, workers if going else 0, heard, on_event)
                if not any(one.state == "running" for one in jobs):
                    return going
                _listen(heard, on_event)
                idle()
            except KeyboardInterrupt:
                for one in jobs:
                    if one.state == "running" and one.process is not None:
                        one.asked = True
                        one.process.send_signal(signal.SIGINT if going else signal.SIGKILL)
                going = False


def _begin(jobs: Sequence[Job], workers: int, heard: "queue.Queue[Told]", on_event: OnTold) -> None:
    """Start what can be started; fail what waits for something that failed."""
    for one in jobs:
        if one.state != "waiting":
            continue
        if one.after is not None and one.after.state == "failed":
            one.state, one.text = "failed", f"the {one.after.name} of seed {one.after.seed} failed"
            on_event(one, {"phase": "failed", "text": one.text})
        elif sum(other.state == "running" for other in jobs) < workers and (
            one.after is None or one.after.state == "finished"
        ):
            one.run.folder.mkdir(parents=True, exist_ok=True)
            with one.log.open("a", encoding="utf-8") as log:
                one.process = subprocess.Popen(
                    command(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    encoding="utf-8",
                    process_group=0,  # Ctrl-C of the terminal is ours to pass on
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            one.state = "running"
            threading.Thread(target=_hear, args=(one, heard), daemon=True).start()
            on_event(one, {"phase": "begun"})


def _hear(one: Job, heard: "queue.Queue[Told]") -> None:
    """Give a worker its job and hand on what it says, until it ends."""
    process = one.process
    assert process is not None
    assert process.stdin is not None
    assert process.stdout is not None
    last: dict[str, Any] = {}
    try:
        process.stdin.write(job(one.run.model_dump(exclude_unset=True)))
        process.stdin.flush()
        for line in process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["phase"] in {"ended", "failed"}:
                last = event
            else:
                heard.put((one, event))
    except OSError:
        pass  # it died before it could listen
    code = process.wait()
    if not last and one.asked:
        last = {"phase": "ended", "finished": False}
    elif not last:
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        last = {"phase": "failed", "text": f"its process {how}; the same command goes on with it (log: {one.log})"}
    process.stdin.close()
    process.stdout.close()
    heard.put((one, last))


def _listen(heard: "queue.Queue[Told]", on_event: OnTold) -> None:
    """Take in what was said within a quarter of a second."""
    until = time.monotonic() + 0.25
    while (left := until - time.monotonic()) > 0:
        try:
            one, event = heard.get(timeout=left)
        except queue.Empty:
            return
        if event["phase"] == "failed":
            one.state, one.text = "failed", str(event["text"])
        elif event["phase"] == "ended":
            one.state = "finished" if event["finished"] else "stopped"
            if not one.log.stat().st_size:
                one.log.unlink()
        on_event(one, event)
        if event["phase"] in {"failed", "ended"}:
            return  # somebody else can begin


@contextmanager
def _ended_for_good(jobs: Sequence[Job]) -> Iterator[None]:
    """Leave no process behind, whatever happens here."""
    try:
        yield
    finally:
        for one in jobs:
            if one.process is not None and one.process.poll() is None:
                one.process.kill()
                one.process.wait()
