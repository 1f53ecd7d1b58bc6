"""Processes that begin with torch and transformers imported, which otherwise takes each of them ten seconds.

They are forked from a process that has imported these and nothing of the tests, and that has computed nothing; so are
those that they start themselves with `WarmPopen`. The workers of a lane share that process.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

PRELOADED = [
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.launcher.api",
    "transformers.models.llama.modeling_llama",
    "turncredit.training.training_run",
    "turncredit.training.learner.distributed_learner",
    "turncredit.training.learner.rank_commands",
    "turncredit.engines.cluster.sampler",
    "jsonschema",
    "hypothesis",
    "pytest",
]
"""What the process has imported that forks; jsonschema is Ray's. Ray itself reads the environment as it is imported."""
WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(PRELOADED)
SERVER = forkserver._forkserver
"""Python's connection to the process that forks all others."""
VARIABLE = "TURNCREDIT_WARM_SERVER"
"""What names the server of this process to those that it starts."""


def server() -> tuple[str, str]:
    """Start the process that forks, tell those that this process starts, and return its address and its secret."""
    SERVER.ensure_running()
    secret = getattr(SERVER, "_forkserver_authkey", None) or b""
    os.environ[VARIABLE] = json.dumps([SERVER._forkserver_address, secret.hex()])
    return SERVER._forkserver_address, secret.hex()


def use_server(address: str, secret: str) -> None:
    """Let the server of another process fork those of this one."""
    SERVER._forkserver_address, SERVER._forkserver_authkey = address, bytes.fromhex(secret)
    SERVER.ensure_running = lambda: None
    if SERVER._forkserver_alive_fd is None:  # this process is none of its forks, and does not keep it alive
        SERVER._forkserver_alive_fd = os.open(os.devnull, os.O_WRONLY)


if VARIABLE in os.environ:
    use_server(*json.loads(os.environ[VARIABLE]))


class WarmPopen(subprocess.Popen[str]):
    """`subprocess.Popen` of a Python with "-c" and code, "-m" and a module, or a script, in a session of its own."""

    # These three methods start a process, look whether it has ended, and wait for it; all else is Popen's own.

    def _execute_child(self, args: list[str], *options: Any) -> None:
        folder, environment, (into, _, _, out, _, error) = options[4], options[5], options[9:15]
        ends = {
            number: Connection(os.dup(number if end < 0 else end))
            for number, end in enumerate((into, out, error))
            if number or end >= 0
        }
        words = [str(word) for word in args[1:] if word not in ("-P", "-u")]
        begun, begin = WARM.Pipe(duplex=False)
        settings = (words, dict(environment or os.environ), folder, ends, begin, server())
        # A daemon, so that a test that fails leaves nothing behind.
        self._process = WARM.Process(target=_run, args=settings, daemon=True)
        self._process.start()
        self._close_pipe_fds(*options[9:15])
        for connection in (*ends.values(), begin):
            connection.close()
        begun.poll(None)  # until the process has a session of its own
        begun.close()
        self.pid, self._child_created = self._process.pid, True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._process.join(timeout)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode


def _run(
    words: list[str],
    environment: dict[str, str],
    folder: str | None,
    ends: dict[int, Connection],
    begin: Connection,
    address: tuple[str, str],
) -> None:
    os.setsid()
    begin.close()
    gc.freeze()
    for number, connection in ends.items():
        os.dup2(connection.fileno(), number)
        connection.close()
    if 0 in ends:
        sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has given it nothing to read
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder or os.getcwd())
    multiprocessing.current_process()._config["daemon"] = False  # it may start processes of its own
    use_server(*address)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    kind, *rest = words
    sys.argv = [kind, *rest[1:]] if kind in ("-m", "-c") else words
    try:
        if kind == "-m":
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_path(kind, run_name="__main__")
    finally:
        atexit._run_exitfuncs()
