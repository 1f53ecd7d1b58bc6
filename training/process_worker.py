"""A process that carries one run out for a crew: the job comes as a line on standard input, events leave as JSON lines.

    {"phase": "ended", "finished": true}        {"phase": "failed", "text": "..."}

come last; what any library prints goes to standard error, which is the job's log. When the parent dies, standard input
ends, and the worker stops as after Ctrl-C: with a checkpoint.

Left out on purpose: a second job. A fresh process begins with the same state of every library as any other.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

PATIENCE = 90.0
"""Seconds to wait for a folder that is held: a worker whose parent was killed may be saving its checkpoint."""
SELDOM = 0.2
"""Seconds between two ticks of one kind."""


def main() -> None:
    """Carry out the job of standard input."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background ignores it, and so would we
    send = _channel()
    try:
        job = json.loads(sys.stdin.readline())
        sys.path += [place for place in job["path"] if place not in sys.path]
        threading.Thread(target=_follow_parent, daemon=True).start()
        _carry_out(job["run"], send)
    except KeyboardInterrupt:
        send({"phase": "ended", "finished": False})
    except BaseException as error:
        traceback.print_exc()
        send({"phase": "failed", "text": _sentence(error)})
        sys.exit(1)


def _carry_out(table: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    from turnwise.training.config import Run
    from turnwise.training.errors import FolderInUse
    from turnwise.training.loop import train

    waited = 0.0
    while True:
        run = Run.parse(table)
        try:
            outcome = train(run, resume=(run.folder / "run.toml").exists(), on_event=_thinned(send))
            break
        except FolderInUse:
            if waited >= PATIENCE:
                raise
            time.sleep(1.0)
            waited += 1.0
    send({"phase": "ended", "finished": outcome.finished})


def _channel() -> Callable[[dict[str, Any]], None]:
    """Keep standard output for events alone, and give what writes one."""
    out: TextIO = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(event: dict[str, Any]) -> None:
        try:
            with lock:
                out.write(json.dumps(event, default=_plain) + "\n")
        except OSError:
            pass  # the parent is gone; Ctrl-C is on its way

    return send


def _plain(value: object) -> object:
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def _thinned(send: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Pass events on, ticks only now and then."""
    last: dict[str, float] = {}

    def listen(event: dict[str, Any]) -> None:
        if event["phase"] == "tick":
            now, what = time.monotonic(), str(event["what"])
            if now - last.get(what, 0.0) < SELDOM and event["done"] != event["total"]:
                return
            last[what] = now
        send(event)

    return listen


def _follow_parent() -> None:
    """Stop as after Ctrl-C when the parent is gone, which ends standard input."""
    sys.stdin.read()
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60.0)


def _sentence(error: BaseException) -> str:
    """What went wrong, on one line: a mistake of the user in its own words, another exception with its name."""
    roots = {"EnvError", "CreditError", "AgentError", "TrainingError"}
    known = any(kind.__name__ in roots for kind in type(error).__mro__)
    text = " ".join(str(error).split())
    return text if known and text else f"{type(error).__name__}: {text}"


def command() -> list[str]:
    """Give the command line of a worker."""
    return [sys.executable, "-P", "-m", "turnwise.training.process_worker"]


def job(table: dict[str, Any]) -> str:
    """Give the line that a worker reads.

    Args:
        table: the run, as `Run.parse` takes it.
    """
    return json.dumps({"run": table, "path": [str(Path(place).resolve()) for place in sys.path if place]}) + "\n"


if __name__ == "__main__":
    main()
