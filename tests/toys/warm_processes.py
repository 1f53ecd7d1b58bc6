"""Processes that begin with torch and transformers imported, which otherwise takes each of them four seconds.

They are forked from a process that has imported these and nothing of the tests, and that has computed nothing.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import Any

WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(
    [
        "torch.distributed.checkpoint",
        "torch.distributed.fsdp",
        "torch.distributed.launcher.api",
        "transformers.models.llama.modeling_llama",
        "turnwise.training.training_run",
        "turnwise.training.learner.distributed_learner",
        "turnwise.training.learner.rank_commands",
        "hypothesis",
        "pytest",
    ]
)


class WarmPopen(subprocess.Popen[str]):
    """`subprocess.Popen` of [sys.executable, "-c", code, ...] or [sys.executable, "-m", module, ...]."""

    # These three methods start a process, look whether it has ended, and wait for it; all else is Popen's own.

    def _execute_child(self, args: list[str], *options: Any) -> None:
        _, _, _, _, cwd, env, _, _, _, _, _, _, out, _, error, *_ = options
        ends = {number: Connection(os.dup(end), readable=False) for number, end in ((1, out), (2, error)) if end >= 0}
        words = [str(word) for word in args[1:] if word != "-P"]
        # A daemon, so that a test that fails leaves nothing behind.
        self._process = WARM.Process(target=_run, args=(words, dict(env or os.environ), cwd, ends), daemon=True)
        self._process.start()
        for end in {out, error} - {-1}:
            os.close(end)
        for connection in ends.values():
            connection.close()
        self.pid, self._child_created = self._process.pid, True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._process.join(timeout)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode


def _run(words: list[str], environment: dict[str, str], folder: str | None, ends: dict[int, Connection]) -> None:
    os.setsid()
    for number, connection in ends.items():
        os.dup2(connection.fileno(), number)
        connection.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder or os.getcwd())
    multiprocessing.current_process()._config["daemon"] = False  # it may start processes of its own
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    kind, program, *sys.argv = words
    sys.argv.insert(0, kind)
    try:
        if kind == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()
