"""What a client can do with an Android device, however it is connected: over adb, or in the same process.

    device.tap(540, 1200)
    device.type_text("hello")
    root = device.dump()             the accessibility tree
    image = device.screenshot()      uint8 [H, W, 3]

Nothing here knows what the device is. A method returns when the device has accepted the input; whether the screen has
come to rest is the caller's business (`settle` waits for that).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from turncredit.tools.android.node import Node

__all__ = ["Device", "DeviceError", "DeviceLost"]


class DeviceError(Exception):
    """The device refused a request, or answered nonsense; it is still there."""


class DeviceLost(DeviceError):
    """The device cannot be reached: absent, offline, unauthorised, or its connection died."""


class Device(Protocol):
    """One device. Coordinates are in pixels of the screen as it is now turned.

    Every method raises DeviceLost if the device is gone, and DeviceError if it refuses.
    """

    @property
    def serial(self) -> str:
        """The name by which adb lists it."""
        ...

    def size(self) -> tuple[int, int]:
        """Return width and height of the screen as it is now turned."""
        ...

    def dump(self) -> Node:
        """Return the accessibility tree of the active window."""
        ...

    def screenshot(self, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Return the screen as uint8 [H, W, 3], scaled to (width, height) if given."""
        ...

    def activity(self) -> str:
        """Return the component in front, such as 'com.android.settings/.Settings'."""
        ...

    def settle(self) -> None:
        """Return when the screen has come to rest, or after a few seconds."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass on the device."""
        ...

    def tap(self, x: int, y: int) -> None:
        """Tap a point."""
        ...

    def double_tap(self, x: int, y: int) -> None:
        """Tap a point twice, quickly."""
        ...

    def long_press(self, x: int, y: int) -> None:
        """Hold a point for a second."""
        ...

    def swipe(self, start: tuple[int, int], end: tuple[int, int], milliseconds: int = 500) -> None:
        """Draw a finger from one point to another."""
        ...

    def type_text(self, text: str) -> None:
        """Type a text into the field with the focus."""
        ...

    def key(self, *codes: int) -> None:
        """Press a key by its Android key code; several are held together, modifiers first."""
        ...

    def launch(self, component: str) -> None:
        """Bring an app to the front, by package ('org.example') or activity ('org.example/.Main')."""
        ...

    def shell(self, command: str) -> str:
        """Return what a shell command prints (standard output and error).

        Raises:
            DeviceError: it ended with another exit code than 0.
        """
        ...

    def push(self, data: bytes, path: str) -> None:
        """Write a file."""
        ...

    def pull(self, path: str) -> bytes:
        """Return a file."""
        ...

    def close(self) -> None:
        """Let go of the device, which goes on running."""
        ...

    def __enter__(self) -> object:
        """Return itself."""
        ...

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        ...
