"""Captured passes of one new token for each row, by the number of rows.

A pass with r rows uses the capture for the next power of two; the other rows write to a page that nobody reads. A
capture reads weights and pages where they were, so it is dropped when one of them moves: weights that are changed in
place, as a learner does, need no new capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from turnwise.agents.samplers.transformers.graph_capture import Capture
from turnwise.agents.samplers.transformers.kvcache import PagedCache
from turnwise.agents.samplers.transformers.step_access import StepAccess, StepAttention, attend_gathered

Forward = Callable[[torch.Tensor, torch.Tensor, StepAccess], torch.Tensor]
"""Returns the logits [B, V] for ids and positions, int64 [B, 1]."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row of the pass: its new token, that token's position, and the pages of its sequence."""

    token: int
    position: int
    pages: Sequence[int]


class CaptureFailed(Exception):
    """A pass cannot be captured; the message says why."""


class StepGraphs:
    """Computes the logits of one new token for each row through captured passes."""

    def __init__(self, model: torch.nn.Module, forward: Forward, capture: Capture, width: int, most: int) -> None:
        """Keep what is captured; nothing is before the first pass.

        Args:
            model: whose weights the passes read.
            forward: the pass.
            capture: how work is captured.
            width: tokens in a page.
            most: most pages of a sequence.
        """
        self._forward, self._capture = forward, capture
        self._width, self._most = width, most
        self.attention = step_attention(next(model.parameters()).device, width)
        """How its passes attend to pages."""
        self.kernel_failure: str | None = None
        """Why the kernel for that is not used; None: it is, or there is none."""
        self._weights = WeightPlaces(model)
        self._captured: dict[tuple[int, int], _Captured] = {}
        self._cache: PagedCache | None = None
        self._capacity = 0
        self.captures = 0
        """Number of captures so far."""

    def logits(self, rows: Sequence[StepRow], cache: PagedCache) -> torch.Tensor:
        """Return the logits [B, V] of the next token of each row.

        Args:
            rows: of the pass.
            cache: with memory for their pages and one more, its last.

        Raises:
            CaptureFailed: it computes these logits in a way that cannot be captured.
        """
        moved = cache is not self._cache or cache.capacity != self._capacity
        if self._weights.moved() or moved:
            self._captured.clear()
            self._cache, self._capacity = cache, cache.capacity
        captured = self._captured.get(self._key(rows))
        if captured is None:
            try:
                captured = self._record(rows, cache)
            except CaptureFailed as error:
                if self.attention is attend_gathered:
                    raise
                self.attention, self.kernel_failure = attend_gathered, str(error)
                captured = self._record(rows, cache)
        else:
            captured.fill(rows, cache.capacity - 1)
        return captured.replay(len(rows))

    def _key(self, rows: Sequence[StepRow]) -> tuple[int, int]:
        """Return the number of rows and the number of pages of each row of the capture for these."""
        # The copy for `attend_gathered` is as wide as the table; the kernel stops at the last token of each row.
        needed = max(row.position for row in rows) // self._width + 1
        return _power(len(rows)), min(_power(needed), self._most) if self.attention is attend_gathered else self._most

    def _record(self, rows: Sequence[StepRow], cache: PagedCache) -> _Captured:
        """Capture the pass for these rows, with their inputs."""
        assert cache.device is not None
        key = self._key(rows)
        captured = _Captured(*key, cache.device, self._capture)
        captured.fill(rows, cache.capacity - 1)
        try:
            captured.record(self._forward, self._width, self.attention)
        except Exception as error:  # a model may do anything in its pass, and compilers have errors of their own
            reason = str(error).strip().partition("\n")[0]
            raise CaptureFailed(f"{type(error).__name__}: {reason}") from error
        self._captured[key] = captured
        self.captures += 1
        return captured

    def loaded(self) -> None:
        """Look at all weights before the next pass: new ones were loaded."""
        self._weights.stale = True

    def begun(self) -> None:
        """Look before the next pass whether weights have moved: a request begins."""
        self._weights.unsure = True

    def clear(self) -> None:
        """Drop all captures and what they hold of the cache."""
        self._captured.clear()
        self._cache, self._capacity = None, 0


class _Captured:
    """The inputs of one captured pass, which stay where they are, and its result."""

    def __init__(self, size: int, columns: int, device: torch.device, capture: Capture) -> None:
        self._capture, self._size, self._columns = capture, size, columns
        # Ids, positions and pages in one piece, which is one copy to the device.
        self._here = torch.zeros(size * (2 + columns), dtype=torch.int64, pin_memory=capture.pinned)
        self._inputs = torch.zeros(size * (2 + columns), dtype=torch.int64, device=device)
        self._written = self._here.numpy()
        self._wait: Callable[[], None] | None = None
        self._replay: Callable[[], None] | None = None
        self._out: torch.Tensor | None = None

    def fill(self, rows: Sequence[StepRow], idle: int) -> None:
        """Copy the inputs to the device; rows beyond those given write to the page `idle`."""
        if self._wait is not None:
            self._wait()  # the copy before this one, which ended long ago unless a pass failed
        count, size = len(rows), self._size
        ids, positions, pages = np.split(self._written, [size, 2 * size])
        ids[:count], ids[count:] = [row.token for row in rows], 0
        positions[:count], positions[count:] = [row.position for row in rows], 0
        table = pages.reshape(size, self._columns)
        table[:] = idle
        lengths = [len(row.pages) for row in rows]
        places = np.arange(max(lengths)) < np.array(lengths)[:, None]
        table[:count, : places.shape[1]][places] = np.fromiter(
            chain.from_iterable(row.pages for row in rows), np.int64, sum(lengths)
        )
        self._inputs.copy_(self._here, non_blocking=True)
        self._wait = self._capture.after_copy()

    def record(self, forward: Forward, width: int, attention: StepAttention) -> None:
        """Capture the pass."""
        size = self._size
        ids, positions = self._inputs[:size, None], self._inputs[size : 2 * size, None]
        pages = self._inputs[2 * size :].view(size, self._columns)

        def run() -> torch.Tensor:
            return forward(ids, positions, StepAccess(positions[:, 0], pages, width, attention))

        self._replay, self._out = self._capture(run)

    def replay(self, count: int) -> torch.Tensor:
        assert self._replay is not None
        assert self._out is not None
        self._replay()
        return self._out[:count].clone()  # the next replay writes over it


class WeightPlaces:
    """Where the weights of a model lie, and how its adapters are switched."""

    def __init__(self, model: torch.nn.Module) -> None:
        """Look at the weights.

        Args:
            model: a transformers model, perhaps with layers of peft.
        """
        self._model = model
        self.stale = False
        """New weights were loaded: other tensors may have taken the place of the old ones."""
        self.unsure = False
        """Time has passed: tensors may have moved."""
        self._tensors: list[torch.Tensor] = []
        self._places: list[int] = []
        self._switches: list[list[str]] = []
        self._look()

    def moved(self) -> bool:
        """Return whether a pass would read other memory than at the last call."""
        if not self.stale and not self.unsure:
            return False
        before = self._tensors, self._places, self._switches
        if self.stale:
            self._look()
        else:
            self._places = [tensor.data_ptr() for tensor in self._tensors]
        self.stale = self.unsure = False
        same = len(before[0]) == len(self._tensors) and all(
            old is new for old, new in zip(before[0], self._tensors, strict=True)
        )
        return not (same and before[1:] == (self._places, self._switches))

    def _look(self) -> None:
        self._tensors = [*self._model.parameters(), *self._model.buffers()]
        self._places = [tensor.data_ptr() for tensor in self._tensors]
        names = ("merged", "disable_adapters", "active_adapters")
        self._switches = [
            [str(getattr(module, name, "")) for name in names]
            for module in self._model.modules()
            if hasattr(module, "disable_adapters") or hasattr(module, "merged")
        ]


def step_attention(device: torch.device, width: int) -> StepAttention:
    """Return how such a pass attends to its pages: by a kernel on CUDA, and to copies of them elsewhere."""
    if device.type != "cuda" or width < 16 or width & (width - 1):
        return attend_gathered
    try:
        from turnwise.agents.samplers.transformers.page_kernel import attend_pages
    except ImportError:  # torch for CUDA comes with Triton, but not on every system
        return attend_gathered
    return attend_pages


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()
