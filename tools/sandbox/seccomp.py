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
from typing import Final

from turnwise.tools.sandbox import kernel

# name: (x86-64, aarch64); None if the architecture does not have the call.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchownat": (260, 54),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
}
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_PRLIMIT: Final = (302, 261)
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_SOCKET: Final = ("socket",)
_LASTING: Final = ("memfd_create", "mq_open", "msgget", "semget", "shmget")
_PRIORITY: Final = (
    "ioprio_set",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "setpriority",
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
