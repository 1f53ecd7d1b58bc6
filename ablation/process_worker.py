"""The process of one run in a pool: it reads the run as a line from standard input and writes events as JSON lines.

    {"phase": "ended", "finished": true}        {"phase": "failed", "text": "..."}

is the last line; output of libraries goes to standard error, the log of the run. When the parent process dies, standard
input ends, and the worker stops as after Ctrl-C: with a checkpoint. A run whose time is up stops in the same way, and
is then continued as a run of the iterations that it has, if any, which evaluates it. A process trains one run only, so
that every run starts with the same state of all libraries.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from turncredit.processes.garbage_collection import collect_garbage_less_often
from turncredit.registry import ImportRules, adopt_import_rules, import_rules

if TYPE_CHECKING:
    from turncredit.training.config.run import Run
    from turncredit.training.run_folder.events import OnEvent
    from turncredit.training.run_folder.metrics import Event
    from turncredit.training.training_run import TrainingResult

PATIENCE = 90.0
"""Seconds to wait for a locked folder: a worker whose parent was killed may still be saving its checkpoint."""
TICK_INTERVAL = 0.2
"""Minimum number of seconds between two ticks of one kind."""


def main() -> None:
    """Train the run that standard input names."""
    # a parent in the background ignores SIGINT, and its children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    collect_garbage_less_often()
    send = _channel()
    try:
        job = json.loads(sys.stdin.readline())
        imports = job["imports"]
        adopt_import_rules(ImportRules(**imports | {"typed": frozenset(imports["typed"])}))
        threading.Thread(target=_follow_parent, daemon=True).start()
        _train(job["run"], send, job["seconds"], evaluated=job["evaluated"])
    except KeyboardInterrupt:
        send({"phase": "ended", "finished": False})
    except BaseException as error:
        traceback.print_exc()
        send({"phase": "failed", "text": _message(error)})
        sys.exit(1)


def _train(
    table: dict[str, object],
    send: Callable[[dict[str, object]], None],
    seconds: float | None,
    *,
    evaluated: str | None = None,
) -> None:
    from turncredit.training.config.run import Run

    listen, clock = _throttled(send), None if seconds is None else TimeLimit(seconds)
    run = Run.parse(table)
    outcome = _unlocked(run, clock.watched(listen) if clock else listen, evaluated)
    if clock is not None and clock.reached and not outcome.finished and outcome.step:
        outcome = _unlocked(Run.parse(table, [f"train.iterations={outcome.step}"]), listen, evaluated)
    send({"phase": "ended", "finished": outcome.finished})


def _unlocked(run: "Run", listen: "OnEvent", evaluated: str | None) -> "TrainingResult":
    """Train or resume a run as soon as its folder is not locked."""
    from turncredit.agents.errors import FolderInUse
    from turncredit.training.run_folder.paths import RUN_FILE
    from turncredit.training.training_run import train

    shared, waited = None if evaluated is None else Path(evaluated), 0.0
    while True:
        try:
            return train(run, resume=(run.folder / RUN_FILE).exists(), on_event=listen, evaluated=shared)
        except FolderInUse:
            if waited >= PATIENCE:
                raise
            time.sleep(1.0)
            waited += 1.0


class TimeLimit:
    """Ends a run between two episodes of its rollouts when the time that is left is what its evaluation takes.

    A warm start and evaluations go on.
    """

    def __init__(self, seconds: float) -> None:
        """Start the clock.

        Args:
            seconds: until the time is up.
        """
        self._end, self.reached = time.monotonic() + seconds, False
        self._evaluation = 0.0

    def watched(self, listen: "OnEvent") -> "OnEvent":
        """Return a listener that interrupts the run after an episode of a rollout.

        Args:
            listen: receives every event.
        """

        def watch(event: "Event") -> None:
            listen(event)
            if event["phase"] == "evaluation":
                self._evaluation = max(self._evaluation, float(event.get("seconds") or 0.0))
            rolls_out = event["phase"] == "tick" and event["what"] == "rollout"
            if rolls_out and time.monotonic() >= self._end - self._evaluation:
                self.reached = True
                raise KeyboardInterrupt

        return watch


def _channel() -> Callable[[dict[str, object]], None]:
    """Reserve standard output for events, and return the function that writes one."""
    out: TextIO = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(event: dict[str, object]) -> None:
        try:
            with lock:
                out.write(json.dumps(event, default=_plain) + "\n")
        except OSError:
            pass  # the parent is gone, and the worker is about to stop

    return send


def _plain(value: object) -> object:
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def _throttled(send: Callable[[dict[str, object]], None]) -> Callable[[dict[str, object]], None]:
    """Return a function that passes events on, and only some of the ticks."""
    last: dict[str, float] = {}

    def listen(event: dict[str, object]) -> None:
        if event["phase"] == "tick":
            current_time, activity = time.monotonic(), str(event["what"])
            if current_time - last.get(activity, 0.0) < TICK_INTERVAL and event["done"] != event["total"]:
                return
            last[activity] = current_time
        send(event)

    return listen


def _follow_parent() -> None:
    """Interrupt this process when standard input ends, because the parent is gone."""
    sys.stdin.read()
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60.0)


def _message(error: BaseException) -> str:
    """Return an error on one line; exceptions other than our own are preceded by their name."""
    roots = {"EnvError", "CreditError", "AgentError", "TrainingError"}
    ours = any(kind.__name__ in roots for kind in type(error).__mro__)
    text = " ".join(str(error).split())
    return text if ours and text else f"{type(error).__name__}: {text}"


def command() -> list[str]:
    """Return the command line of a worker."""
    return [sys.executable, "-P", "-m", "turncredit.ablation.process_worker"]


def job_line(table: dict[str, object], seconds: float | None = None, evaluated: Path | None = None) -> str:
    """Return the line that a worker reads.

    Args:
        table: the run, as `Run.parse` accepts it.
        seconds: time limit of its iterations; None: none.
        evaluated: folder of evaluations before training that runs share; None: the run makes its own.
    """
    rules = asdict(import_rules())
    job = {"run": table, "seconds": seconds, "evaluated": None if evaluated is None else str(evaluated)}
    return json.dumps({**job, "imports": rules | {"typed": sorted(rules["typed"])}}) + "\n"


if __name__ == "__main__":
    main()
