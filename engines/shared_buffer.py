"""A buffer on a GPU that another process reads through CUDA IPC, without a copy.

The handle of the memory travels as plain values (numbers and base64), so that nobody has to unpickle what a message
brings. The GPU is named by its UUID, since processes may number them differently.

Memory of expandable segments cannot be shared like this, so the buffer is allocated without them.
"""

from __future__ import annotations

import base64
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["SharedBuffer", "plain_handle", "rebuild_arguments", "without_expandable_segments"]

VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables of the environment with the settings of torch's allocator; the first one that is set counts."""
EXPANDABLE = "expandable_segments"
CLASSES = (0, 4, 5)
"""Places of classes and of the type in the arguments of torch's `rebuild_cuda_tensor`, which the receiver knows."""
DEVICE = 6
"""Place of the number of the GPU, which is another one for the receiver."""


class SharedBuffer:
    """Bytes on a GPU, with the handle by which other processes find them.

    Args:
        device: GPU, as torch names it in this process.
        size: number of bytes.

    Attributes:
        uuid: of the GPU.
        handle: for `rebuild_arguments`.
    """

    def __init__(self, device: str, size: int) -> None:
        import torch
        from torch.multiprocessing.reductions import reduce_tensor

        self._device = torch.device(device)
        with without_expandable_segments():
            self._bytes = torch.empty(size, dtype=torch.uint8, device=self._device)
        self.uuid = str(torch.cuda.get_device_properties(self._device).uuid)
        self.handle = plain_handle(reduce_tensor(self._bytes)[1])  # type: ignore[no-untyped-call]

    def put(self, tensor: torch.Tensor, dtype: torch.dtype, start: int) -> int:
        """Copy a tensor, in another type, to the bytes from `start` on; return where it ends.

        Args:
            tensor: on any device.
            dtype: type in which it is stored.
            start: a multiple of the type's size.
        """
        end = start + tensor.numel() * dtype.itemsize
        self._bytes[start:end].view(dtype).view(tensor.shape).copy_(tensor)
        return end

    def copy(self, other: SharedBuffer, end: int) -> None:
        """Copy the first bytes of a buffer on another GPU."""
        self._bytes[:end].copy_(other._bytes[:end])

    def wait(self) -> None:
        """Return when all copies are there; the reader is not told of those in progress."""
        import torch

        torch.cuda.synchronize(self._device)

    def free(self) -> None:
        """Give the memory back, as soon as the readers have closed it, for another process to have it."""
        import torch

        del self._bytes
        gc.collect(0)  # of what an error holds
        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
        with torch.cuda.device(self._device):
            torch.cuda.empty_cache()


def plain_handle(arguments: Sequence[object]) -> list[object]:
    """Return the arguments of `rebuild_cuda_tensor` for a flat tensor of bytes, as JSON and msgpack can have them."""
    plain: list[object] = []
    for index, value in enumerate(arguments):
        if index in CLASSES:
            plain.append(None)
        elif isinstance(value, bytes):
            plain.append({"base64": base64.b64encode(value).decode()})
        else:
            plain.append(list(value) if isinstance(value, tuple) else value)
    return plain


def rebuild_arguments(handle: Sequence[object], device: int) -> tuple[object, ...]:
    """Return the arguments of torch's `rebuild_cuda_tensor` for a handle.

    Args:
        handle: from `plain_handle`.
        device: number of the GPU in this process.
    """
    import torch

    classes = dict(zip(CLASSES, (torch.Tensor, torch.storage.TypedStorage, torch.uint8), strict=True))
    values = classes | {1: torch.Size(_numbers(handle[1])), 2: tuple(_numbers(handle[2])), DEVICE: device}
    return tuple(values.get(index, _bytes_or(value)) for index, value in enumerate(handle))


@contextmanager
def without_expandable_segments() -> Iterator[None]:
    """Allocate memory that can be shared inside, under any settings of the allocator."""
    import torch

    before = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    fields = [field.strip() for field in before.split(",") if field.strip()]
    others = [field for field in fields if field.partition(":")[0].strip() != EXPANDABLE]
    if len(others) == len(fields):
        yield
        return
    configure = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    configure = configure or torch.cuda.memory._set_allocator_settings
    configure(",".join([*others, f"{EXPANDABLE}:False"]))  # torch drops every setting that is not named
    try:
        yield
    finally:
        configure(before)


def _numbers(values: object) -> list[int]:
    return [int(value) for value in values] if isinstance(values, Sequence) else []


def _bytes_or(value: object) -> object:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
