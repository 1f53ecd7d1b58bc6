"""Landlock: the kernel's way for a process to give up the file system but for some paths. No rights are needed.

What it does not watch over: stat(), chmod, chown, times and attributes of files; `seccomp.py` and a user of its own for
the box see to these.

Source: Documentation/userspace-api/landlock.rst of Linux; the bits of ABI 1 to 7.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

from turnwise.tools.sandbox import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_TRUNCATE: Final = 1 << 14
_DEVICES: Final = 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICES
_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many kinds of access an ABI knows; later ones as ABI 5
_MAKE_DEVICES: Final = (1 << 6) | (1 << 11)  # character and block devices
SCOPES: Final = 6  # the ABI from which on signals and abstract sockets can be kept inside


def abi() -> int:
    """Return the version of landlock that the kernel has; 0: none, or it is switched off."""
    try:
        return kernel.syscall(_CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(read: list[str], write: list[str], devices: list[str], *, network: bool) -> None:
    """Give up everything but reading and running `read`, everything below `write`, and reading and writing `devices`.

    Paths that do not exist are left out. Needs PR_SET_NO_NEW_PRIVS first. From ABI 4 on TCP goes as well, from 6 on
    signals to and abstract sockets of everything outside.
    """
    version = abi()
    known = (1 << _BITS.get(version, _BITS[5])) - 1
    ports = 0 if network or version < 4 else 3
    scopes = 3 if version >= SCOPES else 0
    attributes = struct.pack("QQQ", known, ports, scopes)[: 8 if version < 4 else 16 if version < SCOPES else 24]
    ruleset = kernel.syscall(_CREATE, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    try:
        for path in read:
            _allow(ruleset, path, (_EXECUTE | _READ | _READ_DIR) & known)
        for path in write:
            _allow(ruleset, path, known & ~_MAKE_DEVICES)
        for path in devices:
            _allow(ruleset, path, (_READ | _WRITE | _TRUNCATE) & known)
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
        rule = struct.pack("=Qi", access if folder else access & _OF_FILES, fd)
        kernel.syscall(_ADD, ruleset, 1, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(fd)
