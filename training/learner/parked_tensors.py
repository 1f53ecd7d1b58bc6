"""Optimizer states and weights in main memory, while something else needs the device on which they are used."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from turncredit.agents.device_memory import DeviceMemory

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor  # takes a while to import, and one process has none


class ParkedOptimizer:
    """Moves the states of an optimizer to main memory and back, bit by bit.

    Args:
        optimizer: of torch, or with the same attribute `state`.
        memory: of the device that its states are used on.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, memory: DeviceMemory) -> None:
        self._optimizer, self._memory = optimizer, memory
        self._away: list[tuple[dict[str, object], str]] = []

    def park(self) -> None:
        """Move what lies on the device to main memory."""
        for state in self._optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, Tensor) and self._memory.holds(_here(value)):
                    state[name] = _with(value, self._memory.to_host(_here(value)))
                    self._away.append((state, name))

    def fetch(self) -> None:
        """Move back what `park` has moved."""
        while self._away:
            state, name = self._away.pop()
            parked = state[name]
            assert isinstance(parked, Tensor)
            state[name] = _with(parked, self._memory.from_host(_here(parked)))


class ParkedWeights:
    """Moves weights to main memory and back, bit by bit.

    The weights of one process can be read while they are away, for an engine that loads them. A part of divided weights
    cannot: its memory on the device is empty, but keeps its place, since FSDP refers to it as well.

    Args:
        weights: returns the parameters that may be moved.
        memory: of the device that they are used on.
    """

    def __init__(self, weights: Callable[[], Iterable[torch.nn.Parameter]], memory: DeviceMemory) -> None:
        self._weights, self._memory = weights, memory
        self._whole: list[torch.nn.Parameter] = []
        self._parts: list[tuple[Tensor, Tensor, int]] = []

    def park(self) -> None:
        """Move what lies on the device to main memory."""
        for weight in self._weights():
            part = _here(weight.detach())
            if not part.untyped_storage().nbytes() or not self._memory.holds(part):
                continue
            host = self._memory.to_host(part)
            if hasattr(weight, "to_local"):
                storage = part.untyped_storage()
                self._parts.append((part, host, storage.nbytes()))
                storage.resize_(0)
            else:
                weight.data = host
                self._whole.append(weight)

    def fetch(self) -> None:
        """Move back what `park` has moved."""
        while self._whole:
            weight = self._whole.pop()
            weight.data = self._memory.from_host(weight.detach())
        while self._parts:
            part, host, size = self._parts.pop()
            part.untyped_storage().resize_(size)
            part.copy_(self._memory.from_host(host))


def copy_on_host(tensor: Tensor) -> Tensor:
    """Return a copy in main memory, of this process's part where a tensor is divided over ranks."""
    return _with(tensor.detach(), _here(tensor.detach()).to("cpu", copy=True))


def _here(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this process has; all of it where it is not divided over ranks."""
    return cast("DTensor", tensor).to_local() if hasattr(tensor, "to_local") else tensor


def _with(tensor: Tensor, part: Tensor) -> Tensor:
    """Return a tensor of which this process has another part, divided in the same way."""
    if not hasattr(tensor, "to_local"):
        return part
    # `DTensor.from_local` would move the part to the device of the mesh
    cast("DTensor", tensor)._local_tensor = part
    return tensor
