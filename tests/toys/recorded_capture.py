"""A capture on the CPU with the rules of a CUDA graph: the operations of one pass are recorded, and replayed alone.

A replay runs no Python of the model. It repeats the operations with the numbers and on the memory of the recording, so
that a tensor that was made outside, a length that was read in Python, or memory that has moved shows as it would on a
GPU. Operations that wait for the device are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NAMES = ("_local_scalar_dense", "item", "is_nonzero", "nonzero", "nonzero_numpy", "masked_select", "equal", "_unique2")
WAITING = {f"aten::{name}" for name in NAMES}


def waits(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operation reads numbers of the device in Python: shapes, or values."""
    name = func._schema.name
    by_mask = name in ("aten::index", "aten::index_put", "aten::index_put_") and any(
        isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in args[1]
    )
    return name in WAITING or by_mask or (name == "aten::where" and len(args) == 1)


class Tape(TorchDispatchMode):
    """Notes every operation with its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if waits(func, args):
            raise RuntimeError(f"{func._schema.name} waits for the device")
        out = func(*args, **(kwargs or {}))
        self.steps.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        for func, args, kwargs, out in self.steps:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old.numel() and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class RecordedCapture:
    """Captures by recording, and counts."""

    pinned = False

    def __init__(self) -> None:
        self.captures = self.replays = 0

    def __call__(self, run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        run()
        tape = Tape()
        with tape:
            out = run()
        out.fill_(torch.nan)  # a capture computes nothing
        self.captures += 1

        def replay() -> None:
            self.replays += 1
            tape.replay()

        return replay, out

    def after_copy(self) -> Callable[[], None]:
        return lambda: None
