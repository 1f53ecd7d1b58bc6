"""The memory of one device: how much of it is free, and how to give back what torch holds without using it.

Everything that asks a GPU about its memory, or moves something out of it, does so through a `DeviceMemory`, so that a
test can put its own in the place of a GPU.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceMemory"]


class DeviceMemory:
    """The memory of a device, as torch names it; a CPU has none of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.name.startswith("cuda")

    def free_and_total(self) -> tuple[int, int] | None:
        """Return the bytes that are free for all processes together, and those that there are; None for a CPU."""
        if not self.is_gpu:
            return None
        import torch

        free, total = torch.cuda.mem_get_info(self.name)
        return int(free), int(total)

    def total(self) -> int | None:
        """Return the bytes that there are, without starting to compute on the device; None for a CPU."""
        if not self.is_gpu:
            return None
        import torch

        if not torch.cuda.is_available():
            return None
        return int(torch.cuda.get_device_properties(torch.device(self.name)).total_memory)

    def release(self) -> None:
        """Give back what torch's allocator keeps for later, so that another process can have it."""
        if not self.is_gpu:
            return
        import torch

        gc.collect()  # of cycles that hold tensors
        torch.cuda.synchronize(self.name)
        torch.cuda.empty_cache()

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor lies on the device, and not in main memory."""
        return self.is_gpu and bool(tensor.is_cuda)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor of the device in pinned main memory, from where it comes back at full speed."""
        import torch

        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor)

    def from_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the device of a tensor that `to_host` returned."""
        return tensor.to(self.name)
