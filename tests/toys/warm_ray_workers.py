"""Workers of a Ray cluster that begin with torch imported, as in `toys.warm_processes`.

Ray starts each worker as a script that reads its environment and becomes Ray's own program. Here that script is this
file: it has the program run by a fork, and waits for its end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # where `toys` is

from toys.warm_processes import WarmPopen

OF_SCRIPT = ("--serialized-runtime-env-context=", "--language=")
"""Options of the script and not of Ray's program."""


@contextmanager
def warm_workers() -> Iterator[None]:
    """Let the workers of the clusters that this process starts be forked."""
    from ray._private import ray_constants

    # The server is ready before Ray starts, which gives its own processes half a minute to do so.
    WarmPopen([sys.executable, "-c", ""]).wait()
    before = ray_constants.SETUP_WORKER_FILENAME
    ray_constants.SETUP_WORKER_FILENAME = str(Path(__file__).resolve())
    try:
        yield
    finally:
        ray_constants.SETUP_WORKER_FILENAME = before


def worker_of(script: int) -> int | None:
    """Return the process id of the worker that a script waits for; None if the process is no such script."""
    name = Path(f"/proc/{script}/comm").read_text().strip()
    return int(name) if name.isdecimal() else None


def _run_worker() -> int:
    resource_tracker._resource_tracker._fd = os.open(os.devnull, os.O_WRONLY)  # or a process would start that tracks
    worker = WarmPopen([sys.executable, *(word for word in sys.argv[1:] if not word.startswith(OF_SCRIPT))])
    Path("/proc/self/comm").write_text(str(worker.pid))
    return worker.wait()


if __name__ == "__main__":
    sys.exit(_run_worker())
