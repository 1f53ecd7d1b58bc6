"""Landlock: restrict a process to some paths of the file system, without privileges.

Landlock does not cover stat(), chmod, chown, times and attributes of files; `seccomp.py` and a separate user id for the
box do.

Source: Documentation/userspace-api/landlock.rst of Linux, ABI 1 to 7.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final

from turncredit.tools.sandbox import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_TRUNCATE: Final = 1 << 14
_DEVICES: Final = 1 << 15
_FILE_ACCESS: Final = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICES
_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # number of access rights by ABI; later ABIs as 5
_MAKE_DEVICES: Final = (1 << 6) | (1 << 11)  # character and block devices
SCOPES: Final = 6  # first ABI that can restrict signals and abstract sockets


def abi() -> int:
    """Return the landlock ABI of the kernel; 0 if it has none or it is switched off."""
    try:
        return kernel.syscall(_CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(
    read: list[str], write: list[str], devices: list[str], *, network: bool, listed: Sequence[str] = ()
) -> None:
    """Restrict this process: it may read and execute `read`, do anything below `write`, and read and write `devices`.

    In `listed` and below, it may list directories.

    Missing paths are ignored. PR_SET_NO_NEW_PRIVS must be set first. From ABI 4 on, TCP is blocked as well; from ABI 6
    on, so are signals to processes outside and their abstract sockets.
    """
    version = abi()
    handled = (1 << _BITS.get(version, _BITS[5])) - 1
    ports = 0 if network or version < 4 else 3
    scopes = 3 if version >= SCOPES else 0
    attributes = struct.pack("QQQ", handled, ports, scopes)[: 8 if version < 4 else 16 if version < SCOPES else 24]
    ruleset = kernel.syscall(_CREATE, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    try:
        for path in read:
            _allow(ruleset, path, (_EXECUTE | _READ | _READ_DIR) & handled)
        for path in listed:
            _allow(ruleset, path, _READ_DIR & handled)
        for path in write:
            _allow(ruleset, path, handled & ~_MAKE_DEVICES)
        for path in devices:
            _allow(ruleset, path, (_READ | _WRITE | _TRUNCATE) & handled)
        kernel.syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        folder = os.path.isdir(path)
        rule = struct.pack("=Qi", access if folder else access & _FILE_ACCESS, fd)
        kernel.syscall(_ADD, ruleset, 1, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(fd)
