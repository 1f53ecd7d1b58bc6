"""Processes of vLLM that begin with vLLM imported, which otherwise takes each of them more than ten seconds.

vLLM has the processes of an engine spawned. Here they are forked from a process that has imported vLLM, and that has
computed nothing; they get the environment and the output of the process that starts them, as spawned ones do.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess

from toys.warm_processes import PRELOADED, server, use_server

from turncredit.engines.vllm.engine import INSTRUCTIONS

MODULES = [
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.llama",
]
get_context = multiprocessing.get_context


def spawn_warm() -> None:
    """Let vLLM's processes be forked, in this process and in those that are forked for it."""
    multiprocessing.get_context = _context


def start_server() -> None:
    """Start the process that forks, without the limits of vector instructions that vLLM is started without.

    What it prints as it ends, such as the objects that Triton leaks, would come after the result of the tests.
    """
    WARM.set_forkserver_preload([*PRELOADED, *MODULES])
    limits = {name: os.environ.pop(name) for name in INSTRUCTIONS if name in os.environ}
    ends = {number: os.dup(number) for number in (1, 2)}
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        for number in ends:
            os.dup2(nothing.fileno(), number)
        server()
    for number, end in ends.items():
        os.dup2(end, number)
        os.close(end)
    os.environ |= limits


class WarmProcess(ForkServerProcess):
    """A process that is forked where vLLM asks for one that is spawned."""

    def start(self) -> None:
        """Start the process."""
        self._environment, self._server = dict(os.environ), server()
        self._ends = {number: Connection(os.dup(number)) for number in (1, 2)}
        super().start()
        for connection in self._ends.values():
            connection.close()

    def run(self) -> None:
        """Do in the process what vLLM wants it to do."""
        from vllm.logger import _configure_vllm_root_logger

        for number, connection in self._ends.items():
            os.dup2(connection.fileno(), number)
            connection.close()
        os.environ.clear()
        os.environ.update(self._environment)
        use_server(*self._server)
        spawn_warm()
        _configure_vllm_root_logger()  # as the environment says
        super().run()


class WarmContext(ForkServerContext):
    """Python's own for processes that a server forks, with these processes."""

    Process = WarmProcess


WARM = WarmContext()


def _context(method: str | None = None) -> BaseContext:
    return WARM if method == "spawn" else get_context(method)
