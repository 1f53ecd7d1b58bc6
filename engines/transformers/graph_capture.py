"""Capture of CUDA work, so that one launch replays what Python would start kernel by kernel.

A capture has the rules of `torch.cuda.graph`: the work reads and writes the same addresses at each replay, never waits
for the device, and allocates from a pool of its own. All captures of a sampler share one pool, since they are replayed
one at a time and nobody reads the result of one after the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import torch

Run = Callable[[], torch.Tensor]


class Capture(Protocol):
    """Turns work into something that can be replayed."""

    pinned: bool
    """Whether inputs are copied to the device from pinned memory."""

    def __call__(self, run: Run) -> tuple[Callable[[], None], torch.Tensor]:
        """Return what replays the work, and the tensor that each replay writes its result to.

        Args:
            run: the work; it reads tensors that stay where they are, and may be called several times.

        Raises:
            RuntimeError: the work cannot be captured.
        """

    def after_copy(self) -> Callable[[], None]:
        """Return what waits until copies to the device that were started by now have read their source."""


class CudaCapture:
    """Captures on one CUDA device."""

    pinned = True

    def __init__(self, device: torch.device) -> None:
        """Make a pool and the stream of the captures.

        Args:
            device: where the work runs.
        """
        self._device = device
        with torch.cuda.device(device):
            self._pool = torch.cuda.graph_pool_handle()
            # Captures share memory only if they are made on the same stream.
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, run: Run) -> tuple[Callable[[], None], torch.Tensor]:
        """Capture the work; see `Capture`."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                run()  # compiles kernels and lets libraries allocate their workspaces for this stream
                with _waiting_refused():  # a failed capture does more harm than an error here
                    run()
            current.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            try:
                # Other threads may allocate meanwhile: a learner, or another sampler.
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    out = run()
            except Exception:
                self._repair()
                raise
        return lambda: self._replay(graph), out

    def after_copy(self) -> Callable[[], None]:
        """Return what waits for the copies so far; see `Capture`."""
        with torch.cuda.device(self._device):
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        return event.synchronize

    def _replay(self, graph: torch.cuda.CUDAGraph) -> None:
        with torch.cuda.device(self._device):
            graph.replay()

    def _repair(self) -> None:
        """Capture nothing, with success, and take another pool: a failed capture leaves both as if it went on.

        Dropout of a learner on the same device would fail from then on ("Offset increment outside graph capture"), and
        so would the next capture in the pool ("already recording to mempool_id", torch 2.11).
        """
        self._pool = torch.cuda.graph_pool_handle()
        with suppress(RuntimeError):
            torch.cuda.synchronize()
            with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=self._stream):
                torch.zeros(1, device=self._device)


@contextmanager
def _waiting_refused() -> Iterator[None]:
    """Let every operation that waits for the device raise a RuntimeError."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
