"""A pool of processes that train runs, a few at a time.

`concurrent.futures` does not fit here: a run streams events while it trains, must survive being killed (the next call
resumes it), and stops cleanly on Ctrl-C. A worker that fails or is killed affects only the runs that depend on it.
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
from typing import Literal

from turncredit.ablation.process_worker import command, job_line
from turncredit.training.config.run import Run

State = Literal["waiting", "running", "finished", "stopped", "failed"]
LOG = "worker.log"


@dataclass(slots=True)
class PooledRun:
    """One run with an evaluation, to be trained in its own process.

    Attributes:
        name: name of the arm.
        seed: of the run.
        run: the configuration.
        after: the run that must finish first, or None.
        evaluated: folder of evaluations before training that runs share; None: the run makes its own.
        state: of the run.
        text: why it failed.
        stopping: whether it was asked to stop.
    """

    name: str
    seed: int
    run: Run
    after: "PooledRun | None" = None
    evaluated: Path | None = None
    state: State = "waiting"
    text: str = ""
    stopping: bool = False
    process: "subprocess.Popen[str] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Recognise a run that is already finished: the evaluation after training is its last file."""
        if (self.run.folder / "after.json").exists():
            self.state = "finished"

    @property
    def log(self) -> Path:
        """Output of the process other than events."""
        return self.run.folder / LOG


RunEvent = tuple[PooledRun, dict[str, object]]
OnRunEvent = Callable[[PooledRun, dict[str, object]], None]


def train_all(
    jobs: Sequence[PooledRun],
    workers: int,
    on_event: OnRunEvent,
    *,
    idle: Callable[[], None] = lambda: None,
    seconds: float | None = None,
) -> bool:
    """Train all unfinished runs in their order, `workers` at a time.

    Args:
        jobs: the runs; each one follows the run that it depends on.
        workers: maximum number of processes, >= 1.
        on_event: receives each run's events, and "begun", "ended" and "failed" (with "text") of its process.
        idle: called several times per second.
        seconds: after this time no run begins, and no iteration: a run ends with those that it has, and is evaluated.

    Returns:
        False after Ctrl-C, which stops all runs at their last finished iteration (a second one kills them).
    """
    events: queue.Queue[RunEvent] = queue.Queue()
    running = True
    end = None if seconds is None else time.monotonic() + seconds
    with _killed_at_exit(jobs):
        while True:
            try:
                _begin(jobs, workers if running else 0, events, on_event, end)
                if not any(job.state == "running" for job in jobs):
                    return running
                _dispatch(events, on_event)
                idle()
            except KeyboardInterrupt:
                for job in jobs:
                    if job.state == "running" and job.process is not None:
                        job.stopping = True
                        job.process.send_signal(signal.SIGINT if running else signal.SIGKILL)
                running = False


def _begin(
    jobs: Sequence[PooledRun],
    workers: int,
    events: "queue.Queue[RunEvent]",
    on_event: OnRunEvent,
    end: float | None,
) -> None:
    """Start the runs that can start; fail those that depend on a failed run."""
    for job in jobs:
        if job.state != "waiting":
            continue
        if job.after is not None and job.after.state == "failed":
            job.state, job.text = "failed", f"the {job.after.name} of seed {job.after.seed} failed"
            on_event(job, {"phase": "failed", "text": job.text})
        elif (
            sum(other.state == "running" for other in jobs) < workers
            and (job.after is None or job.after.state == "finished")
            and (end is None or time.monotonic() < end)
        ):
            job.run.folder.mkdir(parents=True, exist_ok=True)
            with job.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
                job.process = subprocess.Popen(
                    command(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    encoding="utf-8",
                    process_group=0,  # so that Ctrl-C in the terminal does not reach it directly
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            job.state = "running"
            threading.Thread(target=_read_events, args=(job, events, end), daemon=True).start()
            on_event(job, {"phase": "begun"})


def _read_events(job: PooledRun, events: "queue.Queue[RunEvent]", end: float | None) -> None:
    """Return a worker its job and hand on what it says, until it ends."""
    process = job.process
    assert process is not None
    assert process.stdin is not None
    assert process.stdout is not None
    last: dict[str, object] = {}
    try:
        left = None if end is None else max(0.0, end - time.monotonic())
        process.stdin.write(job_line(job.run.model_dump(exclude_unset=True), left, job.evaluated))
        process.stdin.flush()
        for line in process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["phase"] in {"ended", "failed"}:
                last = event
            else:
                events.put((job, event))
    except OSError:
        pass  # the process died before it read the run
    code = process.wait()
    if not last and job.stopping:
        last = {"phase": "ended", "finished": False}
    elif not last:
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        last = {"phase": "failed", "text": f"its process {how}; the same command resumes it (log: {job.log})"}
    process.stdin.close()
    process.stdout.close()
    events.put((job, last))


def _dispatch(events: "queue.Queue[RunEvent]", on_event: OnRunEvent) -> None:
    """Handle the events of the next quarter of a second."""
    until = time.monotonic() + 0.25
    while (left := until - time.monotonic()) > 0:
        try:
            job, event = events.get(timeout=left)
        except queue.Empty:
            return
        if event["phase"] == "failed":
            job.state, job.text = "failed", str(event["text"])
        elif event["phase"] == "ended":
            job.state = "finished" if event["finished"] else "stopped"
            if not job.log.stat().st_size:
                job.log.unlink()
        on_event(job, event)
        if event["phase"] in {"failed", "ended"}:
            return  # another run can start


@contextmanager
def _killed_at_exit(jobs: Sequence[PooledRun]) -> Iterator[None]:
    """Kill the processes that are still running when the block ends."""
    try:
        yield
    finally:
        for job in jobs:
            if job.process is not None and job.process.poll() is None:
                job.process.kill()
                job.process.wait()
