"""System call filters (seccomp-bpf) that refuse calls a program in a box does not need, with EPERM.

`BASE` blocks calls that reach beyond a box or widen the attack surface of the kernel: memory of other processes, keys,
namespaces, mounts, bpf, io_uring (which bypasses filters), performance counters, the clock, modules.
`without_namespaces` adds calls for programs that have no namespaces of their own: sockets, System V and POSIX objects
that outlive the program, anonymous memory files; and, since landlock does not cover them, owners, modes, times and
attributes of files, priorities and limits of other processes.

`clone3` fails with ENOSYS, since a filter cannot read its flags; the C library then falls back to `clone`, whose flags
are checked. Calls of another architecture (32-bit calls on x86-64) kill the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from turnwise.tools.sandbox import kernel


def _read_numbers() -> dict[str, tuple[int | None, int | None]]:
    """Return system call -> its numbers on x86-64 and aarch64; None if the architecture does not have the call."""
    lines = files("turnwise.tools.sandbox").joinpath("system_calls.txt").read_text(encoding="ascii").splitlines()
    rows = [line.split() for line in lines]
    return {name: (_number(first), _number(second)) for name, first, second in rows}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


_NUMBERS: Final = _read_numbers()
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_PRLIMIT: Final = (302, 261)
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_SOCKET: Final = ("socket",)
_LASTING: Final = ("memfd_create", "mq_open", "msgget", "semget", "shmget")
_PRIORITY: Final = (
    *("ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority"),
)
_METADATA: Final = (
    *("chmod", "chown", "fchmodat", "fchmodat2", "fchownat", "futimesat", "lchown", "lremovexattr", "lsetxattr"),
    *("removexattr", "removexattrat", "setxattr", "setxattrat", "utime", "utimensat", "utimes"),
)
BASE: Final = tuple(set(_NUMBERS) - {*_SOCKET, *_LASTING, *_PRIORITY, *_METADATA})

_NAMESPACES: Final = 0x7E020080  # every CLONE_NEW* flag that clone() knows: ns, cgroup, uts, ipc, user, pid, net, time
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_LOAD, _EQUAL, _ATLEAST, _ANYBIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def supported() -> bool:
    """Return whether the system call numbers of this machine are known."""
    return kernel.LINUX and os.uname().machine in _ARCHITECTURES


def without_namespaces(*, network: bool, own_uid: bool) -> tuple[str, ...]:
    """Return the calls to refuse to a program without namespaces.

    Args:
        network: whether the program may use sockets.
        own_uid: whether it runs as the user who started it, whose files and processes it could then change.
    """
    more = () if network else _SOCKET
    return (*BASE, *_LASTING, *more, *((*_PRIORITY, *_METADATA) if own_uid else ()))


def program(names: Iterable[str], *, namespaces: bool = False) -> bytes:
    """Return the filter as an array of the kernel's `struct sock_filter`.

    Args:
        names: calls that fail with EPERM.
        namespaces: whether `clone` may create namespaces.

    Raises:
        OSError: the system call numbers of this architecture are unknown.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"system call numbers of {machine} are unknown")
    column, audit = _ARCHITECTURES[machine]
    deny = _ERRNO | errno.EPERM
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        code += [(_ATLEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]  # x32 numbers alias the same calls
    for number in sorted(n for name in names if (n := _NUMBERS[name][column]) is not None):
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, deny)]
    code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    # prlimit: allowed for pid 0, the caller itself.
    code += [(_EQUAL, 0, 4, _PRLIMIT[column]), (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, deny)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    if not namespaces:
        code += [(_EQUAL, 0, 3, _CLONE[column]), (_LOAD, 0, 0, 16), (_ANYBIT, 0, 1, _NAMESPACES), (_RETURN, 0, 0, deny)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in code)


def install(filter_: bytes) -> None:
    """Install the filter in this process, permanently. PR_SET_NO_NEW_PRIVS must be set first."""
    buffer = ctypes.create_string_buffer(filter_, len(filter_))
    header = struct.pack("HxxxxxxP", len(filter_) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    kernel.call("prctl", kernel.PR_SET_SECCOMP, ctypes.c_ulong(2), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0))
