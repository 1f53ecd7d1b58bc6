"""Captured passes of new tokens, by the number of tokens.

A pass takes the new tokens of all its rows one after the other: one of a row that samples, and those of an observation
of a row that arrives. Neither waits for the other, and no launch is paid twice. A pass with t tokens uses the capture
for the next power of two; the other tokens write to a page that nobody reads. A capture reads weights and pages where
they were, so it is dropped when one of them moves: weights that are changed in place, as a learner does, need no new
capture.

Each token reads the keys before it by itself, so observations after long histories are not captured (`KEYS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from turncredit.engines.transformers.graph_capture import Capture
from turncredit.engines.transformers.kvcache import PagedCache
from turncredit.engines.transformers.step_access import StepAccess, StepAttention, attend_gathered

Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, StepAccess], torch.Tensor]
"""Returns the logits [K, V] after the tokens at places int64 [K], for ids and positions, int64 [1, N]."""

KEYS = 2**20
"""Most keys that the tokens of a captured pass with observations read together. At two kinds of heads of 128 this is
1 GB for each layer, a fraction of a millisecond at the speed of a large GPU's cache (arithmetic, not measured), where
Python needs about one to start the layer's kernels."""

COPIED_KEYS = KEYS // 8
"""The same where keys are copied for each token."""

LEAST = 64
"""Tokens of the smallest capture for passes with observations: a GPU computes 64 as quickly as one."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row of the pass: its new tokens, the position of the first, and the pages of its sequence."""

    tokens: Sequence[int]
    position: int
    pages: Sequence[int]


class PassSize(NamedTuple):
    """What rows need of a pass together."""

    rows: int = 0
    tokens: int = 0
    keys: int = 0
    """That their tokens read, at most."""
    end: int = 0
    """Tokens of the longest sequence after the pass."""

    @classmethod
    def of(cls, rows: Sequence[StepRow]) -> PassSize:
        """Return the size of some rows."""
        size = cls()
        for row in rows:
            size = size.joined(len(row.tokens), row.position)
        return size

    def joined(self, tokens: int, position: int) -> PassSize:
        """Return the size with a row more, of some tokens from a position on."""
        end = position + tokens
        return PassSize(self.rows + 1, self.tokens + tokens, self.keys + tokens * end, max(self.end, end))


class CaptureFailed(Exception):
    """A pass cannot be captured; the message says why."""


class StepGraphs:
    """Computes the logits of the next token of each row through captured passes."""

    def __init__(
        self, model: torch.nn.Module, forward: Forward, capture: Capture, width: int, most: int, rows: int, tokens: int
    ) -> None:
        """Keep what is captured; nothing is before the first pass.

        Args:
            model: whose weights the passes read.
            forward: the pass.
            capture: how work is captured.
            width: tokens in a page.
            most: most pages of a sequence.
            rows: rows of most passes, at most; larger passes have captures of their own.
            tokens: most new tokens of a pass with observations.
        """
        self._forward, self._capture = forward, capture
        self._width, self._most, self._rows, self._tokens = width, most, rows, tokens
        self.attention = step_attention(next(model.parameters()).device, width)
        """How its passes attend to pages."""
        self.kernel_failure: str | None = None
        """Why the kernel for that is not used; None: it is, or there is none."""
        self._weights = WeightPlaces(model)
        self._captured: dict[_Shape, _Captured] = {}
        self._cache: PagedCache | None = None
        self._capacity = 0
        self.captures = 0
        """Number of captures so far."""

    def takes(self, size: PassSize) -> bool:
        """Return whether one captured pass may compute rows with observations; single tokens are always possible."""
        if self.attention is attend_gathered:
            shape = self._shape(size)
            return size.tokens <= self._tokens and shape.tokens * shape.pages * self._width <= COPIED_KEYS
        return size.tokens <= self._tokens and size.keys <= KEYS

    def logits(self, rows: Sequence[StepRow], cache: PagedCache) -> torch.Tensor | None:
        """Return the logits [B, V] of the next token of each row; None if no captured pass may compute them.

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
        size = PassSize.of(rows)
        captured = self._captured.get(self._shape(size))
        if captured is None:
            try:
                captured = self._record(rows, size, cache)
            except CaptureFailed as error:
                if self.attention is attend_gathered:
                    raise
                self.attention, self.kernel_failure = attend_gathered, str(error)
                if size.tokens > size.rows and not self.takes(size):  # its copies would be too large
                    return None
                captured = self._record(rows, size, cache)
        else:
            captured.fill(rows, cache.capacity - 1)
        return captured.replay(len(rows))

    def _shape(self, size: PassSize) -> _Shape:
        """Return the shape of the capture for rows of this size."""
        tokens = _power(size.tokens if size.tokens == size.rows else max(LEAST, size.tokens))
        # The copy for `attend_gathered` is as wide as the table; the kernel stops at each token's own position.
        needed = (size.end - 1) // self._width + 1
        pages = min(_power(needed), self._most) if self.attention is attend_gathered else self._most
        return _Shape(tokens, min(tokens, _power(max(self._rows, size.rows))), pages)

    def _record(self, rows: Sequence[StepRow], size: PassSize, cache: PagedCache) -> _Captured:
        """Capture the pass for these rows, with their inputs."""
        assert cache.device is not None
        shape = self._shape(size)
        captured = _Captured(shape, cache.device, self._capture)
        captured.fill(rows, cache.capacity - 1)
        try:
            captured.record(self._forward, self._width, self.attention)
        except Exception as error:  # a model may do anything in its pass, and compilers have errors of their own
            reason = str(error).strip().partition("\n")[0]
            raise CaptureFailed(f"{type(error).__name__}: {reason}") from error
        self._captured[shape] = captured
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


class _Shape(NamedTuple):
    """The sizes of a captured pass."""

    tokens: int
    rows: int
    pages: int
    """Of each row."""


class _Captured:
    """The inputs of one captured pass, which stay where they are, and its result."""

    def __init__(self, shape: _Shape, device: torch.device, capture: Capture) -> None:
        self._capture, self._shape = capture, shape
        # In one piece, which is one copy to the device: of each token its id, its position and its row, of each row
        # the place of its last token and its pages, and the pages of the tokens beyond the rows.
        self._parts = [*[shape.tokens] * 3, shape.rows, (shape.rows + 1) * shape.pages]
        size = sum(self._parts)
        self._here = torch.zeros(size, dtype=torch.int64, pin_memory=capture.pinned)
        self._inputs = torch.zeros(size, dtype=torch.int64, device=device)
        self._written = np.split(self._here.numpy(), np.cumsum(self._parts)[:-1])
        self._wait: Callable[[], None] | None = None
        self._replay: Callable[[], None] | None = None
        self._out: torch.Tensor | None = None

    def fill(self, rows: Sequence[StepRow], idle: int) -> None:
        """Copy the inputs to the device; tokens beyond those of the rows write to the page `idle`."""
        if self._wait is not None:
            self._wait()  # the copy before this one, which ended long ago unless a pass failed
        ids, positions, owners, last, pages = self._written
        sizes = np.array([len(row.tokens) for row in rows])
        ends = np.cumsum(sizes)
        count = int(ends[-1])
        ids[:count], ids[count:] = np.fromiter(chain.from_iterable(row.tokens for row in rows), np.int64, count), 0
        starts = np.array([row.position for row in rows]) - (ends - sizes)
        positions[:count], positions[count:] = np.repeat(starts, sizes) + np.arange(count), 0
        owners[:count], owners[count:] = np.repeat(np.arange(len(rows)), sizes), self._shape.rows
        last[: len(rows)], last[len(rows) :] = ends - 1, 0
        table = pages.reshape(self._shape.rows + 1, self._shape.pages)
        table[:] = idle
        lengths = [len(row.pages) for row in rows]
        places = np.arange(max(lengths)) < np.array(lengths)[:, None]
        table[: len(rows), : places.shape[1]][places] = np.fromiter(
            chain.from_iterable(row.pages for row in rows), np.int64, sum(lengths)
        )
        self._inputs.copy_(self._here, non_blocking=True)
        self._wait = self._capture.after_copy()

    def record(self, forward: Forward, width: int, attention: StepAttention) -> None:
        """Capture the pass."""
        ids, positions, owners, last, pages = torch.split(self._inputs, self._parts)
        table = pages.view(self._shape.rows + 1, self._shape.pages)

        def run() -> torch.Tensor:
            access = StepAccess(positions, table.index_select(0, owners), width, attention)
            return forward(ids[None], positions[None], last, access)

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
        from turncredit.engines.transformers.page_kernel import attend_pages
    except ImportError:  # torch for CUDA comes with Triton, but not on every system
        return attend_gathered
    return attend_pages


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()
