"""Linux system calls that Python 3.11 does not wrap: prctl, namespaces, mounts and raw calls, through ctypes.

Each raises OSError with the kernel's reason.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
PR_SET_PDEATHSIG: Final = 1
PR_SET_SECCOMP: Final = 22
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

LINUX: Final = sys.platform.startswith("linux")
_libc: Final = ctypes.CDLL(None, use_errno=True) if LINUX else None


def call(name: str, *arguments: object) -> int:
    """Call a function of the C library and return its result.

    Raises:
        OSError: the function returned -1.
    """
    if _libc is None:
        raise OSError(0, f"{name} needs Linux")
    result = int(getattr(_libc, name)(*arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    """Call the kernel by system call number; integers are passed as C longs."""
    return call("syscall", number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))


def prctl(option: int, *arguments: int) -> None:
    """Set an attribute of this process."""
    call("prctl", option, *(ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    call("unshare", flags)


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that a descriptor refers to."""
    call("setns", fd, kind)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount `source` on `target`."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    call("mount", *words[:3], ctypes.c_ulong(flags), words[3])
