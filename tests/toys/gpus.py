"""GPUs that do not exist, whose memory is counted: for tests of what happens on a card without one."""

from __future__ import annotations

import math
from typing import Any

from turncredit.agents.device_memory import DeviceMemory

GIB = 2**30


class CardFull(Exception):
    """More was allocated than the card has."""


class Card:
    """The memory of one card, and who holds how much of it.

    `start_vllm` does what the worker of vLLM 0.32 does when it starts and when it sleeps and wakes: CUDA is loaded
    before it looks at what is free, then it wants ceil(total * gpu_memory_utilization) of it.
    """

    def __init__(self, total: float) -> None:
        self.total = int(total)
        self.held: dict[str, float] = {}
        self.peak = 0.0

    @property
    def free(self) -> float:
        return self.total - sum(self.held.values())

    def hold(self, name: str, size: float) -> None:
        self.held[name] = size
        self.peak = max(self.peak, sum(self.held.values()))
        if self.free < 0:
            raise CardFull(f"{name} needs {size / GIB:.1f} GiB; held: {self.held}")

    def drop(self, *names: str) -> None:
        for name in names:
            self.held.pop(name, None)

    def start_vllm(self, sizes: dict[str, float], utilization: float) -> None:
        self.hold("vllm: libraries", sizes["libraries"])
        requested = math.ceil(self.total * utilization)
        if self.free < requested:
            raise ValueError(
                f"Free memory on device cuda:0 ({self.free / GIB:.2f}/{self.total / GIB:.2f} GiB) on startup is less "
                f"than desired GPU memory utilization ({utilization}, {requested / GIB:.2f} GiB)."
            )
        for name, size in sizes.items():
            self.hold(f"vllm: {name}", size)

    def sleep_vllm(self) -> None:
        self.drop("vllm: weights", "vllm: adapters", "vllm: cache", "vllm: activations")


class FakeMemory(DeviceMemory):
    """The memory of a GPU, of which tensors of the CPU take the place; what leaves it cannot be read there any more."""

    def __init__(self, name: str = "cuda", free: float = 0, total: float = 0) -> None:
        super().__init__(name)
        self.free, self.all = int(free), int(total)
        self.events: list[str] = []
        self._hosts: set[int] = set()

    def free_and_total(self) -> tuple[int, int] | None:
        return (self.free, self.all) if self.is_gpu else None

    def total(self) -> int | None:
        return self.all if self.is_gpu else None

    def release(self) -> None:
        self.events.append("release")

    def holds(self, tensor: Any) -> bool:
        return tensor.ndim > 0 and tensor.data_ptr() not in self._hosts

    def to_host(self, tensor: Any) -> Any:
        self.events.append("to host")
        return self._move(tensor, self._hosts.add)

    def from_host(self, tensor: Any) -> Any:
        self.events.append("from host")
        return self._move(tensor, lambda _: self._hosts.discard(tensor.data_ptr()))

    def _move(self, tensor: Any, keep: Any) -> Any:
        copy = tensor.clone()
        keep(copy.data_ptr())
        tensor.fill_(float("nan"))
        return copy
