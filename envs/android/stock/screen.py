"""A device whose screen is read once between two inputs, and only when it has come to rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turncredit.tools.android.device import Device
from turncredit.tools.android.node import Node

__all__ = ["SteadyDevice"]

_INPUTS = frozenset(("double_tap", "key", "launch", "long_press", "push", "shell", "swipe", "tap", "type_text", "wait"))


class SteadyDevice:
    """A `Device` in front of another: `dump` and `size` wait until the screen rests, and are kept until an input."""

    def __init__(self, device: Device) -> None:
        """Wrap a device."""
        self._device = device
        self._seen: tuple[Node, tuple[int, int]] | None = None

    def __getattr__(self, name: str) -> Any:
        """Return a method of the device; an input forgets the screen."""
        if name.startswith("_"):  # of copying and pickling
            raise AttributeError(name)
        if name in _INPUTS:
            self._seen = None
        return getattr(self._device, name)

    def _look(self) -> tuple[Node, tuple[int, int]]:
        if self._seen is None:
            self._device.settle()
            self._seen = self._device.dump(), self._device.size()
        return self._seen

    def dump(self) -> Node:
        """Return the accessibility tree of the screen at rest."""
        return self._look()[0]

    def size(self) -> tuple[int, int]:
        """Return width and height of the screen as it is now turned."""
        return self._look()[1]

    def screenshot(self, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Return the screen at rest as uint8 [H, W, 3]."""
        self._look()
        return self._device.screenshot(size)
