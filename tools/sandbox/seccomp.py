"""System call filters (seccomp-bpf) of all back ends, made from one table, `system_calls.txt`.

A line of the table is a name, its numbers on x86-64 and aarch64, and one of these classes:

    free        every program may use it
    never       reaches beyond a box, is shared by all of a machine, or is a wide attack surface that programs do not
                need: memory of other processes, keys, namespaces, mounts, bpf, io_uring and asynchronous I/O contexts,
                inotify and fanotify, performance counters, the clock, modules
    attributes  extended attributes: they would survive in directories, and landlock does not cover them
    locks       locks of whole files: they lie on the inode, and boxes share those of read-only files, devices,
                namespaces and event descriptors; fails with ENOSYS, as where a file system has no locks
    lasting     System V and POSIX objects, which outlive a program without its own IPC namespace
    memory      memory files, which count as neither address space nor disk
    times       times of files, which anyone who may write a file can change
    modes       modes and owners of files
    priority    priorities of processes
    absent      its flags are behind a pointer, where a filter cannot read them; it fails with ENOSYS, so that the C
                library uses the older call
    socket, checked   depends on the arguments. Of fcntl, the commands in `_FCNTL` are allowed. Record locks, which have
                the same inodes, succeed and lock nothing, since SQLite needs them. Refused with the others are
                F_NOTIFY, which is an older inotify, leases, which hold up those who open the file, and locks of open
                file descriptions, which /proc/locks shows to all boxes

Calls that are not in the table, newer ones for example, fail with ENOSYS. Calls of another architecture (32-bit calls
on x86-64) kill the process.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

from turncredit.tools.sandbox import kernel

CallClass = Literal[
    "free",
    "never",
    "attributes",
    "locks",
    "lasting",
    "memory",
    "times",
    "modes",
    "priority",
    "absent",
    "socket",
    "checked",
]
_Line = tuple[int, int, int, int]  # of a filter: code, jump if true, jump if false, operand

_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NAMESPACES: Final = 0x7E020080  # every CLONE_NEW* flag that clone() knows: ns, cgroup, uts, ipc, user, pid, net, time
_TMPFILE: Final = 0x400000  # the bit of O_TMPFILE that is not O_DIRECTORY
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_RECORD_LOCKS: Final = (6, 7)  # F_SETLK and F_SETLKW
_FCNTL: Final = (
    *range(6),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK
    *(8, 9, 10, 11, 15, 16, 17),  # owner and signal of a descriptor: its own processes, by user id or namespace
    *(1025, 1027, 1028),  # F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY
    *range(1030, 1036),  # F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT
)
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_LOAD, _EQUAL, _ATLEAST, _ANYBIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ARGUMENT: Final = (16, 24, 32)  # where the lower halves of the first three arguments are


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """What the programs of a box may call.

    Args:
        network: whether they share the network of the machine. They then get no Unix sockets, since those of the
            machine would be in reach; `socketpair` remains.
        sockets: whether they may create sockets at all.
        path_bound: whether a mount namespace limits them to their own files and to read-only ones; an IPC namespace
            comes with it. If not, unnamed files are refused as well: the watch on disk usage could not see them.
        own_ipc: whether System V and POSIX objects vanish with the program.
        memory_files: whether memory files are counted.
        own_uid: whether they run as the user who started them, whose files and processes they could then change.
    """

    network: bool = False
    sockets: bool = True
    path_bound: bool = True
    own_ipc: bool = True
    memory_files: bool = True
    own_uid: bool = False

    def error(self, kind: CallClass) -> int | None:
        """Return the error number that calls of a class fail with; 0: they succeed without an effect; None: allowed."""
        if kind == "never":
            return errno.EPERM
        if kind == "attributes":
            return errno.EOPNOTSUPP
        if kind in ("absent", "locks"):
            return errno.ENOSYS
        if kind == "times":
            return None if self.path_bound else 0  # copying and unpacking goes on, with the time of now
        allowed = {
            "lasting": self.own_ipc,
            "memory": self.memory_files,
            "modes": self.path_bound or not self.own_uid,
            "priority": self.path_bound or not self.own_uid,
            "socket": self.sockets,
        }
        return None if allowed.get(kind, True) else errno.EPERM

    def families(self) -> list[tuple[int, int | None]]:
        """Return the socket families that may be used, each with the only protocol of it, or None for all."""
        unix: list[tuple[int, int | None]] = [] if self.network else [(_UNIX, None)]
        return [*unix, (_INET, None), (_INET6, None), (_NETLINK, 0)]  # name lookups ask NETLINK_ROUTE for addresses


class _SystemCall(NamedTuple):
    numbers: tuple[int | None, int | None]
    kind: CallClass


@cache
def _table() -> dict[str, _SystemCall]:
    text = files("turncredit.tools.sandbox").joinpath("system_calls.txt").read_text(encoding="ascii")
    rows: list[Any] = [line.split() for line in text.splitlines()]
    return {name: _SystemCall((_number(first), _number(second)), kind) for name, first, second, kind in rows}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def supported() -> bool:
    """Return whether the system call numbers of this machine are known."""
    return kernel.LINUX and os.uname().machine in _ARCHITECTURES


@cache
def program(policy: CallPolicy) -> bytes:
    """Return the filter of a policy as an array of the kernel's `struct sock_filter`.

    Raises:
        OSError: the system call numbers of this architecture are unknown.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"system call numbers of {machine} are unknown")
    column, audit = _ARCHITECTURES[machine]
    calls = {
        name: (number, call.kind) for name, call in _table().items() if (number := call.numbers[column]) is not None
    }
    last = max(number for number, _ in calls.values())
    code: list[_Line] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        code += [(_ATLEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]  # x32 numbers alias the same calls
    code += [(_ATLEAST, 0, 1, last + 1), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number, kind in sorted(calls.values()):
        if (error := policy.error(kind)) is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
    for name, lines in _argument_checks(policy).items():
        if name in calls:
            code += [(_EQUAL, 0, len(lines), calls[name][0]), *lines]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in code)


def _argument_checks(policy: CallPolicy) -> dict[str, list[_Line]]:
    """Return, for calls that depend on their arguments, the lines that allow or refuse them."""
    refuse, allow = (_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)
    checks: dict[str, list[_Line]] = {
        # The limits of pid 0, the caller itself, but not those of others.
        "prlimit64": [(_LOAD, 0, 0, _ARGUMENT[0]), (_EQUAL, 1, 0, 0), refuse, allow],
        "clone": [(_LOAD, 0, 0, _ARGUMENT[0]), (_ANYBIT, 0, 1, _NAMESPACES), refuse, allow],
        "socketpair": [(_LOAD, 0, 0, _ARGUMENT[0]), (_EQUAL, 1, 0, _UNIX), refuse, allow],
        "fcntl": [
            (_LOAD, 0, 0, _ARGUMENT[1]),
            *(line for command in _FCNTL for line in ((_EQUAL, 0, 1, command), allow)),
            *(line for command in _RECORD_LOCKS for line in ((_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ERRNO))),
            refuse,
        ],
    }
    if policy.sockets:
        lines: list[_Line] = [(_LOAD, 0, 0, _ARGUMENT[0])]
        for family, protocol in policy.families():
            if protocol is None:
                lines += [(_EQUAL, 0, 1, family), allow]
            else:
                lines += [(_EQUAL, 0, 4, family), (_LOAD, 0, 0, _ARGUMENT[2]), (_EQUAL, 0, 1, protocol), allow, refuse]
        checks["socket"] = [*lines, refuse]
    else:
        checks["socket"] = [refuse]
    if not policy.path_bound:
        unnamed = [(_ANYBIT, 0, 1, _TMPFILE), (_RETURN, 0, 0, _ERRNO | errno.EOPNOTSUPP), allow]
        checks["open"] = [(_LOAD, 0, 0, _ARGUMENT[1]), *unnamed]
        checks["openat"] = [(_LOAD, 0, 0, _ARGUMENT[2]), *unnamed]
    return checks


def docker_profile(policy: CallPolicy) -> str:
    """Return the policy as a seccomp profile of Docker; calls that the daemon does not know are refused."""
    names: dict[int | None, list[str]] = {}
    for name, call in sorted(_table().items()):
        names.setdefault(policy.error(call.kind), []).append(name)
    checked = {"clone", "fcntl", "socket", "socketpair"}
    rules: list[dict[str, object]] = [
        {"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
        for error, refused in names.items()
        if error is not None and error != errno.EPERM
    ]
    rules.append({"names": [name for name in names[None] if name not in checked], "action": "SCMP_ACT_ALLOW"})
    rules.append(_docker_rule("clone", {"index": 0, "value": _NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}))
    rules.append(_docker_rule("socketpair", {"index": 0, "value": _UNIX, "op": "SCMP_CMP_EQ"}))
    rules += [_docker_rule("fcntl", {"index": 1, "value": command, "op": "SCMP_CMP_EQ"}) for command in _FCNTL]
    for command in _RECORD_LOCKS:
        rule = _docker_rule("fcntl", {"index": 1, "value": command, "op": "SCMP_CMP_EQ"})
        rules.append({**rule, "action": "SCMP_ACT_ERRNO", "errnoRet": 0})
    for family, protocol in policy.families():
        only = [] if protocol is None else [{"index": 2, "value": protocol, "op": "SCMP_CMP_EQ"}]
        rules.append(_docker_rule("socket", {"index": 0, "value": family, "op": "SCMP_CMP_EQ"}, *only))
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": errno.EPERM, "syscalls": rules})


def _docker_rule(name: str, *arguments: dict[str, object]) -> dict[str, object]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": list(arguments)}


def install(filter_: bytes) -> None:
    """Install the filter in this process, permanently. PR_SET_NO_NEW_PRIVS must be set first."""
    buffer = ctypes.create_string_buffer(filter_, len(filter_))
    header = struct.pack("HxxxxxxP", len(filter_) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    kernel.call("prctl", kernel.PR_SET_SECCOMP, ctypes.c_ulong(2), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0))
