"""A phone in the same process as a `Device`: what adb does over a port, without the port.

Everything that a client of a real device could not see stays hidden behind it; `phone` is for judges and tests.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from turncredit.phone.phone import Phone, UnknownApp
from turncredit.phone.shell import run_text
from turncredit.phone.storage import Storage, StorageError, normal_path
from turncredit.tools.android.device import DeviceError
from turncredit.tools.android.node import Node

__all__ = ["DirectDevice"]

Shell = Callable[[Phone, str], tuple[str, int]]
"""Runs a shell command on a phone and returns what it prints, and its exit code."""


class DirectDevice:
    """A `Device` that is a phone of this process."""

    def __init__(self, phone: Phone, shell: Shell | None = None) -> None:
        """Connect to a phone; `shell` runs its shell commands instead of the phone's own."""
        self.phone = phone
        self._shell = shell or run_text

    @property
    def serial(self) -> str:
        """The name of the connection."""
        return "direct"

    def size(self) -> tuple[int, int]:
        """Return width and height of the screen as it is now turned."""
        return self.phone.size

    def dump(self) -> Node:
        """Return the accessibility tree of the window in front."""
        return self.phone.tree()

    def screenshot(self, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Return the screen as uint8 [H, W, 3], scaled to (width, height) if given."""
        return np.array(self.phone.screenshot(size), dtype=np.uint8)

    def activity(self) -> str:
        """Return the component in front."""
        return self.phone.activity

    def settle(self) -> None:
        """Return at once: the phone is always at rest."""

    def wait(self, seconds: float) -> None:
        """Let a minute pass for every second: the phone's screens show minutes, and nobody wants to wait longer."""
        self.phone.advance(round(60 * seconds))

    def tap(self, x: int, y: int) -> None:
        """Tap a point."""
        self.phone.tap(x, y)

    def double_tap(self, x: int, y: int) -> None:
        """Tap a point twice."""
        self.phone.tap(x, y)
        self.phone.tap(x, y)

    def long_press(self, x: int, y: int) -> None:
        """Hold a point for a second."""
        self.phone.long_press(x, y)

    def swipe(self, start: tuple[int, int], end: tuple[int, int], milliseconds: int = 500) -> None:
        """Draw a finger from one point to another."""
        self.phone.swipe(*start, *end, milliseconds)

    def type_text(self, text: str) -> None:
        """Type a text into the field with the focus."""
        self.phone.text(text)

    def key(self, *codes: int) -> None:
        """Press a key by its Android key code; several are held together, modifiers first."""
        self.phone.key(*codes)

    def launch(self, component: str) -> None:
        """Bring an app to the front, by package or activity.

        Raises:
            DeviceError: it is not installed.
        """
        try:
            self.phone.launch(component)
        except UnknownApp as error:
            raise DeviceError(str(error)) from None

    def shell(self, command: str) -> str:
        """Return what a shell command prints.

        Raises:
            DeviceError: it failed.
        """
        output, code = self._shell(self.phone, command)
        if code:
            raise DeviceError(f"{command!r} ended with exit code {code}: {output.strip()}")
        return output

    def push(self, data: bytes, path: str) -> None:
        """Write a file, in directories that are made where they are missing."""
        storage, path = Storage(self.phone), normal_path(path)
        try:
            if storage.find(folder := posixpath.dirname(path)) is None:
                storage.make_directory(folder, parents=True)
            storage.write(path, data)
        except StorageError as error:
            raise DeviceError(f"{path}: {error}") from None

    def pull(self, path: str) -> bytes:
        """Return a file.

        Raises:
            DeviceError: there is none.
        """
        try:
            return Storage(self.phone).read(path)
        except StorageError as error:
            raise DeviceError(f"{path}: {error}") from None

    def close(self) -> None:
        """Do nothing: the caller owns the phone."""

    def __enter__(self) -> DirectDevice:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing."""
