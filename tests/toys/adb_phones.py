"""What the tests of adb need: the program, a server of its own at a port of its own, and phones behind it.

Under CI the program must be there. The server is not the user's: nothing here disturbs other devices.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from toys.ports import reserved_port

from turncredit.phone import Phone
from turncredit.phone.adb import AdbServer


def adb_program() -> str:
    """The path of adb; the test is skipped without it, and fails where it must be there."""
    found = shutil.which("adb")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("adb must be here under CI: apt-get install adb")
        pytest.skip("adb is not installed: apt-get install adb")
    return found


@contextmanager
def adb_server(patch: pytest.MonkeyPatch) -> Iterator[int]:
    """Run an adb server that only this test sees, and return its port."""
    program = adb_program()
    with tempfile.TemporaryDirectory() as home, reserved_port() as port:
        patch.delenv("ADB_SERVER_SOCKET", raising=False)
        patch.delenv("ANDROID_SERIAL", raising=False)
        patch.setenv("HOME", home)
        patch.setenv("ADB_MDNS", "0")
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        subprocess.run([program, "start-server"], capture_output=True, timeout=120, check=True)
        try:
            yield port
        finally:
            subprocess.run([program, "kill-server"], capture_output=True, timeout=120, check=False)


class Plugged:
    """A phone that adb has connected to, and the stock program to drive it."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.server = AdbServer(phone, console_port=0)
        self.serial = self.server.serial
        assert f"connected to {self.serial}" in adb("connect", self.serial).stdout.decode()

    def adb(self, *args: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return adb("-s", self.serial, *args, data=data)

    def shell(self, command: str) -> str:
        return self.adb("shell", command).stdout.decode()

    def close(self) -> None:
        adb("disconnect", self.serial)
        self.server.close()


def adb(*args: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([adb_program(), *args], input=data, capture_output=True, timeout=120, check=False)
