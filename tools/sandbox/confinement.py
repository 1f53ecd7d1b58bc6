"""Turn a forked child of the fork server into a program of a box: descriptors, limits, user, isolation, exec."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from turncredit.tools.sandbox import bwrap, cgroups, hidden, kernel, landlock, mounts, seccomp, user_ids

Request: TypeAlias = dict[str, Any]
"""A request to the fork server; JSON values."""
READABLE: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"),
)
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass
class ServedBox:
    """The server's record of a box.

    `readable` pairs the current path of a directory with the one programs see; `hidden` is what they cannot read in it;
    `folders` are those to write to, name in the storage -> path that programs see.
    """

    uid: int
    lease: user_ids.UserIdLease | None
    storage: mounts.BoxStorage
    group: cgroups.ControlGroup | None
    readable: list[tuple[str, str]]
    hidden: tuple[str, ...] = ()
    folders: dict[str, str] = field(default_factory=dict)
    programs: set[int] = field(default_factory=set)
    granted: tuple[list[str], list[str]] | None = None  # by landlock: what may be read, and what may be listed

    def policy(self, backend: str, *, network: bool) -> seccomp.CallPolicy:
        """Return what the programs of the box may call."""
        if backend == "bwrap":
            return seccomp.CallPolicy(network=network, memory_files=self.group is not None)
        return seccomp.CallPolicy(
            network=network,
            sockets=network,
            path_bound=False,
            own_ipc=False,
            memory_files=False,
            own_uid=self.lease is None,
        )

    def grants(self) -> tuple[list[str], list[str]]:
        """Return the paths that programs may read under landlock, and those that they may list; found once."""
        if self.granted is None:
            self.granted = hidden.piecewise([*READABLE, *(seen for _, seen in self.readable)], self.hidden)
        return self.granted


def exec_program(box: ServedBox, request: Request, fds: list[int], info: int, status: int) -> None:
    """Turn this forked child into the program. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if box.group:
            os.write(box.group.join(), b"0")
        confine = _confine_bwrap if request["backend"] == "bwrap" else _confine_landlock
        argv = confine(box, request, fds, info)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.execvpe(argv[0], argv, request["env"])
        os.write(2, f"{argv[0]}: cannot be run\n".encode())
    except BaseException as error:
        os.write(status, json.dumps({"error": f"{error}"}).encode())
    finally:
        os._exit(127)


def _set_descriptors(targets: list[int]) -> None:
    """Make the wanted descriptors 0, 1, 2, ...; all others are closed by exec."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in targets]  # so that they do not overwrite each other
    for number, fd in enumerate(high):
        os.dup2(fd, number, inheritable=True)


def _confine_bwrap(box: ServedBox, request: Request, fds: list[int], info: int) -> list[str]:
    """Return the command line of bubblewrap."""
    parent = os.getppid()
    network = request["network"]
    filter_fd = os.memfd_create("filter")
    os.write(filter_fd, seccomp.program(box.policy("bwrap", network=network)))
    os.lseek(filter_fd, 0, os.SEEK_SET)
    box.storage.enter()
    argv = bwrap.arguments(
        request["bwrap"],
        box.storage.path,
        box.readable,
        network=network,
        filter_fd=3,
        info_fd=4,
        hidden=box.hidden,
        folders=box.folders,
    )
    _set_descriptors([*fds[:3], filter_fd, info])
    _set_rlimits(request["limits"])
    _drop_privileges(box, parent)
    return [*argv, *request["argv"]]


def _confine_landlock(box: ServedBox, request: Request, fds: list[int], info: int) -> list[str]:
    """Restrict this process by landlock and seccomp; return the program's own command line."""
    parent = os.getppid()
    path, limits = box.storage.path, request["limits"]
    filter_ = seccomp.program(box.policy("landlock", network=request["network"]))
    _set_descriptors(fds[:3])
    if not box.lease and not box.storage.namespaces:  # the limit counts the user's other processes too
        limits["RLIMIT_NPROC"] = [number + user_ids.tasks(box.uid) for number in limits["RLIMIT_NPROC"]]
    _set_rlimits(limits)
    box.storage.enter()
    _drop_privileges(box, parent)
    os.chdir(f"{path}/work")
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    read, listed = box.grants()
    write = [f"{path}/{name}" for name in mounts.FOLDERS]
    landlock.restrict(read, write, list(DEVICES), network=request["network"], listed=listed)
    seccomp.install(filter_)
    return list(request["argv"])


def _drop_privileges(box: ServedBox, parent: int) -> None:
    """Switch to the box's user, then ask to die with the server (changing the user would undo that)."""
    if box.lease:
        user_ids.become(box.uid)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def _set_rlimits(limits: dict[str, list[int]]) -> None:
    for name, (soft, hard) in limits.items():
        number = getattr(resource, name)
        maximum = resource.getrlimit(number)[1]
        if maximum != resource.RLIM_INFINITY:
            soft, hard = min(soft, maximum), min(hard, maximum)
        resource.setrlimit(number, (soft, hard))
